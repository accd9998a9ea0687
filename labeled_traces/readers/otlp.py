"""OTLP's JSON (`{"resourceSpans": [...]}`, what an OpenTelemetry collector writes), and what protobuf's own JSON makes
of it: base64 ids, names of enums, snake case."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import decoded, either
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.labels.trail import ID_FORM, is_annotation
from labeled_traces.readers.mending.repair import canonical_id
from labeled_traces.readers.report import SPAN, ReadOptions, ReadReport
from labeled_traces.readers.spans.otel_traces import log_event, read_traces
from labeled_traces.trace import JSON, TraceError


def is_otlp(record: JSON) -> bool:
    """A batch of spans, or of log records, in which instrumentations may keep what was said to models."""
    return any(isinstance(either(record, key), list) for key in ("resourceSpans", "resourceLogs"))


def role(record: JSON) -> str | None:
    """`traces` or `labels` if this reader can read the record, else None."""
    if isinstance(record, dict) and is_annotation(record):
        return "labels"
    return "traces" if is_otlp(record) else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Records that cannot be read are left out, and so are single spans of them."""
    lost: Counter[str] = Counter()

    def leave_out(error: TraceError, trace_id: str) -> None:
        options.report.leave_out(error, SPAN)
        lost[canonical_id(trace_id, ID_FORM)] += 1

    def spans() -> Iterator[tuple[str, Mapping[str, JSON], Path]]:
        for path in paths:
            for where, record in read_files([path], options.report):
                if is_otlp(record):
                    yield from ((at, span, path) for at, span in _flat_spans(record, where, leave_out, options.report))
                else:
                    options.report.leave_out(TraceError(f"{where}: not OTLP: {_ACCEPTED}"))

    yield from read_traces(spans(), lost, options)


_ACCEPTED = "accepted are {resourceSpans: [...]} and {resourceLogs: [...]}"


def _flat_spans(
    record: Mapping[str, JSON], where: str, leave_out: Callable[[TraceError, str], None], report: ReadReport
) -> Iterator[tuple[str, dict[str, JSON]]]:
    """(place, span) pairs: spans as `ReadableSpan.to_json` writes them, with hex ids and attributes by name, and log
    records as `log_event` makes them.

    Args:
        leave_out: gets what cannot be read (something else where a span or a list should be; the place is named), and
            the id of the trace that it belongs to, "" where that is not known.
    """
    for outer, middle, key, flat in (
        ("resourceSpans", "scopeSpans", "spans", _flat),
        ("resourceLogs", "scopeLogs", "logRecords", _event),
    ):
        for place, resource in _objects(record, outer, where, ", ", leave_out):
            for inner, scope in _objects(resource, middle, place, ".", leave_out):
                for at, item in _objects(scope, key, inner, ".", leave_out):
                    try:
                        span = flat(item, at)
                        for one in (span, *filter(lambda event: isinstance(event, dict), span.get("events", ()))):
                            report.add(_ODD, at, len(one.get("attributes", {}).pop(_ODD, ())))
                        yield at, span
                    except TraceError as error:
                        leave_out(error, _hex(either(item, "traceId"), 16) or "")


def _objects(
    holder: Mapping[str, JSON], key: str, where: str, mark: str, leave_out: Callable[[TraceError, str], None]
) -> Iterator[tuple[str, dict[str, JSON]]]:
    try:
        items = _list(holder, key, where)
    except TraceError as error:
        leave_out(error, "")
        return
    for number, item in enumerate(items):
        at = f"{where}{mark}{key}[{number}]"
        if isinstance(item, dict):
            yield at, item
        else:
            leave_out(TraceError(f"{at}: is {type(item).__name__}: accepted is a JSON object"), "")


def _event(item: Mapping[str, JSON], where: str) -> dict[str, JSON]:
    ids = _hex(either(item, "traceId"), 16), _hex(either(item, "spanId"), 8)
    body = _value(either(item, "body"), f"{where}.body")
    return log_event(either(item, "eventName"), _attributes(item, where), body, *ids)


def _flat(span: Mapping[str, JSON], where: str) -> dict[str, JSON]:
    status = either(span, "status")
    events = [
        {**event, "attributes": _attributes(event, f"{where}.events")} if isinstance(event, dict) else event
        for event in map(decoded, _list(span, "events", where))
    ]
    return {
        "name": either(span, "name"),
        "context": {"trace_id": _hex(either(span, "traceId"), 16), "span_id": _hex(either(span, "spanId"), 8)},
        "parent_id": _hex(either(span, "parentSpanId"), 8),
        "start_time": either(span, "startTimeUnixNano"),
        "end_time": either(span, "endTimeUnixNano"),
        "status": {"status_code": either(status, "code"), "description": either(status, "message")},
        "attributes": _attributes(span, where),
        "events": events,
    }


def _attributes(holder: Mapping[str, JSON], where: str) -> dict[str, JSON]:
    return _by_name(_list(holder, "attributes", where), where)


_ODD = "attribute that is no pair of key and value, left out"


def _by_name(pairs: list[JSON], where: str) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for given in pairs:
        pair = given if type(given) is dict else decoded(given)
        if isinstance(pair, dict):
            found[str(pair.get("key"))] = _value(pair.get("value"), where)
        else:
            found[_ODD] = [*found.get(_ODD, ()), pair]
    return found


def _value(value: JSON, where: str) -> JSON:
    """An AnyValue: `{"stringValue": "x"}`, `{"intValue": "5"}`, `{"arrayValue": {"values": [...]}}` ..."""
    if type(value) is dict and "stringValue" in value and len(value) == 1:
        return value["stringValue"]  # nearly all are texts
    if not isinstance(value, dict) or len(value) != 1:
        return None if value == {} else value
    ((kind, inner),) = value.items()
    kind = _camel(kind)
    if kind == "arrayValue":
        return [_value(item, where) for item in _list(inner, "values", f"{where}, {kind}")]
    if kind == "kvlistValue":
        return _by_name(_list(inner, "values", f"{where}, {kind}"), where)
    if kind == "intValue" and isinstance(inner, str) and re.fullmatch(r"-?\d{1,20}", inner):
        return int(inner)
    return inner


def _hex(value: JSON, size: int) -> str | None:
    """An id of so many bytes: hex as OTLP has it, or base64 as protobuf's own JSON has it. Their lengths differ."""
    text = value.strip() if isinstance(value, str) else ""
    return canonical_id(text, "hex" if len(text) == 2 * size else "base64") or None


def _list(holder: JSON, key: str, where: str) -> list[JSON]:
    value = either(holder, key) or []
    if not isinstance(value, list):
        raise TraceError(f"{where}, {key}: is {type(value).__name__}: accepted is a list")
    return value


@lru_cache(maxsize=256)
def _camel(key: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), key)
