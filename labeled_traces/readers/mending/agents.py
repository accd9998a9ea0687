"""Who ran, for what, and what came of it, where a source recorded agents without their inputs, or no agent at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labeled_traces.json_values import NOTHING, get
from labeled_traces.readers.spans.messages import last_text, text_of_user
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
    calls = _calls(agent, children, deep=False) or _calls(agent, children, deep=True)
    if all(call.start is not None for call in calls):
        calls.sort(key=lambda call: call.start or 0.0)
    goals = (text_of_user(get(call.inputs, "messages")) for call in calls)
    said = get(calls[-1].outputs, "messages") if calls and agent.status != "ERROR" else None
    answer = None if any(get(message, "tool_calls") for message in said or []) else last_text(said)
    return replace(
        agent,
        inputs=next(filter(None, goals), agent.inputs) if agent.inputs in NOTHING else agent.inputs,
        outputs=answer or agent.outputs if agent.outputs in NOTHING else agent.outputs,
    )


def _calls(agent: Span, children: dict[str | None, list[Span]], deep: bool) -> list[Span]:
    """The calls of a model below an agent; `deep`: also those of other agents below it."""
    found, seen, stack = [], {agent.span_id}, [*children.get(agent.span_id, ())]
    while stack:
        span = stack.pop(0)
        if span.span_id in seen or (span.kind is SpanKind.AGENT and not deep):
            continue
        seen.add(span.span_id)
        if span.kind is SpanKind.LLM:
            found.append(span)
        stack += children.get(span.span_id, ())
    return found
