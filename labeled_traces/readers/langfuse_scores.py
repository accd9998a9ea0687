"""What people said in Langfuse: scores whose source is ANNOTATION; those of evaluators and of the API are not read.

A score named `gpa_<dimension>` (0-3) or `gpa_error` (its text value is the category, its comment the description) is
read as MLflow's feedback of that name. A score whose text value, or a true one whose name, is a category of the
taxonomy is an error of that category; a false one says that the person looked. A trace's correction is its reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.attributes import first
from labeled_traces.readers.joining import Unknown, refuse_unknown
from labeled_traces.readers.mlflow_labels import ERROR, NO_ERROR, PREFIX, label
from labeled_traces.readers.records import read_files
from labeled_traces.readers.repair import mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.trace import JSON, Trace, TraceError

_PERSON = "ANNOTATION"
_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")


def is_score(record: JSON) -> bool:
    """Whether a record is a score of Langfuse."""
    if not isinstance(record, dict) or not _get(record, "traceId"):
        return False
    return {"name", "source"} <= record.keys() and bool({"value", "stringValue", "string_value"} & record.keys())


class Scores:
    """Scores by trace id, each with its place; those of the label files from the start."""

    def __init__(self, options: ReadOptions) -> None:
        """Raises: TraceError for label files without a score."""
        self._options = options
        self._by_trace: dict[str, dict[str, tuple[str, JSON]]] = {}
        self._used: set[str] = set()
        for where, record in read_files(options.labels, options.report):
            if is_score(record):
                self.add(record, where)
            else:
                accepted = "accepted is {traceId, name, value, source}"
                options.report.leave_out(TraceError(f"{where}: no score of Langfuse: {accepted}"))
        if options.labels and not self._by_trace:
            raise options.report.nothing_read() or TraceError(f"{options.labels[0]}: holds no scores")

    def add(self, score: Mapping[str, JSON], where: str) -> None:
        known = self._by_trace.setdefault(str(_get(score, "traceId")).strip(), {})
        known.setdefault(str(score.get("id") or where), (where, score))

    def label(self, trace: Trace, about: Mapping[str, JSON], where: str) -> LabeledTrace:
        """The trace with people's labels, and with what they would have had it answer.

        Args:
            about: the record of the trace, with its own `scores` and `corrections`.
        """
        report = self._options.report
        self._used.add(trace.trace_id)
        own, given = about.get("scores"), about.get("corrections")
        for number, score in enumerate(own if isinstance(own, list) else []):
            if isinstance(score, dict):  # a list of the API names scores by their ids
                self.add({**score, "traceId": trace.trace_id}, f"{where}, scores[{number}]")
        said = []
        corrections = [item for item in (given if isinstance(given, list) else []) if isinstance(item, dict)]
        for place, score in self._by_trace.get(trace.trace_id, {}).values():
            if score.get("source") != _PERSON:
                report.add("score that no person gave, not read as a label", f"{place}: {score.get('name')!r}")
            elif _get(score, "dataType") == "CORRECTION":
                corrections.append(score)
            else:
                said.append(_feedback(score, place, self._options))
        row = label(trace, [feedback for feedback in said if feedback], where, self._options)
        report.strip("trace.corrections", len(corrections))
        whole = (item for item in corrections if not _get(item, "observationId"))
        texts = (first(_get(item, "longStringValue"), _get(item, "stringValue"), item.get("value")) for item in whole)
        reference = next((text for text in texts if isinstance(text, str) and text), None)
        return replace(row, reference=mend_value(reference, f"{where}, corrections", self._options))

    def refuse_unknown(self) -> None:
        """Raises: TraceError if there are scores of traces that were not read, see `joining`."""
        unused = ((key, [*found.values()]) for key, found in self._by_trace.items() if key not in self._used)
        refuse_unknown(self._options, (Unknown(found[0][0], key, len(found)) for key, found in unused))


def _feedback(score: Mapping[str, JSON], place: str, options: ReadOptions) -> dict[str, JSON]:
    """The score as an assessment of MLflow, empty if it says nothing that is read."""
    name = str(score.get("name") or "")
    text = _get(score, "stringValue")
    value = text if isinstance(text, str) and text else score.get("value")
    if not name.startswith(PREFIX):
        category = _category(name, value, score, options)
        if category is None:
            options.report.add("person's score that is no category of the taxonomy, left out", f"{place}: {name!r}")
            return {}
        name, value = f"{PREFIX}{ERROR}", category
    return {
        "assessment_id": score.get("id"),
        "assessment_name": name,
        "feedback": {"value": value},
        "source": {"source_type": "HUMAN", "source_id": str(_get(score, "authorUserId") or "")},
        "span_id": _get(score, "observationId"),
        "rationale": score.get("comment"),
        "create_time": first(_get(score, "updatedAt"), score.get("timestamp")),
        "metadata": score.get("metadata"),
    }


def _category(name: str, value: JSON, score: Mapping[str, JSON], options: ReadOptions) -> str | None:
    """The category that a score names, `none` where it says that there is no such error, None if it names none."""
    if isinstance(value, str) and options.taxonomy.find(value) is not None:
        return value
    if options.taxonomy.find(name) is None or _get(score, "dataType") not in ("BOOLEAN", "CATEGORICAL"):
        return None
    answer = str(int(value) if isinstance(value, bool | float) else value).strip().lower()
    return name if answer in _YES else NO_ERROR if answer in _NO else None


def _get(record: Mapping[str, JSON], key: str) -> JSON:
    """A field in camelCase (the API) or snake_case (the storage export)."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
    return first(record.get(key), record.get(snake))
