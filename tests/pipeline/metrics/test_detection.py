"""Coverage, localization, precision, false alarms and F1 by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from judges.judgment import Judgment, Outcome
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import Impact
from pipeline.metrics.detection import detection
from pipeline.metrics.table import MatchTable
from pipeline.metrics.trace_scores import trace_scores

if TYPE_CHECKING:
    from tests.pipeline.metrics.conftest import Build

LC, PA = "logical_consistency", "plan_adherence"


def value(table: MatchTable, name: str) -> float | None:
    statistic = detection(table)[name]
    number = float(statistic.value(statistic.columns.sum(axis=0)[None])[0])
    return None if np.isnan(number) else number


def example(build: Build) -> tuple[list[LabeledTrace], list[Judgment]]:
    """Two judges, two repeats.

    t1: A (LC + PA, span a, high), B (LC, span b, low). t2: clean. t3: C (LC, no span, medium). t4: outside GPA.
    """
    rows = [
        build.row(
            "t1",
            build.label("a", LC, PA, text="wrong year asked"),
            build.label("b", LC, text="value misread badly", impact=Impact.LOW),
        ),
        build.row("t2"),
        build.row("t3", build.label(None, LC, text="goal forgotten entirely", impact=Impact.MEDIUM)),
        build.row("t4", build.label("a", text="server was down")),
    ]
    year, misread = build.finding("a", text="wrong year asked"), build.finding("c", text="value misread badly")
    noise = build.finding("c", text="unheard of")
    judgments = [
        # Repeat 0: A found and located by LC; B found at c; PA says nothing. Repeat 1: A found by PA only.
        build.judgment("t1", year, misread, repeat=0),
        build.judgment("t1", dimension=PA, repeat=0),
        build.judgment("t1", repeat=1),
        build.judgment("t1", year, noise, dimension=PA, repeat=1),
        # A false alarm in repeat 0, none in repeat 1.
        build.judgment("t2", repeat=0),
        build.judgment("t2", noise, dimension=PA, repeat=0),
        build.judgment("t2", repeat=1),
        build.judgment("t2", dimension=PA, repeat=1),
        # C found in repeat 0; the LC reading of repeat 1 cannot be used.
        build.judgment("t3", build.finding("b", text="goal forgotten entirely"), repeat=0),
        build.judgment("t3", dimension=PA, repeat=0),
        build.judgment("t3", repeat=1, outcome=Outcome.TRUNCATED),
        build.judgment("t3", dimension=PA, repeat=1),
        *[build.judgment("t4", noise, dimension=name, repeat=repeat) for name in (LC, PA) for repeat in range(2)],
    ]
    return rows, judgments


SUITE = {
    # Labels: A, B in two repeats each, C in one: 5. Identified: A, A, B, C.
    "coverage": 4 / 5,
    # A, B in two repeats: 4. Located: A twice. B's finding cites c, not near b.
    "localization": 2 / 4,
    "localization_lenient": 2 / 4,
    # Findings: 2 + 2 on t1, 1 on t2, 1 on t3 = 6; those on t4 may be its error. Matched: year, misread, year, goal.
    "precision": 4 / 6,
    # t2 alone is clean (t4 has an error outside GPA): flagged in one of two repeats.
    "false_alarms": 1 / 2,
    # Located findings 2 of 5 (C has no span to cite), localization 2 of 4.
    "f1": 2 * 0.4 * 0.5 / 0.9,
    "coverage_high": 1.0,
    "coverage_medium": 1.0,
    "coverage_low": 1 / 2,
    "scored_share": 15 / 16,
}
LOGIC = {
    # A found in one of two repeats, B in one of two, C in its only one.
    "coverage": 3 / 5,
    "localization": 1 / 4,
    # Findings: 2 on t1, 1 on t3.
    "precision": 1.0,
    "false_alarms": 0.0,
    "f1": 2 * (1 / 2) * (1 / 4) / (1 / 2 + 1 / 4),
    "coverage_high": 1 / 2,
    "scored_share": 7 / 8,
}
ADHERENCE = {
    # A found in repeat 1 only; t3 is clean of this dimension.
    "coverage": 1 / 2,
    "localization": 1 / 2,
    "precision": 1 / 3,
    "false_alarms": 1 / 4,
    "coverage_low": None,
    "scored_share": 1.0,
}


@pytest.mark.parametrize(("dimension", "expected"), [(None, SUITE), (LC, LOGIC), (PA, ADHERENCE)])
def test_by_hand(build: Build, dimension: str | None, expected: dict[str, float | None]) -> None:
    table = build.table(*example(build), "text", 0.5)
    chosen = table if dimension is None else table.of(dimension)
    assert {name: value(chosen, name) for name in expected} == pytest.approx(expected)


def test_counts_beside_the_values(build: Build) -> None:
    n = {name: statistic.n for name, statistic in detection(build.table(*example(build), "text", 0.5)).items()}
    assert n == {
        "coverage": 3,
        "localization": 2,
        "localization_lenient": 2,
        "precision": 6,
        "false_alarms": 1,
        "f1": 2,
        "coverage_high": 1,
        "coverage_medium": 1,
        "coverage_low": 1,
        "scored_share": 16,
    }


def test_under_the_span_matcher_coverage_is_localization(build: Build) -> None:
    table = build.table(*example(build), "span")
    assert value(table, "coverage") == value(table, "localization") == value(table, "localization_lenient") == 2 / 4
    assert value(table, "precision") == 2 / 6


def test_one_finding_cannot_cover_two_labels(build: Build) -> None:
    rows = [build.row("t", build.label("a", LC), build.label("a", LC))]
    assert value(build.table(rows, [build.judgment("t", build.finding("a"))]), "coverage") == 1 / 2


def test_a_clean_reading_with_a_missing_judgment_is_left_out(build: Build) -> None:
    rows = [build.row("t1"), build.row("t2")]
    judgments = [
        build.judgment("t1", build.finding("a")),
        build.judgment("t1", dimension=PA, outcome=Outcome.TIMEOUT),
        build.judgment("t2"),
        build.judgment("t2", dimension=PA),
    ]
    table = build.table(rows, judgments)
    assert value(table, "false_alarms") == 0.0
    assert value(table.of(LC), "false_alarms") == 1 / 2


NO_LABELS = {
    "coverage": "no labels",
    "localization": "no labels",
    "f1": "no labels",
    "coverage_medium": "no labels of medium impact",
    "precision": "no findings",
}
NO_SPANS = {
    "coverage": "no labels with a span",
    "localization": "no labels with a span",
    "coverage_high": "no labels of high impact",
    "false_alarms": "no clean traces",
}
NOT_JUDGED = dict.fromkeys(
    ("coverage", "localization", "coverage_high"), "no usable judgment of a trace with such labels"
)
ONLY_CLEAN_FAILED = {"false_alarms": "no usable judgment of a clean trace", "coverage": "no labels"}


@pytest.mark.parametrize(
    ("labels", "outcome", "undefined"),
    [
        ((), Outcome.SCORED, NO_LABELS),
        ((None,), Outcome.SCORED, NO_SPANS),
        (("a",), Outcome.REFUSED, NOT_JUDGED),
        ((), Outcome.TOO_LONG, ONLY_CLEAN_FAILED),
    ],
)
def test_undefined_has_a_reason(
    build: Build, labels: tuple[str | None, ...], outcome: Outcome, undefined: dict[str, str]
) -> None:
    rows = [build.row("t", *[build.label(span, LC) for span in labels])]
    table = build.table(rows, [build.judgment("t", outcome=outcome)])
    for name, reason in undefined.items():
        assert value(table, name) is None
        assert detection(table)[name].reason == reason


def test_silence_on_labels_is_an_f1_of_zero(build: Build) -> None:
    table = build.table([build.row("t", build.label("a", LC))], [build.judgment("t")])
    assert value(table, "f1") == value(table, "coverage") == 0.0


def test_findings_where_nobody_looked_are_neither_right_nor_wrong(build: Build) -> None:
    known = build.row("t1", build.label("a", LC))
    unknown = replace(build.row("t2"), clean="unknown")
    judgments = [build.judgment("t1", build.finding("a")), build.judgment("t2", build.finding("b"))]
    table = build.table([known, unknown], judgments)
    assert value(table, "precision") == value(table, "f1") == 1.0
    assert table.human_scores.tolist() == [[0, 0, 0]]
    assert trace_scores(table, LC) == {"t1": 1.0, "t2": None}
    assert [cell.spurious for cell in table.cells.values()] == [[], []]


def test_a_label_without_a_span_costs_no_localized_precision(build: Build) -> None:
    rows = [build.row("t", build.label("a", LC, text="wrong year asked"), build.label(None, LC, text="goal forgotten"))]
    found = build.finding("a", text="wrong year asked"), build.finding("b", text="goal forgotten")
    table = build.table(rows, [build.judgment("t", *found)], "text", 0.5)
    assert value(table, "coverage") == value(table, "precision") == value(table, "f1") == 1.0
