"""Chat logs as traces: what the readers of benchmarks share.

Message i of a log (from 0, system messages included) is the span `step-i` below the root span `run`, so that a label
that counts messages has its span. The root is an AGENT span: its input is the goal, its output the last answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import rows_of
from labeled_traces.readers.mending.repair import mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.message_parts import content_text
from labeled_traces.readers.spans.openinference import call_of
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError

ROOT = "run"
_ASKED = re.compile(r"\(->\s*(.+?)\s*\)")
"""In a speaker's name: whom it asks, as `Orchestrator (-> WebSurfer)`."""
_PEOPLE = ("human", "user")
_TERMINAL = "computerterminal"
_Calls: TypeAlias = dict[str, tuple[str, Mapping[str, JSON]]]
"""Id of a call -> the span that made it, and the call."""


@dataclass(frozen=True)
class Turn:
    """What one speaker of a team said."""

    speaker: str
    content: JSON


def chat_spans(messages: JSON, field: str, where: str, options: ReadOptions, tools: JSON = None) -> list[Span]:
    """A chat of one agent as a tree: a root, every message below it, a tool's result below the message that called it.

    Args:
        messages: chat messages with `role`, `content`, `tool_calls`, `tool_call_id`.
        field: the name of the list, for errors.
        tools: schemas of the available tools; they stand with the agent's first message.

    Raises:
        TraceError: not a list of such messages.
    """
    if not isinstance(messages, list) or not messages:
        raise TraceError(
            f"{where}, {field}: is {type(messages).__name__} or empty: accepted is a list of chat messages"
        )
    spans: list[Span] = []
    calls: _Calls = {}
    given = {"messages": [], "tools": mend_value(tools, f"{where}, tools", options)} if tools else None
    for index, raw in enumerate(messages):
        place = f"{where}, {field}[{index}]"
        if not isinstance(raw, dict) or not isinstance(raw.get("role"), str):
            raise TraceError(f"{place}: accepted is a chat message with a role")
        message = mend_value(raw, place, options)
        span_id = f"step-{index}"
        if message["role"] == "assistant":
            spans.append(replace(_assistant(span_id, message, calls, place, options), inputs=given))
            given = None
        elif message["role"] == "tool":
            spans.append(_tool(span_id, message, calls, place, options))
        else:
            spans.append(Span(span_id, ROOT, message["role"], SpanKind.CHAIN, inputs=text(message)))
    asked = next((span.inputs for span in spans if span.name == "user"), None)
    said = (span.outputs["messages"][0]["content"] for span in reversed(spans) if span.kind is SpanKind.LLM)
    answer = next((content for content in said if content), None)
    return [Span(ROOT, None, "agent", SpanKind.AGENT, inputs=asked, outputs=answer), *spans]


def team_spans(turns: Sequence[Turn], goal: JSON, prompts: Mapping[str, JSON] | None = None) -> list[Span]:
    """The log of a team of agents as a tree: a root, every turn below it.

    Whom another agent asked (`Orchestrator (-> WebSurfer)`) answers as an AGENT span below that turn; its input is that
    turn's text, which is not repeated. A terminal is a tool that ran what the turn before it said. What a person said
    first is the goal, else it is `goal`; where that is not in what they said, both are.

    Args:
        prompts: the system prompt of each agent; they stand in the root's input.
    """
    spans: list[Span] = []
    asked: dict[str, str] = {}
    for index, turn in enumerate(turns):
        span_id, speaker = f"step-{index}", turn.speaker
        before = f"step-{index - 1}" if index else ROOT
        who = _plain(speaker)
        if who in _PEOPLE:
            span = Span(span_id, ROOT, speaker, SpanKind.CHAIN, inputs=turn.content)
        elif who == _TERMINAL:
            span = Span(span_id, asked.get(who, before), speaker, SpanKind.TOOL, outputs=turn.content)
        elif who in asked:
            span = Span(span_id, asked[who], speaker, SpanKind.AGENT, outputs=turn.content)
        else:
            said = {"messages": [{"role": "assistant", "content": turn.content}]}
            span = Span(span_id, ROOT, speaker, SpanKind.LLM, outputs=said)
            if called := _ASKED.search(speaker):
                asked[_plain(called[1])] = span_id
        spans.append(span)
    about: dict[str, JSON] = {"agents": dict(prompts)} if prompts else {}
    if turns and _plain(turns[0].speaker) in _PEOPLE:
        said = turns[0].content
        about |= {"question": goal} if goal and str(goal) not in str(said) else {}
        goal = said
    inputs = {"task": goal, **about} if about else goal
    return [Span(ROOT, None, "team", SpanKind.AGENT, inputs=inputs, outputs=_last_answer(turns)), *spans]


