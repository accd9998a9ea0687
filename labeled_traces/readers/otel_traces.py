"""Spans that stand alone, of many traces mixed, as labelled traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.annotations import ID_FORM, Annotations
from labeled_traces.readers.otel_span import TRACE_IDS, otel_id, read_spans, text_field
from labeled_traces.readers.recover import recovered
from labeled_traces.readers.repair import build_trace, canonical_id, mend_value
from labeled_traces.readers.report import INCOMPLETE, SPAN, ReadOptions
from labeled_traces.trace import JSON, Span, TraceError


def read_traces(
    spans: Iterable[tuple[str, Mapping[str, JSON], Path]], lost: Counter[str], options: ReadOptions
) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs, when all spans are read, since any span could be any trace's.

    Args:
        spans: (place, span, file); what cannot be read of them is left out.
        lost: canonical trace id -> spans that could not even be told from others; grows while `spans` is read.
    """
    annotations = Annotations.load(options)
    traces: dict[str, tuple[str, str, list[Span]]] = {}
    for where, record, path in spans:
        try:
            trace_id = trace_id_of(record, path, where, options)
            key = canonical_id(trace_id, ID_FORM)
            lost[key] += 1
            found = list(read_spans(record, where, options))
            lost[key] -= 1
            traces.setdefault(key, (where, trace_id, []))[2].extend(found)
        except TraceError as error:
            options.report.leave_out(error)
    for key, (where, trace_id, found) in traces.items():
        if lost[key]:
            options.report.add(INCOMPLETE, f"{where}, trace {trace_id}: {lost[key]} x {SPAN}")
        yield where, row(trace_id, found, where, annotations, options)
    annotations.report_unused()


def row(
    trace_id: str, spans: Sequence[Span], where: str, annotations: Annotations, options: ReadOptions
) -> LabeledTrace:
    """The trace of these spans with what people said about it."""
    trace = recovered(build_trace(trace_id, spans, ID_FORM, where, options), where, options.report)
    labelled = annotations.label(trace, where)
    session = next((text for span in trace.spans if (text := span.attributes.get("session.id"))), None)
    return labelled if session is None else replace(labelled, metadata={**labelled.metadata, "session": session})


def trace_id_of(record: Mapping[str, JSON], path: Path, where: str, options: ReadOptions) -> str:
    """The id of a span's trace, or of a trace; the file's name where there is none."""
    dotted = record.get("context.trace_id")
    trace_id = otel_id(text_field(record, *TRACE_IDS) or (dotted if isinstance(dotted, str) else ""))
    if trace_id:
        return str(mend_value(trace_id, f"{where}, trace_id", options))
    options.report.add("no trace_id, file name taken", where)
    return path.stem
