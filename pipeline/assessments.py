"""A judgment as assessments of MLflow: the score on the trace, each finding at its span.

The score is a feedback `<prefix><dimension>`, "0" to "3" or "not_applicable"; it is logged last, so a trace that has it
has all of its findings. A reply that can never be used (refused, cut, no JSON, too long) is a feedback with an error
and no value: missing data, never a zero. A call that failed (timeout, provider) or was not made leaves nothing, so that
it is made again. A finding is a feedback `<prefix><dimension>_finding` at its most telling span.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from judges.judgment import HOLISTIC, Judgment, Outcome
from judges.models.connect import is_simulated
from labeled_traces.json_values import get
from labeled_traces.label import DIMENSIONS
from labeled_traces.trace import JSON, text_hash
from pipeline.export.exported import Exported

_KIND, _JUDGE, _WEIGHED = "gpa.kind", "gpa.judge", "gpa.weighed"
_SOURCE = "LLM_JUDGE"
SCORE, FINDING = "score", "finding"
AGAIN = (Outcome.TIMEOUT, Outcome.PROVIDER_ERROR, Outcome.NOT_RUN)
"""Outcomes that another call may mend: nothing is logged."""


@dataclass(frozen=True)
class Voice:
    """A champion as it speaks of traces: under names that begin with `prefix`.

    `weighed`: with which champions what it reports is weighed together, as a hash; "" where each speaks for itself.
    """

    judge: Exported
    prefix: str
    weighed: str = ""

    @classmethod
    def of(cls, champions: Mapping[str, Exported], prefix: str) -> dict[str, Voice]:
        together = text_hash(",".join(sorted(judge.program.hash for judge in champions.values())))[:16]
        return {
            name: cls(judge, prefix, together if judge.rule.weighs_judges else "") for name, judge in champions.items()
        }

    def has_score(self, assessments: Sequence[Mapping[str, JSON]]) -> bool:
        """Whether this very judge's score of the trace is there already, weighed as it would be now."""
        return any(
            self._said(row)
            and get(row, "metadata", _KIND) == SCORE
            and (get(row, "metadata", _WEIGHED) or "") == self.weighed
            for row in assessments
        )

    def left_overs(self, assessments: Sequence[Mapping[str, JSON]]) -> list[str]:
        """The ids of what it said before: in an attempt that was stopped before the score, or weighed otherwise."""
        return [str(row["assessment_id"]) for row in assessments if self._said(row)]

    def to_assessments(self, judgment: Judgment) -> Iterator[Any]:
        """MLflow's assessments of one judgment, the score last; none where the call is to be made again."""
        from mlflow.entities import AssessmentError, AssessmentSource, Feedback

        if judgment.outcome in AGAIN:
            return
        source = AssessmentSource(_SOURCE, self.judge.program.knobs.model)
        for finding in judgment.findings if judgment.usable else ():
            about = {
                "confidence": str(finding.confidence),
                "evidence": finding.evidence,
                "span_ids": ",".join(finding.span_ids),
            }
            yield Feedback(
                name=f"{self.prefix}{finding.dimension}_{FINDING}",
                value=str(finding.severity),
                source=source,
                span_id=finding.span_ids[0],
                rationale=finding.explanation,
                metadata=self._metadata(FINDING) | about,
            )
        error = None
        if not judgment.usable:
            error = AssessmentError(error_code=str(judgment.outcome).upper(), error_message=judgment.detail)
        about = {"outcome": str(judgment.outcome), "characters_left_out": str(judgment.cut)}
        yield Feedback(
            name=f"{self.prefix}{judgment.dimension}",
            value=None if error else str(judgment.outcome if judgment.score is None else judgment.score),
            error=error,
            source=source,
            rationale=judgment.rationale or None,
            metadata=self._metadata(SCORE) | about,
        )

    def _said(self, row: Mapping[str, JSON]) -> bool:
        """A person's correction bears the same name and, since MLflow copies it, the same metadata."""
        name = str(row.get("assessment_name"))
        return (
            get(row, "source", "source_type") == _SOURCE
            and name.startswith(self.prefix)
            and name.removeprefix(self.prefix).removesuffix(f"_{FINDING}") in (*DIMENSIONS, HOLISTIC)
            and get(row, "metadata", _JUDGE) == self._identity
        )

    @property
    def _identity(self) -> str:
        """Who judged: the program and the decision rule that filtered what it reported."""
        rule = json.dumps(self.judge.rule.to_json(), sort_keys=True)
        return f"{self.judge.program.hash}-{text_hash(rule)[:8]}"

    def _metadata(self, kind: str) -> dict[str, str]:
        judge = self.judge
        return {
            _KIND: kind,
            _JUDGE: self._identity,
            _WEIGHED: self.weighed,
            "program_hash": judge.program.hash,
            "prompt": judge.uri,
            "scorer": judge.scorer,
            "scorer_version": str(judge.scorer_version),
            "simulated": str(is_simulated(judge.program.knobs.model)).lower(),
        }