def turns_of(history: JSON, field: str, where: str, options: ReadOptions) -> list[Turn]:
    """The turns of a log of `{role, content, name?}`; the name says who spoke where there is one.

    Raises:
        TraceError: anything else. A turn alone is never left out: the steps of labels count them.
    """
    if not isinstance(history, list) or not history:
        raise TraceError(f"{where}, {field}: is {type(history).__name__} or empty: accepted is a list of messages")
    turns = []
    for index, raw in enumerate(history):
        place = f"{where}, {field}[{index}]"
        message = mend_value(raw, place, options) if isinstance(raw, dict) else {}
        speaker = message.get("name") or message.get("role")
        if not isinstance(speaker, str) or not speaker.strip():
            raise TraceError(f"{place}: accepted is a message with a role or a name, and a content")
        turns.append(Turn(speaker.strip(), text(message)))
    return turns


def step_span(step: JSON, first: int, trace: Trace) -> str | None:
    """The span of a step that a label names by its number, None if there is none. `first`: the number of message 0."""
    number = str(step).strip()
    span_id = f"step-{int(number) - first}" if number.isdecimal() and len(number) < 10 else ""
    return span_id if span_id in trace.by_id else None


def speaker_of(trace: Trace, span_id: str) -> str:
    """Who acts at a span of a team: `Orchestrator` where `Orchestrator (thought)` or `(-> WebSurfer)` stands."""
    return re.sub(r"\s*\(.*\)\s*$", "", trace.by_id[span_id].name)


def add_raters(row: LabeledTrace, other: LabeledTrace) -> LabeledTrace:
    """The row with what other people said of the same run; what is said word for word twice is kept once.

    The stronger reason to call it clean stays: who read all of it for errors knows more than who named one.

    Raises:
        TraceError: another run.
    """
    if row.trace != other.trace:
        raise TraceError(f"trace {row.trace_id!r}: two runs with one id and other content")
    best = next(kind for kind in ("checked", "presumed", "partial", "unknown") if kind in (row.clean, other.clean))
    return replace(
        row,
        errors=tuple(dict.fromkeys((*row.errors, *other.errors))),
        scores=tuple(dict.fromkeys((*row.scores, *other.scores))),
        group=row.group or other.group,
        clean=best,
        reference=row.reference if row.reference is not None else other.reference,
        metadata={**other.metadata, **row.metadata},
        raters=tuple(dict.fromkeys((*row.raters, *other.raters))),
    )


def text(message: Mapping[str, JSON]) -> JSON:
    """The text of a message, also where it is a list of parts, of which pictures and the like are named."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(map(content_text, content))
    return content


def _assistant(span_id: str, message: Mapping[str, JSON], calls: _Calls, place: str, options: ReadOptions) -> Span:
    answer: dict[str, JSON] = {"role": "assistant", "content": text(message)}
    asked = []
    for call in map(call_of, rows_of(message.get("tool_calls"))):
        asked.append({**call, "arguments": mend_value(call["arguments"], f"{place}, arguments", options)})
        calls[str(call["id"])] = span_id, asked[-1]
    if asked:
        answer["tool_calls"] = asked
    return Span(span_id, ROOT, "assistant", SpanKind.LLM, outputs={"messages": [answer]})


def _tool(span_id: str, message: Mapping[str, JSON], calls: _Calls, place: str, options: ReadOptions) -> Span:
    parent, call = calls.get(str(message.get("tool_call_id")), (ROOT, {}))
    if not call:
        options.report.add("tool result without its call", place)
    name = str(message.get("name") or call.get("name") or "tool")
    return Span(span_id, parent, name, SpanKind.TOOL, inputs=call.get("arguments"), outputs=text(message))


def _last_answer(turns: Sequence[Turn]) -> JSON:
    """What the team said last; not what a person said, a terminal printed or a sub-agent found, nor `TERMINATE`."""
    asked = {_plain(found[1]) for turn in turns if (found := _ASKED.search(turn.speaker))}
    last = next((turn for turn in reversed(turns) if turn.content not in (None, "", "TERMINATE")), None)
    silent = last is None or _plain(last.speaker) in {*asked, *_PEOPLE, _TERMINAL}
    return None if silent or last is None else last.content


def _plain(speaker: str) -> str:
    return re.sub(r"[\W_]+", "", speaker).casefold()
