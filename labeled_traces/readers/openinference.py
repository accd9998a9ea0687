"""Spans one by one: OpenTelemetry's `ReadableSpan.to_json` (one a line), JSON arrays of spans, Phoenix exports.

Their attributes may be flat or nested, and speak OpenInference or OpenTelemetry's GenAI conventions; spans of several
traces may be mixed. Span ids are hex, with or without `0x`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.labels.trail import is_annotation
from labeled_traces.readers.otlp import is_otlp
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.otel import is_span
from labeled_traces.readers.spans.otel_traces import log_event, read_traces
from labeled_traces.readers.trail import is_trail
from labeled_traces.trace import JSON, TraceError


def role(record: JSON) -> str | None:
    """`traces` or `labels` if this reader can read the record, else None."""
    if not isinstance(record, dict):
        return None
    if is_annotation(record):
        return "labels"
    return "traces" if is_span(record) and not is_otlp(record) and not is_trail(record) else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Records that cannot be read are left out."""
    yield from read_traces(_spans(paths, options), Counter(), options)


def _spans(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, Mapping[str, JSON], Path]]:
    for path in paths:
        for where, record in read_files([path], options.report):
            if role(record) == "traces":
                yield where, _event(record) if _is_log(record) else record, path
            else:
                error = f"{where}: not an OpenInference span: accepted are spans with span_id or context.span_id"
                options.report.leave_out(TraceError(error))


def _is_log(record: Mapping[str, JSON]) -> bool:
    """A log record as OpenTelemetry's Python writes it: what was said to models may stand there."""
    return "body" in record and "severity_number" in record


def _event(record: Mapping[str, JSON]) -> dict[str, JSON]:
    names = ("event_name", "attributes", "body", "trace_id", "span_id")
    return log_event(*(record.get(name) for name in names))
