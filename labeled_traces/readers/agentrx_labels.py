"""The labels of AgentRx: every failure that its people saw in a run, and which of them was the root cause.

A file holds `{trajectory_id, failures: [{failure_id, step_number, failure_category, step_reason, category_reason,
failed_agent}], root_cause: {failure_id}, failure_summary}`. `step_number` counts from 1 over all messages of the run,
the system message included.

AgentRx gives no impact: the root cause counts as high, every other failure as medium. This is our own reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.readers.chat import step_span
from labeled_traces.readers.joining import Unknown, no_span
from labeled_traces.readers.repair import mend_value
from labeled_traces.readers.report import LABEL, ReadOptions
from labeled_traces.trace import JSON, Trace, TraceError

RATER = "AgentRx"
FIRST = 1


def is_labels(record: JSON) -> bool:
    """Whether a record looks like the labels of one run."""
    return isinstance(record, dict) and "trajectory_id" in record and "failures" in record


@dataclass
class RunLabels:
    """The labels by trajectory id, each with its place. One set that stands in several files counts once."""

    options: ReadOptions
    by_run: dict[str, tuple[str, Mapping[str, JSON]]] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, records: Iterable[tuple[str, JSON]], options: ReadOptions) -> RunLabels:
        """Raises: TraceError: a run with two different sets of labels. Other records are left out."""
        labels = cls(options)
        for where, record in records:
            if not is_labels(record) or not isinstance(record["failures"], list):
                accepted = "accepted is {trajectory_id, failures: [...]}"
                options.report.leave_out(TraceError(f"{where}: no AgentRx labels: {accepted}"))
                continue
            key = str(record["trajectory_id"]).strip()
            if labels.by_run.setdefault(key, (where, record))[1] != record:
                first = labels.by_run[key][0]
                raise TraceError(f"trajectory {key!r} has labels at {first} and other ones at {where}")
        return labels

    def use(self, key: str, trace_id: str, where: str) -> None:
        """Notes that a run took its labels.

        Raises:
            TraceError: another run took them before.
        """
        first = self.used.setdefault(key, trace_id)
        if first != trace_id:
            raise TraceError(
                f"{where}: labels of {key!r} fit {first!r} and {trace_id!r}: name the run in trajectory_id"
            )

    def unused(self) -> Iterator[Unknown]:
        """The labels that no run took."""
        for key, (where, record) in self.by_run.items():
            if key not in self.used:
                yield Unknown(where, key, len(record["failures"]))

    def errors(self, key: str, trace: Trace, rater: str = "") -> tuple[ErrorLabel, ...]:
        """The failures of a run. Fewer than the record has: the others could not be read, and the report says so."""
        where, record = self.by_run[key]
        root = record.get("root_cause")
        root_id = root.get("failure_id") if isinstance(root, dict) else None
        errors = []
        for number, raw in enumerate(record["failures"], 1):
            place = f"{where}, failure {number}"
            if not isinstance(raw, dict):
                accepted = "accepted is {step_number, failure_category, ...}"
                self.options.report.leave_out(TraceError(f"{place}: is {type(raw).__name__}: {accepted}"), LABEL)
                continue
            failure = mend_value(raw, place, self.options)
            # One file has the numbers of failures as numbers, and that of one root cause as a text.
            is_root = root_id is not None and str(failure.get("failure_id")).strip() == str(root_id).strip()
            errors.append(self._error(failure, Impact.HIGH if is_root else Impact.MEDIUM, trace, rater, place))
        if not any(error.impact is Impact.HIGH for error in errors):
            self.options.report.add("root cause that is none of the failures", where)
        return tuple(errors)

    def _error(self, failure: Mapping[str, JSON], impact: Impact, trace: Trace, rater: str, place: str) -> ErrorLabel:
        category = self.options.category(str(failure.get("failure_category") or "").strip(), place)
        span_id = step_span(failure.get("step_number"), FIRST, trace)
        if span_id is None:
            given = str(failure.get("step_number")).strip()
            no_span(self.options, place, trace.trace_id, f"step_number {given}")
        texts = (str(failure[key]) for key in ("step_reason", "category_reason") if failure.get(key))
        return ErrorLabel(
            span_id=span_id,
            dimensions=self.options.taxonomy.dimensions_of(category, str(failure.get("failed_agent"))),
            category=category,
            impact=impact,
            description="\n".join(texts),
            rater=rater,
        )
