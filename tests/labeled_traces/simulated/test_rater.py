"""The rater misses the stated share of errors; in the null world labels say nothing of the traces."""

from __future__ import annotations

from collections import Counter
from math import sqrt

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import DIMENSIONS, Impact, score_from_impacts
from labeled_traces.simulated import FaultRates, find_problems, rate, shuffle_labels, simulate
from labeled_traces.simulated.rater import NOTICED


@pytest.fixture(scope="module")
def rows() -> list[LabeledTrace]:
    return simulate(3000, 1, FaultRates().scaled(2))


@pytest.mark.parametrize("impact", list(Impact))
def test_the_rater_notices_the_stated_share_of_each_impact(rows: list[LabeledTrace], impact: Impact) -> None:
    """97 % of high, 80 % of low impact, within 4 standard errors of the binomial."""
    total = sum(error.impact == impact for row in rows for error in row.errors)
    seen = sum(error.impact == impact for row in rate(rows, 4) for error in row.errors)
    expected = {Impact.LOW: 0.80, Impact.MEDIUM: 0.885, Impact.HIGH: 0.97}[impact]
    assert total > 800
    assert abs(seen / total - expected) < 4 * sqrt(expected * (1 - expected) / total)


def test_the_rater_adds_nothing_and_signs_what_is_left(rows: list[LabeledTrace]) -> None:
    for row, rated in zip(rows[:300], rate(rows[:300], 4), strict=True):
        true = Counter((e.category, e.span_id, e.description) for e in row.errors)
        seen = Counter((e.category, e.span_id, e.description) for e in rated.errors)
        assert seen <= true
        assert {error.rater for error in rated.errors} <= {"rater"}
        assert (rated.trace, rated.group, rated.reference) == (row.trace, row.group, row.reference)


def test_scores_follow_from_what_was_noticed(rows: list[LabeledTrace]) -> None:
    for rated in rate(rows[:300], 4):
        assert [score.dimension for score in rated.scores] == list(DIMENSIONS)
        for score in rated.scores:
            assert score.rater == "rater"
            assert score.score == score_from_impacts(error.impact for error in rated.errors_of(score.dimension))


def test_a_row_is_rated_by_seed_and_id_alone(rows: list[LabeledTrace]) -> None:
    assert rate(rows[50:60], 4) == rate(rows[:100], 4)[50:60]
    assert rate(rows[:100], 4) != rate(rows[:100], 5)


def test_a_rater_who_notices_everything_keeps_everything(rows: list[LabeledTrace]) -> None:
    rated = rate(rows[:200], 0, noticed=dict.fromkeys(NOTICED, 1.0), rater="anna")
    assert [len(row.errors) for row in rated] == [len(row.errors) for row in rows[:200]]


def test_the_null_world_keeps_traces_and_frequencies(rows: list[LabeledTrace]) -> None:
    rated = rate(rows, 4)
    null = shuffle_labels(rated, 7)
    assert null == shuffle_labels(rated, 7)
    assert null != shuffle_labels(rated, 8)
    assert [row.trace for row in null] == [row.trace for row in rated]
    said = [Counter((e.category, e.description) for row in world for e in row.errors) for world in (rated, null)]
    assert said[0] == said[1]
    assert Counter(row.scores for row in null) == Counter(row.scores for row in rated)


def test_in_the_null_world_spans_are_hit_by_chance(rows: list[LabeledTrace]) -> None:
    """How often a label's span is the root cause of a problem of its kind, against what uniform spans would give."""
    hits = expected = variance = labels = 0.0
    for row in shuffle_labels(rows, 7):
        causes = {(problem.kind, problem.span_id) for problem in find_problems(row.trace)}
        for error in row.errors:
            chance = sum(kind == error.category for kind, _ in causes) / len(row.trace.spans)
            hits += (error.category, error.span_id) in causes
            expected, variance, labels = expected + chance, variance + chance * (1 - chance), labels + 1
    assert labels > 3000
    assert abs(hits - expected) < 4 * sqrt(variance)
    assert hits / labels < 0.05


def test_in_the_null_world_a_label_does_not_tell_that_its_trace_has_the_error(rows: list[LabeledTrace]) -> None:
    kinds = [{problem.kind for problem in find_problems(row.trace)} for row in rows]
    null = shuffle_labels(rows, 7)
    for kind in {error.category for row in rows for error in row.errors}:
        having = sum(kind in found for found in kinds) / len(rows)
        labeled = [
            kind in found
            for found, row in zip(kinds, null, strict=True)
            if any(error.category == kind for error in row.errors)
        ]
        assert abs(sum(labeled) / len(labeled) - having) < 4 * sqrt(having * (1 - having) / len(labeled))
