"""Spans that stand alone, of many traces mixed, as labelled traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import first
from labeled_traces.readers.files.span_store import SpanStore
from labeled_traces.readers.labels.trail import ID_FORM, Annotations
from labeled_traces.readers.mending.recover import recovered
from labeled_traces.readers.mending.repair import build_trace, canonical_id, mend_value
from labeled_traces.readers.report import INCOMPLETE, SPAN, ReadOptions
from labeled_traces.readers.spans.otel import TRACE_IDS, otel_id, read_spans, span_id_of, text_field
from labeled_traces.trace import JSON, Span, TraceError

LOG = "log"
"""The key of what `log_event` makes; beside it stand the ids of its span."""
_NO_GENAI_LOG = "log record that is no message of a model, left out"
_NO_SPAN_LOG = "log record of a span that was not read, left out"


def log_event(name: JSON, attributes: JSON, body: JSON, trace_id: JSON, span_id: JSON) -> dict[str, JSON]:
    """A log record about a span, for `read_traces`: it is read as an event of that span."""
    given = attributes if isinstance(attributes, dict) else {}
    event = {"name": first(name, given.get("event.name")), "attributes": given, "body": body}
    return {"context": {"trace_id": trace_id, "span_id": span_id}, LOG: event}


def read_traces(
    spans: Iterable[tuple[str, Mapping[str, JSON], Path]],
    lost: Counter[str],
    options: ReadOptions,
    form: str = ID_FORM,
) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs, when all spans are read, since any span could be any trace's.

    Args:
        spans: (place, span or log event, file); what cannot be read of them is left out.
        lost: canonical trace id -> spans that could not even be told from others; grows while `spans` is read.
        form: how the ids of spans are written, see `canonical_id`.
    """
    annotations = Annotations.load(options)
    store = SpanStore()
    traces: dict[str, _Gathered] = {}
    for where, record, path in spans:
        trace_id = trace_id_of(record, path, where, options)
        key = canonical_id(trace_id, ID_FORM)
        gathered = traces.setdefault(key, _Gathered(where, trace_id, store))
        if LOG in record:
            gathered.add_event(record, where, options)
        else:
            gathered.spans.append(store.put(where, record))
    for key in list(traces):
        gathered = traces.pop(key)
        found = list(gathered.read(lost, key, options))
        if lost[key] and found:
            options.report.add(INCOMPLETE, f"{gathered.where}, trace {gathered.trace_id}: {lost[key]} x {SPAN}")
        if found:
            yield gathered.where, row(gathered.trace_id, found, gathered.where, annotations, options, form)
    annotations.report_unused()


@dataclass
class _Gathered:
    """What was found of one trace: its spans as they came, and what log records say about them, by span."""

    where: str
    trace_id: str
    store: SpanStore
    spans: list[int] = field(default_factory=list)
    events: dict[str, list[tuple[str, JSON]]] = field(default_factory=dict)

    def add_event(self, record: Mapping[str, JSON], where: str, options: ReadOptions) -> None:
        if str(record[LOG]["name"]).startswith("gen_ai."):
            self.events.setdefault(span_id_of(record), []).append((where, record[LOG]))
        else:
            options.report.add(_NO_GENAI_LOG, where)

    def read(self, lost: Counter[str], key: str, options: ReadOptions) -> Iterator[Span]:
        for where, given in self.store.get(self.spans):
            record = given
            said = [event for _, event in self.events.pop(span_id_of(record), ())] if self.events else []
            if said:
                own = record.get("events")
                record = {**record, "events": [*(own if isinstance(own, list) else []), *said]}
            try:
                yield from list(read_spans(record, where, options))
            except TraceError as error:
                lost[key] += 1
                options.report.leave_out(error)
        for left in self.events.values():
            options.report.add(_NO_SPAN_LOG, left[0][0], len(left))


def row(
    trace_id: str,
    spans: Sequence[Span],
    where: str,
    annotations: Annotations,
    options: ReadOptions,
    form: str = ID_FORM,
) -> LabeledTrace:
    """The trace of these spans with what people said about it."""
    trace = recovered(build_trace(trace_id, spans, form, where, options), where, options.report)
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
