"""One span as OpenTelemetry's exporters write it, whatever its attributes speak, as a `Span`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from labeled_traces.json_values import at_names, decoded, first, get
from labeled_traces.readers.mending.answer_hints import note_answers
from labeled_traces.readers.mending.repair import canonical_id, mend_span
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.fields import duration, seconds, span_kind, status
from labeled_traces.readers.spans.genai import genai_contents, genai_kind, genai_name, with_events
from labeled_traces.readers.spans.openinference import inputs_and_outputs, kept_attributes, nest
from labeled_traces.readers.spans.smolagents import plain_step
from labeled_traces.readers.spans.trulens import trulens_contents, trulens_error, trulens_kind
from labeled_traces.readers.spans.usage import usage
from labeled_traces.readers.spans.vercel import vercel_contents, vercel_kind
from labeled_traces.task_group import task_id
from labeled_traces.trace import JSON, Span, SpanKind, TraceError

_MARKS = ("span_id", "context.span_id", "spanContext", "attributes", "span_attributes")
_BARE_MARKS = ("openinference.span.kind", "gen_ai.operation.name")
"""Attributes that show that a record is nothing but the attributes of a span."""
TRACE_IDS = ("trace_id", "context.trace_id", "traceId", "spanContext.traceId")
_SPAN_IDS = ("span_id", "context.span_id", "spanId", "spanContext.spanId")
_PARENT_IDS = ("parent_span_id", "parent_id", "parentSpanId", "parentSpanContext.spanId", "parentId")


def is_span(record: Mapping[str, JSON]) -> bool:
    """A span, also one that lost its id, or all but its attributes."""
    return any(key in record for key in (*_MARKS, *_BARE_MARKS))


@lru_cache(maxsize=4096)
def otel_id(raw: str) -> str:
    """An id as OpenTelemetry makes them (16 or 32 hex digits) in its one spelling; any other id as it stands."""
    text = raw.strip()
    made = re.fullmatch(r"(0[xX])?([0-9a-fA-F]{16}){1,2}", text)
    return canonical_id(text, "hex") if made else text


def span_id_of(record: Mapping[str, JSON]) -> str:
    """The id of a span; empty where it has none."""
    return otel_id(text_field(record, *_SPAN_IDS) or (text_field(record, "id") if "traceId" in record else ""))


def read_spans(record: JSON, where: str, options: ReadOptions) -> Iterator[Span]:
    """A span and, TRAIL's way, its `child_spans` and theirs.

    Raises:
        TraceError: something else where a span or a list of spans should be.
    """
    stack: list[tuple[JSON, str | None]] = [(record, None)]
    while stack:
        item, above = stack.pop()
        if not isinstance(item, dict):
            raise TraceError(f"{where}: a span is {type(item).__name__}: accepted is a JSON object")
        span = read_span(item, above, where, options)
        yield span
        children = item.get("child_spans") or []
        if not isinstance(children, list):
            raise TraceError(f"{where}, span {span.span_id}, child_spans: accepted is a list")
        stack += [(child, span.span_id) for child in reversed(children)]


def read_span(item: Mapping[str, JSON], above: str | None, where: str, options: ReadOptions) -> Span:
    """One span without those that stand inside of it; `above` is the id of the one that it stands in."""
    outer = {key: value for key, value in item.items() if key not in ("child_spans", "logs")}
    options.report.strip("logs", 1 if item.get("logs") else 0)  # in TRAIL they hold question, answer and notes
    record = nest(outer)
    bare = record if any(mark in item for mark in _BARE_MARKS) else {}
    attributes = record.get("span_attributes") or record.get("attributes") or bare
    span_id = span_id_of(record)
    parent = _first_field(record, *_PARENT_IDS)
    place = f"{where}, span {span_id or '(no id)'}"
    if not isinstance(attributes, dict):
        options.report.add("attributes that are no mapping", place)
        attributes = {}
    record["events"] = events_of(record.get("events"), place, options)
    attributes = with_events(attributes, record["events"])
    name = text_field(record, "span_name", "name")
    about = decoded(get(attributes, "metadata"))
    note_answers(about, options.report)
    kind = _kind(record, attributes, about, name)
    inputs, outputs = _contents(attributes, kind, place, options)
    task = task_id(attributes)
    if attributes and kind is SpanKind.UNKNOWN and inputs is None and outputs is None:
        options.report.add("span of which no attribute says what was asked or answered", place)
    start, end = _times(record, place, options)
    code = status(_first_field(record, "status_code", "status.status_code", "status.code", "status"))
    span = Span(
        span_id=span_id,
        parent_id=above or (None if parent is None else otel_id(_text(parent))),
        name=_name(attributes, kind, name),
        kind=kind,
        start=start,
        end=end,
        inputs=inputs,
        outputs=outputs,
        status=code,
        error=error_text({**record, "error_type": _error(attributes)}, code),
        attributes={**kept_attributes(attributes), **usage(attributes), **({} if task is None else {"task_id": task})},
    )
    span = plain_step(span)
    return mend_span(span, place, options)


def events_of(given: JSON, place: str, options: ReadOptions) -> list[JSON]:
    """The events of a span, also where they are one JSON text."""
    if isinstance(given, str):
        given = nest({"events": decoded(given)})["events"]
    if not isinstance(given, list | None):
        options.report.add("events that are no list", place)
    events = given if isinstance(given, list) else []
    nameless = sum(first(get(event, "name"), get(event, "Name")) is None for event in events)
    options.report.add("event without a name, left out", place, nameless)
    return events


def _kind(record: Mapping[str, JSON], attributes: JSON, about: JSON, name: str) -> SpanKind:
    """`about`: metadata of LangChain, whose agents are chains as all else is."""
    kinds = _kinds(record, attributes, name)
    kind = next((kind for kind in kinds if kind is not SpanKind.UNKNOWN), SpanKind.UNKNOWN)
    is_agent = get(about, "ls_integration") == "langchain_create_agent" and get(about, "langgraph_node") is None
    return SpanKind.AGENT if kind is SpanKind.CHAIN and is_agent else kind


def _kinds(record: Mapping[str, JSON], attributes: JSON, name: str) -> Iterator[SpanKind]:
    yield span_kind(get(attributes, "openinference", "span", "kind"))
    yield span_kind(record.get("span_kind"))
    yield vercel_kind(attributes)
    yield trulens_kind(attributes)
    yield genai_kind(attributes, name)
    model = get(attributes, "llm")
    yield SpanKind.LLM if get(model, "input_messages") or get(model, "output_messages") else SpanKind.UNKNOWN


def _contents(attributes: JSON, kind: SpanKind, place: str, options: ReadOptions) -> tuple[JSON, JSON]:
    """What the first dialect that says something says; of a model's call first what has its messages."""
    found = (
        inputs_and_outputs(attributes, kind, place, options.report),
        vercel_contents(attributes, kind),
        trulens_contents(attributes, options.report),
        genai_contents(attributes, kind),
    )
    sides = [[one[side] for one in found if one[side] is not None] for side in (0, 1)]
    if kind is SpanKind.LLM:
        sides = [sorted(values, key=lambda value: not _is_conversation(value)) for values in sides]
    inputs, outputs = (next(iter(values), None) for values in sides)
    return inputs, outputs


