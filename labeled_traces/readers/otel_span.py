"""One span as OpenTelemetry's exporters write it, whatever its attributes speak, as a `Span`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from labeled_traces.readers.attributes import get, inputs_and_outputs, kept_attributes, nest
from labeled_traces.readers.fields import duration, seconds, span_kind, status
from labeled_traces.readers.genai import genai_contents, genai_kind
from labeled_traces.readers.groups import task_id
from labeled_traces.readers.repair import canonical_id, mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.trace import JSON, Span, TraceError


def is_span(record: Mapping[str, JSON]) -> bool:
    """A span, also one that lost its id."""
    return any(key in record for key in ("span_id", "context.span_id", "attributes", "span_attributes"))


def otel_id(raw: str) -> str:
    """An id as OpenTelemetry makes them (16 or 32 hex digits) in its one spelling; any other id as it stands."""
    text = raw.strip()
    made = re.fullmatch(r"(0[xX])?([0-9a-fA-F]{16}){1,2}", text)
    return canonical_id(text, "hex") if made else text


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
        span = _span(item, above, where, options)
        yield span
        children = item.get("child_spans") or []
        if not isinstance(children, list):
            raise TraceError(f"{where}, span {span.span_id}, child_spans: accepted is a list")
        stack += [(child, span.span_id) for child in reversed(children)]


def _span(item: Mapping[str, JSON], above: str | None, where: str, options: ReadOptions) -> Span:
    outer = {key: value for key, value in item.items() if key not in ("child_spans", "logs")}
    options.report.strip("logs", 1 if item.get("logs") else 0)  # in TRAIL they hold question, answer and notes
    record = nest(outer)
    attributes = record.get("span_attributes") or record.get("attributes") or {}
    span_id = otel_id(text_field(record, "span_id", "context.span_id"))
    parent = first_field(record, "parent_span_id", "parent_id")
    place = f"{where}, span {span_id or '(no id)'}"
    if not isinstance(attributes, dict):
        options.report.add("attributes that are no mapping", place)
        attributes = {}
    kind = span_kind(get(attributes, "openinference", "span", "kind"))
    if kind == "UNKNOWN":
        kind = span_kind(record.get("span_kind"))
    if kind == "UNKNOWN":
        kind = genai_kind(attributes)
    inputs, outputs = inputs_and_outputs(attributes, kind, place, options.report)
    if inputs is None and outputs is None:
        inputs, outputs = genai_contents(attributes, kind)
    task = task_id(attributes)
    tool_name = _text(get(attributes, "tool", "name") or get(attributes, "gen_ai", "tool", "name"))
    start, end = _times(record, place, options)
    code = status(first_field(record, "status_code", "status.status_code", "status.code", "status"))
    name = text_field(record, "span_name", "name")
    span = Span(
        span_id=span_id,
        parent_id=above or (None if parent is None else otel_id(_text(parent))),
        name=tool_name or name if kind == "TOOL" else name,
        kind=kind,
        start=start,
        end=end,
        inputs=inputs,
        outputs=outputs,
        status=code,
        error=error_text(record, code),
        attributes={**kept_attributes(attributes), **({} if task is None else {"task_id": task})},
    )
    return replace(span, **{key: mend_value(getattr(span, key), f"{place}, {key}", options) for key in _TEXT_FIELDS})


_TEXT_FIELDS = ("span_id", "parent_id", "name", "inputs", "outputs", "error", "attributes")


def _times(record: Mapping[str, JSON], place: str, options: ReadOptions) -> tuple[float | None, float | None]:
    given = first_field(record, "timestamp", "start_time"), record.get("end_time")
    start, end = seconds(given[0]), seconds(given[1])
    length = duration(record.get("duration"))
    if end is None and start is not None and length is not None:
        end = start + length
    if (start is None and given[0] is not None) or (end is None and given[1] is not None):
        options.report.add("time that is not understood", f"{place}: {given}")
    return start, end


def error_text(record: Mapping[str, JSON], code: str) -> str | None:
    """The last exception event (short), else the status text (which can be a whole stack trace)."""
    events = record.get("events")
    for event in reversed(events if isinstance(events, list) else []):
        parts = [_text(get(event, "attributes", "exception", key)) for key in ("type", "message")]
        if any(parts):
            return ": ".join(part for part in parts if part)
    text = text_field(record, "status_message", "status.description", "status.message")
    return text or ("unknown error" if code == "ERROR" else None)


def first_field(record: Mapping[str, JSON], *names: str) -> JSON:
    """The first of these (dotted) fields that is there and is no mapping."""
    values = (get(record, *name.split(".")) for name in names)
    return next((value for value in values if value is not None and not isinstance(value, dict)), None)


def text_field(record: Mapping[str, JSON], *names: str) -> str:
    """As `first_field`, as a text; empty if there is none."""
    return _text(first_field(record, *names))


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
