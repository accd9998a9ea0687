"""What people said in Langfuse: scores whose source is ANNOTATION; those of evaluators and of the API are not read.

Names and values are read as `feedback` says. A trace's correction is its reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import either, first
from labeled_traces.readers.labels.feedback import Feedback, Said, as_assessments
from labeled_traces.readers.labels.mlflow import NO_PERSON, label
from labeled_traces.readers.mending.repair import mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.trace import JSON, Trace

_PERSON = "ANNOTATION"


def is_score(record: JSON) -> bool:
    """Whether a record is a score of Langfuse."""
    if not isinstance(record, dict) or not either(record, "traceId"):
        return False
    return {"name", "source"} <= record.keys() and bool({"value", "stringValue", "string_value"} & record.keys())


def load_scores(options: ReadOptions) -> Feedback:
    """The scores of the label files by their trace's id. Raises: TraceError for label files without scores."""
    accepted = "{traceId, name, value, source}"
    return Feedback(options, is_score, lambda score: str(either(score, "traceId")).strip(), accepted)


def label_by_scores(
    trace: Trace, about: Mapping[str, JSON], scores: Feedback, where: str, options: ReadOptions
) -> LabeledTrace:
    """The trace with people's labels, and with what they would have had it answer.

    Args:
        about: the record of the trace, with its own `scores` and `corrections`.
    """
    own, given = about.get("scores"), about.get("corrections")
    for number, score in enumerate(own if isinstance(own, list) else []):
        if isinstance(score, dict):  # a list of the API names scores by their ids
            scores.add({**score, "traceId": trace.trace_id}, f"{where}, scores[{number}]")
    said: list[tuple[str, Said]] = []
    corrections = [item for item in (given if isinstance(given, list) else []) if isinstance(item, dict)]
    for place, score in scores.take([trace.trace_id]):
        if score.get("source") != _PERSON:
            options.report.add(NO_PERSON, f"{place}: {score.get('name')!r}")
        elif either(score, "dataType") == "CORRECTION":
            corrections.append(score)
        else:
            said.append((place, _said(score)))
    options.report.strip("trace.corrections", len(corrections))
    whole = (item for item in corrections if not either(item, "observationId"))
    texts = (first(either(item, "longStringValue"), either(item, "stringValue"), item.get("value")) for item in whole)
    reference = next((text for text in texts if isinstance(text, str) and text), None)
    row = label(trace, as_assessments(said, options), where, options)
    return replace(row, reference=mend_value(reference, f"{where}, corrections", options))


def _said(score: Mapping[str, JSON]) -> Said:
    text = either(score, "stringValue")
    span_id = either(score, "observationId")
    return Said(
        id=str(score.get("id") or ""),
        name=str(score.get("name") or ""),
        value=text if isinstance(text, str) and text else score.get("value"),
        rater=str(either(score, "authorUserId") or ""),
        span_id=str(span_id) if span_id else None,
        comment=score.get("comment"),
        time=first(either(score, "updatedAt"), score.get("timestamp")),
        metadata=score.get("metadata"),
        choice=either(score, "dataType") in ("BOOLEAN", "CATEGORICAL"),
    )
