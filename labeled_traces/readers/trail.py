"""TRAIL: a trace a file, `{trace_id, spans}` with nested spans, beside its annotation; or rows `{trace, labels}`, both
as JSON texts, of its table. Span ids are hex.

`logs` never get into a trace: they hold question, answer and annotator notes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.files.records import parse_mended, read_each, read_files
from labeled_traces.readers.labels.trail import Annotations, is_annotation
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.otel import read_spans
from labeled_traces.readers.spans.otel_traces import row, trace_id_of
from labeled_traces.trace import JSON, TraceError


def is_trail(record: Mapping[str, JSON]) -> bool:
    """Whether a record is a trace with its spans, or a row of TRAIL's table."""
    return isinstance(record.get("spans"), list) or ("trace" in record and "labels" in record)


def role(record: JSON) -> str | None:
    """`traces` or `labels` if this reader can read the record, else None."""
    if not isinstance(record, dict):
        return None
    if is_annotation(record):
        return "labels"
    return "traces" if is_trail(record) else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Records that cannot be read are left out."""
    annotations = Annotations.load(options)
    for path in paths:
        row_of = partial(_row, path=path, annotations=annotations, options=options)
        yield from read_each(read_files([path], options.report), row_of, options.report)
    annotations.report_unused()


def _row(record: JSON, where: str, path: Path, annotations: Annotations, options: ReadOptions) -> LabeledTrace:
    if role(record) != "traces":
        raise TraceError(f"{where}: not a TRAIL trace: {_ACCEPTED}")
    if "spans" not in record:
        labels = _decoded(record["labels"], f"{where}, labels", options)
        record = _decoded(record["trace"], f"{where}, trace", options)
        if labels is not None:
            trace_id = record.get("trace_id") if isinstance(record, dict) else None
            annotations.add(labels, trace_id, f"{where}, labels")
    if not isinstance(record, dict) or not isinstance(record.get("spans"), list):
        raise TraceError(f"{where}, spans: is missing or no list: {_ACCEPTED}")
    trace_id = trace_id_of(record, path, where, options)
    spans = [span for item in record["spans"] for span in read_spans(item, where, options)]
    if not spans:
        raise TraceError(f"{where}, spans: is empty: a trace needs at least one span")
    return row(trace_id, spans, where, annotations, options)


_ACCEPTED = "accepted are {trace_id, spans: [...]} and rows {trace, labels}"


def _decoded(value: JSON, where: str, options: ReadOptions) -> JSON:
    return parse_mended(value, where, options.report) if isinstance(value, str) else value
