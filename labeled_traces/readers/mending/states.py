"""States that a graph hands from step to step: what other spans say already is left out of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from labeled_traces.json_values import decoded, get
from labeled_traces.readers.spans.langchain import plain_state
from labeled_traces.trace import JSON, Span, SpanKind

_WRAPPERS = (SpanKind.CHAIN, SpanKind.UNKNOWN)


def without_repeated_states(spans: Sequence[Span]) -> list[Span]:
    """The spans of one trace with conversations in the form that `Span` describes.

    A wrapper's conversation loses the messages that models were asked or answered, that tools gave out or that an agent
    was given: where nothing else is in its state it shows nothing. Of an agent's answer the last message stays.
    """
    read = [replace(span, inputs=plain_state(span.inputs), outputs=plain_state(span.outputs)) for span in spans]
    ids = {span.span_id for span in spans}
    told = (span for span in read if _speaks(span, ids)) if any(span.kind in _WRAPPERS for span in read) else ()
    shown = {part for span in told for part in _said(span)}
    return [_shortened(span, shown, span.parent_id not in ids) for span in read]


def _speaks(span: Span, ids: set[str]) -> bool:
    return span.kind not in _WRAPPERS or span.parent_id not in ids


def _said(span: Span) -> Iterator[object]:
    top = span.kind is SpanKind.AGENT or span.kind in _WRAPPERS
    for value in (span.inputs,) if top else (span.inputs, span.outputs):
        for message in get(value, "messages") or []:
            yield from _parts(message)
    if span.kind is SpanKind.TOOL:
        yield from _parts({"role": "tool", "content": span.outputs})
        yield from _parts({"role": "assistant", "tool_calls": [{"name": span.name, "arguments": span.inputs}]})


def _shortened(span: Span, shown: set[object], is_top: bool) -> Span:
    if span.kind is SpanKind.AGENT or (is_top and span.kind in _WRAPPERS):
        given = {part for message in get(span.inputs, "messages") or [] for part in _parts(message)}
        answers = [m for m in get(span.outputs, "messages") or [] if not _parts(m) <= given]
        if len(answers) < 2 and len(get(span.outputs, "messages") or []) < 2:
            return span
        return replace(span, outputs={**span.outputs, "messages": answers[-1:]})
    if span.kind not in _WRAPPERS:
        return span
    return replace(span, inputs=_new(span.inputs, shown), outputs=_new(span.outputs, shown))


def _new(value: JSON, shown: set[object]) -> JSON:
    messages = get(value, "messages")
    if not isinstance(messages, list):
        return value
    kept = [message for message in messages if not _parts(message) <= shown]
    state = {**value, "messages": kept} if kept else {key: item for key, item in value.items() if key != "messages"}
    return state or None


def _parts(message: JSON) -> set[object]:
    """What a message says, and each of its calls; ids of calls and the names of who speaks do not count."""
    calls = get(message, "tool_calls") or []
    parts = [["call", get(call, "name"), decoded(get(call, "arguments"))] for call in calls]
    content = decoded(get(message, "content"))
    said: set[object] = {json.dumps(part, sort_keys=True, default=str) for part in parts}
    if isinstance(content, str) and content:
        said.add((get(message, "role"), content))
    elif content not in (None, "") or not parts:
        said.add(json.dumps([get(message, "role"), content], sort_keys=True, default=str))
    return said
