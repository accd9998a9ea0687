from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from judges.judgment import Outcome
from pipeline.metrics.trace_scores import trace_scores

if TYPE_CHECKING:
    from tests.pipeline.metrics.conftest import Build

LC, PA = "logical_consistency", "plan_adherence"
YEAR, MISREAD, GOAL = "wrong year asked", "value misread badly", "goal forgotten entirely"


def test_by_hand(build: Build) -> None:
    rows = [
        build.row("mixed", build.label("a", LC, text=YEAR), build.label("b", LC, text=MISREAD)),
        build.row("spanless", build.label(None, LC, text=GOAL)),
        build.row("clean"),
        build.row("alarm"),
        build.row("missed", build.label("a", LC, text=YEAR)),
        build.row("failed", build.label("a", LC, text=YEAR)),
    ]
    year, misplaced, noise = (
        build.finding("a", text=YEAR),
        build.finding("c", text=MISREAD),
        build.finding("c", text="x"),
    )
    judgments = [
        # 2 * (1 + 0.5) / (2 labels + 3 findings) in one repeat, 2 * 1 / (2 + 1) in the next; the third is missing.
        build.judgment("mixed", year, misplaced, noise),
        build.judgment("mixed", year, repeat=1),
        build.judgment("mixed", repeat=2, outcome=Outcome.TIMEOUT),
        build.judgment("spanless", build.finding("a", text=GOAL)),
        build.judgment("clean"),
        build.judgment("clean", outcome=Outcome.NOT_APPLICABLE, repeat=1),
        build.judgment("alarm", noise),
        build.judgment("missed"),
        build.judgment("failed", outcome=Outcome.TRUNCATED),
        build.judgment("missed", year, dimension=PA),
    ]
    scores = trace_scores(build.table(rows, judgments, "text", 0.5), LC)
    assert scores.pop("failed") is None
    expected = {"mixed": (0.6 + 2 / 3) / 2, "spanless": 1.0, "clean": 1.0, "alarm": 0.0, "missed": 0.0}
    assert scores == pytest.approx(expected)


def test_span_matcher_does_not_ask_for_labels_without_span(build: Build) -> None:
    table = build.table([build.row("t", build.label(None, LC))], [build.judgment("t")], "span")
    assert trace_scores(table, LC) == {"t": 1.0}
