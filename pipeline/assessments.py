"""A judgment as assessments of MLflow: the score on the trace, each finding at its span.

The score is a feedback `<prefix><dimension>`, "0" to "3" or "not_applicable"; it is logged last, so a trace that has it
has all of its findings. A reply that can never be used (refused, cut, no JSON, too long) is a feedback with an error
and no value: missing data, never a zero. A call that failed (timeout, provider) or was not made leaves nothing, so that
it is made again. A finding is a feedback `<prefix><dimension>_finding` at its most telling span.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judges.connect import is_simulated
from judges.judgment import Judgment, Outcome
from labeled_traces.readers.attributes import get
from labeled_traces.trace import JSON, text_hash
from pipeline.export.exported import Exported

_KIND, _JUDGE = "gpa.kind", "gpa.judge"
_SOURCE = "LLM_JUDGE"
SCORE, FINDING = "score", "finding"
AGAIN = (Outcome.TIMEOUT, Outcome.PROVIDER_ERROR, Outcome.NOT_RUN)
"""Outcomes that another call may mend: nothing is logged."""


def identity(judge: Exported) -> str:
    """Who judged: the program and the decision rule that filtered what it reported."""
    rule = json.dumps(judge.rule.to_json(), sort_keys=True)
    return f"{judge.program.hash}-{text_hash(rule)[:8]}"


def has_score(assessments: Sequence[Mapping[str, JSON]], judge: Exported) -> bool:
    """Whether this very judge's score of the trace is there already."""
    return any(_is_of(row, judge) and get(row, "metadata", _KIND) == SCORE for row in assessments)


def left_overs(assessments: Sequence[Mapping[str, JSON]], judge: Exported) -> list[str]:
    """The ids of findings that were logged by an attempt that was stopped before the score."""
    return [str(row["assessment_id"]) for row in assessments if _is_of(row, judge)]


def to_assessments(judgment: Judgment, judge: Exported, prefix: str) -> Iterator[Any]:
    """MLflow's assessments of one judgment, the score last; none where the call is to be made again."""
    from mlflow.entities import AssessmentError, AssessmentSource, Feedback

    if judgment.outcome in AGAIN:
        return
    source = AssessmentSource(_SOURCE, judge.program.knobs.model)
    for finding in judgment.findings if judgment.usable else ():
        about = {
            "confidence": str(finding.confidence),
            "evidence": finding.evidence,
            "span_ids": ",".join(finding.span_ids),
        }
        yield Feedback(
            name=f"{prefix}{finding.dimension}_finding",
            value=str(finding.severity),
            source=source,
            span_id=finding.span_ids[0],
            rationale=finding.explanation,
            metadata=_metadata(judge, FINDING) | about,
        )
    error = None
    if not judgment.usable:
        error = AssessmentError(error_code=str(judgment.outcome).upper(), error_message=judgment.detail)
    yield Feedback(
        name=f"{prefix}{judgment.dimension}",
        value=None if error else str(judgment.outcome if judgment.score is None else judgment.score),
        error=error,
        source=source,
        rationale=judgment.rationale or None,
        metadata=_metadata(judge, SCORE) | {"outcome": str(judgment.outcome), "characters_left_out": str(judgment.cut)},
    )


def _metadata(judge: Exported, kind: str) -> dict[str, str]:
    return {
        _KIND: kind,
        _JUDGE: identity(judge),
        "program_hash": judge.program.hash,
        "prompt": judge.uri,
        "scorer": judge.scorer,
        "scorer_version": str(judge.scorer_version),
        "simulated": str(is_simulated(judge.program.knobs.model)).lower(),
    }


def _is_of(row: Mapping[str, JSON], judge: Exported) -> bool:
    """Whether this judge said it. The same program for another dimension has another hash. MLflow copies the metadata
    to what a person says instead."""
    return get(row, "source", "source_type") == _SOURCE and bool(get(row, "metadata", _JUDGE) == identity(judge))
