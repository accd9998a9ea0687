"""TRAIL annotations: what people said about an OpenInference trace, joined by trace id and span id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.labels.joining import Unknown, no_span, refuse_unknown
from labeled_traces.readers.mending.original import ORIGINAL
from labeled_traces.readers.mending.repair import canonical_id, mend_value
from labeled_traces.readers.report import LABEL, ReadOptions
from labeled_traces.task_group import task_group
from labeled_traces.trace import JSON, Trace, TraceError

WITHOUT = "trace without annotation"
ID_FORM = "hex"
"""How OpenInference writes the ids of traces and spans, see `canonical_id`."""


def is_annotation(record: Mapping[str, JSON]) -> bool:
    """Whether a record looks like `{trace_id, errors, scores}`; a file named after its trace may leave out the id."""
    known = isinstance(record.get("errors"), list) and ("trace_id" in record or "scores" in record)
    return known and not isinstance(record.get("trace"), dict)  # a labelled trace as we write it


@dataclass
class Annotations:
    """Annotations by canonical trace id, each with the place that it came from."""

    options: ReadOptions
    by_trace: dict[str, list[tuple[str, Mapping[str, JSON]]]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    bare: list[tuple[str, str]] = field(default_factory=list)
    """Traces of which nothing was said here; a converted file has its labels elsewhere."""

    @classmethod
    def load(cls, options: ReadOptions) -> Annotations:
        """Reads the label files of `options`; one without a trace_id is about the trace that its file is named after.

        Raises:
            TraceError: files of which no record is an annotation.
        """
        annotations = cls(options)
        for path in options.labels:
            for where, record in read_files([path], options.report):
                try:
                    annotations.add(record, path.stem, where)
                except TraceError as error:
                    options.report.leave_out(error)
        options.need_labels(bool(annotations.by_trace))
        return annotations

    def add(self, record: JSON, trace_id: JSON, where: str) -> None:
        """Raises: TraceError if the record is no annotation."""
        if not isinstance(record, dict) or not isinstance(record.get("errors"), list):
            raise TraceError(f"{where}: not an annotation: accepted is {{trace_id, errors: [...], scores: [...]}}")
        key = canonical_id(str(record.get("trace_id") or trace_id), ID_FORM)
        known = self.by_trace.setdefault(key, [])
        if any(record == other for _, other in known):
            self.options.report.add("annotation twice, kept once", where)
        else:
            known.append((where, record))

    def label(self, trace: Trace, where: str) -> LabeledTrace:
        """The trace with all that was said about it."""
        key = canonical_id(trace.trace_id, ID_FORM)
        self.used.add(key)
        found = self.by_trace.get(key, [])
        if not found and not any(ORIGINAL in span.attributes for span in trace.spans):
            self.bare.append((trace.trace_id, f"{where}, trace {trace.trace_id}"))
        spans = {canonical_id(span.span_id, ID_FORM): span.span_id for span in reversed(trace.spans)}
        errors: list[ErrorLabel] = []
        scores: list[JSON] = []
        raters: list[str] = []
        lost = False
        for place, record in found:
            rater = mend_value(str(record.get("annotator") or record.get("rater") or ""), place, self.options)
            raters.append(rater)
            for number, error in enumerate(record["errors"], 1):
                try:
                    errors.append(self._error(error, rater, trace.trace_id, spans, f"{place}, error {number}"))
                except TraceError as damage:
                    self.options.report.leave_out(damage, LABEL)
                    lost = True
            scores += _list(record.get("scores"))
        return LabeledTrace(
            trace=trace,
            errors=tuple(errors),
            group=task_group(trace),
            clean="checked" if found and not lost else "unknown",
            metadata=mend_value({"scores": scores}, where, self.options) if scores else {},
            raters=tuple(dict.fromkeys(filter(None, raters))),
        )

    def report_unused(self) -> None:
        """When all traces are read: of which nothing was said although something was said of others.

        Raises:
            TraceError: annotations that no trace took, see `refuse_unknown`.
        """
        for trace_id, where in self.bare if self.by_trace else ():
            self.options.report.without_labels(WITHOUT, trace_id, where)
        unused = ((key, found) for key, found in self.by_trace.items() if key not in self.used)
        refuse_unknown(
            self.options,
            (Unknown(found[0][0], key, sum(max(1, len(said["errors"])) for _, said in found)) for key, found in unused),
        )

    def _error(self, error: JSON, rater: str, trace_id: str, spans: Mapping[str, str], where: str) -> ErrorLabel:
        if not isinstance(error, dict):
            raise TraceError(f"{where}: is {type(error).__name__}: accepted is {{category, location, impact, ...}}")
        report = self.options.report
        texts = {key: mend_value(str(error.get(key) or ""), f"{where}, {key}", self.options) for key in _TEXTS}
        category = self.options.category(texts["category"].strip(), where)
        span_id = spans.get(canonical_id(str(error.get("location") or ""), ID_FORM))
        if span_id is None:
            no_span(self.options, where, trace_id, error.get("location"))
        try:
            impact = Impact.parse(error["impact"])
        except (KeyError, TraceError):
            report.add("impact missing or unknown, medium taken", f"{where}: {error.get('impact')!r}")
            impact = Impact.MEDIUM
        return ErrorLabel(
            span_id=span_id,
            dimensions=self.options.taxonomy.dimensions_of(category),
            category=category,
            impact=impact,
            description=texts["description"],
            evidence=texts["evidence"],
            rater=rater,
        )


_TEXTS = ("category", "description", "evidence")


def _list(value: JSON) -> Sequence[JSON]:
    return value if isinstance(value, list) else [] if value is None else [value]