def _error(attributes: JSON) -> str:
    """What attributes say of what went wrong."""
    return _text(first(trulens_error(attributes), get(attributes, "error", "type")))


def _is_conversation(value: JSON) -> bool:
    messages = get(value, "messages")
    return isinstance(messages, list) and all(get(one, "role") and "content" in one for one in messages)


def _name(attributes: JSON, kind: SpanKind, name: str) -> str:
    named = _first_field({"of": attributes}, "of.tool.name", "of.ai.toolCall.name", "of.traceloop.entity.name")
    if kind is SpanKind.TOOL and named is not None:
        return _text(named) or name
    return genai_name(attributes, kind, name)


def _times(record: Mapping[str, JSON], place: str, options: ReadOptions) -> tuple[float | None, float | None]:
    given = _first_field(record, "timestamp", "start_time", "startTime"), _first_field(record, "end_time", "endTime")
    start, end = seconds(given[0]), seconds(given[1])
    length = duration(record.get("duration"))
    if end is None and start is not None and length is not None:
        end = start + length
    if (start is None and given[0] is not None) or (end is None and given[1] is not None):
        options.report.add("time that is not understood", f"{place}: {given}")
    return start, end


def error_text(record: Mapping[str, JSON], code: str) -> str | None:
    """The last exception event (short), else the status text (which can be a whole stack trace), else its type."""
    events = record.get("events")
    odd = ""
    for event in reversed(events if isinstance(events, list) else []):
        about = first(get(event, "attributes"), get(event, "Attributes"))
        parts = [_text(get(about, "exception", key)) for key in ("type", "message")]
        if any(parts):
            return ": ".join(part for part in parts if part)
        if first(get(event, "name"), get(event, "Name")) == "exception" and about:
            odd = _text(about)
    text = text_field(record, "status_message", "status.description", "status.message")
    told = text or text_field(record, "error_type") or odd
    return told or ("unknown error" if code == "ERROR" else None)


def _first_field(record: Mapping[str, JSON], *names: str) -> JSON:
    """The first of these (dotted) fields that is there and is no mapping."""
    return next((value for value in at_names(record, names) if value is not None and not isinstance(value, dict)), None)


def text_field(record: Mapping[str, JSON], *names: str) -> str:
    """As `_first_field`, as a text; empty if there is none."""
    return _text(_first_field(record, *names))


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
