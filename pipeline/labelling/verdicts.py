"""What judges said, as MLflow shows it beside a trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from judges.judgment import Judgment
from labeled_traces.readers.labels.mlflow import PREFIX


def as_assessments(judgments: Iterable[Judgment]) -> Iterator[Any]:
    """The scores and, at their spans, the findings, of a source LLM_JUDGE; what cannot be used says nothing."""
    from mlflow.entities import AssessmentSource, Feedback

    for judgment in judgments:
        if not judgment.usable:
            continue
        source = AssessmentSource("LLM_JUDGE", f"{judgment.dimension} {judgment.program[:8]}")
        score = str(judgment.outcome if judgment.score is None else judgment.score)
        yield Feedback(
            name=f"{PREFIX}{judgment.dimension}", value=score, source=source, rationale=judgment.rationale or None
        )
        for finding in judgment.findings:
            yield Feedback(
                name=f"{PREFIX}{finding.dimension}_finding",
                value=str(finding.severity),
                source=source,
                span_id=finding.span_ids[0] if finding.span_ids else None,
                rationale=finding.explanation,
            )
