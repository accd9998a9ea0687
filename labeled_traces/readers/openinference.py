"""OpenInference and GenAI traces: nested TRAIL files with their annotations, flat spans, and OTLP's JSON.

Flat spans are OpenTelemetry's `ReadableSpan.to_json` (one a line), JSON arrays of spans, Phoenix exports, with
flat or nested attributes; spans of several traces may be mixed. Span ids are hex, with or without `0x`.
`logs` never get into a trace: in TRAIL they hold question, answer and annotator notes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.annotations import ID_FORM, Annotations, is_annotation
from labeled_traces.readers.attributes import get, inputs_and_outputs, kept_attributes, nest
from labeled_traces.readers.fields import duration, seconds, span_kind, status
from labeled_traces.readers.genai import genai_contents, genai_kind
from labeled_traces.readers.groups import task_id
from labeled_traces.readers.otlp import flat_spans, is_otlp
from labeled_traces.readers.records import read_files
from labeled_traces.readers.repair import build_trace, canonical_id, mend_value
from labeled_traces.readers.report import INCOMPLETE, SPAN, ReadOptions, ReadReport
from labeled_traces.trace import JSON, Span, TraceError

_ACCEPTED = (
    "accepted are {trace_id, spans}, {trace, labels}, {resourceSpans}, and spans with span_id or context.span_id"
)


def role(record: JSON) -> str | None:
    """`traces` or `labels` if this reader can read the record, else None."""
    if not isinstance(record, dict):
        return None
    if is_annotation(record):
        return "labels"
    known = (
        is_otlp(record)
        or isinstance(record.get("spans"), list)
        or ("trace" in record and "labels" in record)
        or _is_span(record)
    )
    return "traces" if known else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs; traces that are spread over flat spans come last, since any span could be theirs.

    Records that cannot be read are left out.
    """
    annotations = Annotations.load(options)
    flat: dict[str, tuple[str, str, list[Span]]] = {}
    lost: Counter[str] = Counter()
    for path in paths:
        for where, record in _flattened(read_files([path], options.report), options.report, lost):
            row = None
            try:
                if role(record) != "traces":
                    raise TraceError(f"{where}: not an OpenInference trace or span: {_ACCEPTED}")
                if _is_span(record):
                    trace_id = _trace_id(record, path, where, options)
                    key = canonical_id(trace_id, ID_FORM)
                    lost[key] += 1
                    spans = list(_spans(record, None, where, options))
                    lost[key] -= 1
                    flat.setdefault(key, (where, trace_id, []))[2].extend(spans)
                else:
                    row = _nested_row(record, path, where, annotations, options)
            except TraceError as error:
                options.report.leave_out(error)
            if row is not None:
                yield where, row
    for key, (where, trace_id, spans) in flat.items():
        if lost[key]:
            options.report.add(INCOMPLETE, f"{where}, trace {trace_id}: {lost[key]} x {SPAN}")
        yield where, annotations.label(build_trace(trace_id, spans, ID_FORM, where, options), where)
    annotations.report_unused()


def _flattened(
    records: Iterable[tuple[str, JSON]], report: ReadReport, lost: Counter[str]
) -> Iterator[tuple[str, JSON]]:
    """The records with the spans of OTLP's batches in place of these. `lost`: trace -> spans that cannot be read."""

    def leave_out(error: TraceError, trace_id: str) -> None:
        report.leave_out(error, SPAN)
        lost[canonical_id(trace_id, ID_FORM)] += 1

    for where, record in records:
        if is_otlp(record):
            yield from flat_spans(record, where, leave_out)
        else:
            yield where, record


def _nested_row(
    record: Mapping[str, JSON], path: Path, where: str, annotations: Annotations, options: ReadOptions
) -> LabeledTrace:
    """A TRAIL file, or a row of the TRAIL table, whose `trace` and `labels` are JSON texts."""
    if "spans" not in record:
        labels = _decoded(record["labels"], f"{where}, labels")
        record = _decoded(record["trace"], f"{where}, trace")
        if labels is not None:
            trace_id = record.get("trace_id") if isinstance(record, dict) else None
            annotations.add(labels, trace_id, f"{where}, labels")
    if not isinstance(record, dict) or not isinstance(record.get("spans"), list):
        raise TraceError(f"{where}, spans: is missing or no list: {_ACCEPTED}")
    trace_id = _trace_id(record, path, where, options)
    spans = [span for item in record["spans"] for span in _spans(item, None, where, options)]
    if not spans:
        raise TraceError(f"{where}, spans: is empty: a trace needs at least one span")
    return annotations.label(build_trace(trace_id, spans, ID_FORM, where, options), where)


def _spans(record: JSON, parent: str | None, where: str, options: ReadOptions) -> Iterator[Span]:
    """A span and, TRAIL's way, its `child_spans` and theirs."""
    stack: list[tuple[JSON, str | None]] = [(record, parent)]
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
    if item.get("logs"):
        options.report.add("logs left out, they can hold the answer", where)
    record = nest(outer)
    attributes = record.get("span_attributes") or record.get("attributes") or {}
    span_id = _text(_first(record, "span_id", "context.span_id"))
    parent = _first(record, "parent_span_id", "parent_id")
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
    code = status(_first(record, "status_code", "status.status_code", "status.code", "status"))
    name = _text(_first(record, "span_name", "name"))
    span = Span(
        span_id=span_id,
        parent_id=above or (None if parent is None else _text(parent)),
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
    given = _first(record, "timestamp", "start_time"), record.get("end_time")
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
    text = _text(_first(record, "status_message", "status.description", "status.message"))
    return text or ("unknown error" if code == "ERROR" else None)


def _trace_id(record: Mapping[str, JSON], path: Path, where: str, options: ReadOptions) -> str:
    trace_id = _text(_first(record, "trace_id", "context.trace_id") or record.get("context.trace_id")).strip()
    if trace_id:
        return str(mend_value(trace_id, f"{where}, trace_id", options))
    options.report.add("no trace_id, file name taken", where)
    return path.stem


def _is_span(record: Mapping[str, JSON]) -> bool:
    """A span, also one that lost its id."""
    return any(key in record for key in ("span_id", "context.span_id", "attributes", "span_attributes"))


def _first(record: Mapping[str, JSON], *names: str) -> JSON:
    """The first of these (dotted) fields that is there and is no mapping."""
    values = (get(record, *name.split(".")) for name in names)
    return next((value for value in values if value is not None and not isinstance(value, dict)), None)


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _decoded(value: JSON, where: str) -> JSON:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{where}: not JSON ({error})") from None
