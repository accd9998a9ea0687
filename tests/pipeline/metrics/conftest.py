"""Small tables that can be counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from judges.judgment import Finding, Judgment, Outcome
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel, score_from_impacts
from labeled_traces.trace import Span, Trace
from pipeline.matching import build_matcher
from pipeline.metrics.table import MatchTable, match_judgments

LC, PA, TC = "logical_consistency", "plan_adherence", "tool_calling"


class Build:
    """Makers of rows, labels, findings and judgments with short defaults. Every trace is root -> (a -> b, c)."""

    def row(
        self,
        trace_id: str,
        *errors: ErrorLabel,
        scores: Sequence[ScoreLabel] = (),
        group: str = "",
        extra_spans: int = 0,
    ) -> LabeledTrace:
        more = [Span(f"x{number}", "root", "more") for number in range(extra_spans)]
        spans = (
            Span("root", None, "agent", inputs=f"task of {trace_id}"),
            Span("a", "root", "planner"),
            Span("b", "a", "tool"),
            Span("c", "root", "end"),
        )
        return LabeledTrace(Trace(trace_id, (*spans, *more)), errors, tuple(scores), group)

    def label(
        self, span: str | None, *dimensions: str, impact: Impact = Impact.HIGH, text: str = "", evidence: str = ""
    ) -> ErrorLabel:
        return ErrorLabel(span, dimensions, "category", impact, text, evidence)

    def finding(
        self,
        *spans: str,
        severity: Impact = Impact.HIGH,
        confidence: int = 100,
        text: str = "",
        dimension: str = LC,
    ) -> Finding:
        return Finding(dimension, spans, text, "", severity, confidence)

    def judgment(
        self,
        trace_id: str,
        *findings: Finding,
        dimension: str = LC,
        repeat: int = 0,
        score: int | None = None,
        outcome: Outcome = Outcome.SCORED,
    ) -> Judgment:
        """The score follows from the findings unless it is given."""
        derived = score_from_impacts(finding.severity for finding in findings) if score is None else score
        return Judgment(
            trace_id,
            dimension,
            "program",
            repeat,
            outcome,
            derived if outcome is Outcome.SCORED else None,
            findings,
        )

    def table(
        self,
        rows: Sequence[LabeledTrace],
        judgments: Sequence[Judgment],
        matcher: str = "span",
        threshold: float | None = None,
    ) -> MatchTable:
        return match_judgments(rows, judgments, build_matcher(matcher, rows, threshold))


@pytest.fixture
def build() -> Build:
    return Build()
