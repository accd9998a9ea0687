"""The labels of AgentRx: every failure that its people saw in a run, and which of them was the root cause.

A file holds `{trajectory_id, failures: [{failure_id, step_number, failure_category, step_reason, category_reason,
failed_agent}], root_cause: {failure_id}, failure_summary}`. `step_number` counts from 1 over all messages of the run,
the system message included.

AgentRx gives no impact: the root cause counts as high, every other failure as medium. This is our own reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.readers.labels.by_run import RunLabels
from labeled_traces.readers.labels.joining import no_span
from labeled_traces.readers.mending.repair import mend_value
from labeled_traces.readers.report import LABEL, ReadOptions
from labeled_traces.readers.spans.chat import step_span
from labeled_traces.trace import JSON, Trace, TraceError

RATER = "AgentRx"
FIRST = 1
LIST = "failures"


def is_labels(record: JSON) -> bool:
    """Whether a record looks like the labels of one run."""
    return isinstance(record, dict) and "trajectory_id" in record and "failures" in record


def load(records: Iterable[tuple[str, JSON]], options: ReadOptions) -> RunLabels:
    """Raises: TraceError: a run with two different sets of labels. Other records are left out."""
    accepted = "AgentRx labels: accepted is {trajectory_id, failures: [...]}"
    return RunLabels.load(records, options, lambda one: is_labels(one) and isinstance(one[LIST], list), accepted)


def errors_of(labels: RunLabels, key: str, trace: Trace, rater: str = "") -> tuple[ErrorLabel, ...]:
    """The failures of a run. Fewer than the record has: the others could not be read, and the report says so."""
    options = labels.options
    where, record = labels.by_run[key]
    root = record.get("root_cause")
    root_id = root.get("failure_id") if isinstance(root, dict) else None
    errors = []
    for number, raw in enumerate(record[LIST], 1):
        place = f"{where}, failure {number}"
        if not isinstance(raw, dict):
            accepted = "accepted is {step_number, failure_category, ...}"
            options.report.leave_out(TraceError(f"{place}: is {type(raw).__name__}: {accepted}"), LABEL)
            continue
        failure = mend_value(raw, place, options)
        # One file has the numbers of failures as numbers, and that of one root cause as a text.
        is_root = root_id is not None and str(failure.get("failure_id")).strip() == str(root_id).strip()
        errors.append(_error(failure, Impact.HIGH if is_root else Impact.MEDIUM, trace, rater, (place, options)))
    if not any(error.impact is Impact.HIGH for error in errors):
        options.report.add("root cause that is none of the failures", where)
    return tuple(errors)


def about(record: Mapping[str, JSON], where: str, options: ReadOptions) -> dict[str, JSON]:
    """What people said of the run as a whole: in sum, and why they hold that failure for the root cause."""
    root = record.get("root_cause")
    why = root.get("reason_for_root_cause") if isinstance(root, dict) else None
    said = {"failure_summary": str(record.get("failure_summary") or ""), **({"root_cause": str(why)} if why else {})}
    return {name: mend_value(text, f"{where}, {name}", options) for name, text in said.items()}


def _error(
    failure: Mapping[str, JSON], impact: Impact, trace: Trace, rater: str, at: tuple[str, ReadOptions]
) -> ErrorLabel:
    place, options = at
    category = options.category(str(failure.get("failure_category") or "").strip(), place)
    span_id = step_span(failure.get("step_number"), FIRST, trace)
    if span_id is None:
        no_span(options, place, trace.trace_id, f"step_number {str(failure.get('step_number')).strip()}")
    texts = (str(failure[key]) for key in ("step_reason", "category_reason") if failure.get(key))
    return ErrorLabel(
        span_id=span_id,
        dimensions=options.taxonomy.dimensions_of(category, str(failure.get("failed_agent"))),
        category=category,
        impact=impact,
        description="\n".join(texts),
        rater=rater,
    )
