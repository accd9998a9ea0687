"""OTLP's JSON (`{"resourceSpans": [...]}`, what an OpenTelemetry collector writes) as flat spans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from labeled_traces.readers.repair import canonical_id
from labeled_traces.trace import JSON, TraceError


def is_otlp(record: JSON) -> bool:
    return isinstance(record, dict) and isinstance(_get(record, "resourceSpans"), list)


def flat_spans(record: Mapping[str, JSON], where: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """(place, span) pairs: spans as `ReadableSpan.to_json` writes them, with hex ids and attributes by name.

    Raises:
        TraceError: something else where a span or a list of them should be; names the place.
    """
    for i, resource in enumerate(_list(record, "resourceSpans", where)):
        place = f"{where}, resourceSpans[{i}]"
        for j, scope in enumerate(_list(resource, "scopeSpans", place)):
            for k, span in enumerate(_list(scope, "spans", f"{place}.scopeSpans[{j}]")):
                at = f"{place}.scopeSpans[{j}].spans[{k}]"
                if not isinstance(span, dict):
                    raise TraceError(f"{at}: is {type(span).__name__}: accepted is a JSON object")
                yield at, _flat(span, at)


def _flat(span: Mapping[str, JSON], where: str) -> dict[str, JSON]:
    status = _get(span, "status")
    events = [
        {**event, "attributes": _attributes(event, f"{where}.events")}
        for event in _list(span, "events", where)
        if isinstance(event, dict)
    ]
    return {
        "name": _get(span, "name"),
        "context": {"trace_id": _hex(_get(span, "traceId"), 16), "span_id": _hex(_get(span, "spanId"), 8)},
        "parent_id": _hex(_get(span, "parentSpanId"), 8),
        "start_time": _get(span, "startTimeUnixNano"),
        "end_time": _get(span, "endTimeUnixNano"),
        "status": {"status_code": _get(status, "code"), "description": _get(status, "message")},
        "attributes": _attributes(span, where),
        "events": events,
    }


def _attributes(holder: Mapping[str, JSON], where: str) -> dict[str, JSON]:
    pairs = _list(holder, "attributes", where)
    return {str(_get(pair, "key")): _value(_get(pair, "value")) for pair in pairs}


def _value(value: JSON) -> JSON:
    """An AnyValue: `{"stringValue": "x"}`, `{"intValue": "5"}`, `{"arrayValue": {"values": [...]}}` ..."""
    if not isinstance(value, dict) or len(value) != 1:
        return value or None
    ((kind, inner),) = value.items()
    kind = _camel(kind)
    if kind == "arrayValue":
        return [_value(item) for item in _list(inner, "values", kind)]
    if kind == "kvlistValue":
        return {str(_get(pair, "key")): _value(_get(pair, "value")) for pair in _list(inner, "values", kind)}
    if kind == "intValue" and isinstance(inner, str) and re.fullmatch(r"-?\d{1,20}", inner):
        return int(inner)
    return inner


def _hex(value: JSON, size: int) -> str | None:
    """An id of so many bytes: hex as OTLP has it, or base64 as protobuf's own JSON has it. Their lengths differ."""
    text = value.strip() if isinstance(value, str) else ""
    return canonical_id(text, "hex" if len(text) == 2 * size else "base64") or None


def _list(holder: JSON, key: str, where: str) -> list[JSON]:
    value = _get(holder, key) or []
    if not isinstance(value, list):
        raise TraceError(f"{where}, {key}: is {type(value).__name__}: accepted is a list")
    return value


def _get(holder: JSON, key: str) -> JSON:
    """A field in either spelling: `traceId` or `trace_id`."""
    if not isinstance(holder, dict):
        return None
    return holder.get(key, holder.get(re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", key)))


def _camel(key: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), key)
