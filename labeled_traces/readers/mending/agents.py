"""Who ran, for what, and what came of it, where a source recorded agents without their inputs, or no agent at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labeled_traces.json_values import NOTHING
from labeled_traces.readers.mending.requests import model_calls, reply_text, request_text
from labeled_traces.trace import Span, SpanKind

_OUTER = (SpanKind.CHAIN, SpanKind.UNKNOWN)


def with_agents(spans: Sequence[Span], root: Span) -> list[Span]:
    """The spans of one trace with an agent at their top, and with the goals and answers of all agents.

    Several outermost spans get `root` above them; the only one gets what `root` was given and what it answered, where
    it does not say so itself, and is an agent if no span is. An agent without inputs has the goal that its first call
    of a model names; one without outputs that did not fail has answered what its last call says without calling a tool.
    """
    ids = {span.span_id for span in spans}
    tops = [span for span in spans if span.parent_id not in ids]
    if sum(span.parent_id is None for span in tops) > 1:
        above = replace(root, span_id=f"{root.span_id}-root") if root.span_id in ids else root
        spans = [above, *(replace(span, parent_id=above.span_id) if span.parent_id is None else span for span in spans)]
    elif len(tops) == 1 and len(spans) > 1:
        top = tops[0]
        nobody = all(span.kind is not SpanKind.AGENT for span in spans) and top.kind in _OUTER
        filled = replace(
            top,
            kind=SpanKind.AGENT if nobody else top.kind,
            inputs=root.inputs if top.inputs in NOTHING else top.inputs,
            outputs=root.outputs if top.outputs in NOTHING else top.outputs,
        )
        spans = [filled if span is top else span for span in spans]
    children: dict[str | None, list[Span]] = {}
    for span in spans:
        children.setdefault(span.parent_id, []).append(span)
    return [_with_goal(span, children) if span.kind is SpanKind.AGENT else span for span in spans]


def _with_goal(agent: Span, children: dict[str | None, list[Span]]) -> Span:
    if agent.inputs not in NOTHING and agent.outputs not in NOTHING:
        return agent
    calls = model_calls(agent, lambda span_id: children.get(span_id, ()))
    if all(call.start is not None for call in calls):
        calls.sort(key=lambda call: call.start or 0.0)
    goals = (request_text(call.inputs) for call in calls)
    answer = reply_text(calls[-1].outputs) if calls and agent.status != "ERROR" else None
    return replace(
        agent,
        inputs=next(filter(None, goals), agent.inputs) if agent.inputs in NOTHING else agent.inputs,
        outputs=answer or agent.outputs if agent.outputs in NOTHING else agent.outputs,
    )
