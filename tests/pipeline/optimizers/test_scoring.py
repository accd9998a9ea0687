from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from labeled_traces.label import ErrorLabel, Impact
from pipeline.optimizers.scoring import Scorer, TooFewUsable, choose_rows

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import FakeLM, World


@pytest.mark.parametrize(("cap", "labelled", "clean"), [(24, 12, 12), (100, 12, 12), (10, 5, 5), (7, 4, 3), (2, 1, 1)])
def test_half_of_the_rows_have_labels(world: World, cap: int, labelled: int, clean: int) -> None:
    rows = choose_rows(list(world.development.trainset), "tool_calling", cap, seed=0)
    assert sum(bool(row.errors) for row in rows) == labelled
    assert sum(not row.errors for row in rows) == clean
    assert rows == choose_rows(list(world.development.trainset), "tool_calling", cap, seed=0)


def test_scarce_clean_rows_leave_their_room_to_labelled_ones(world: World) -> None:
    rows = list(world.development.trainset)
    few_clean = [row for row in rows if row.errors] + [row for row in rows if not row.errors][:2]
    chosen = choose_rows(few_clean, "tool_calling", 10, seed=0)
    assert sum(bool(row.errors) for row in chosen) == 8
    assert len(chosen) == 10


def test_another_seed_draws_other_rows(world: World) -> None:
    rows = list(world.development.trainset)
    assert choose_rows(rows, "tool_calling", 8, seed=0) != choose_rows(rows, "tool_calling", 8, seed=1)


def test_a_trace_with_an_error_outside_gpa_is_neither(world: World) -> None:
    outside = ErrorLabel(None, (), "user error", Impact.LOW)
    rows = [row if row.errors else replace(row, errors=(outside,)) for row in world.development.trainset]
    assert all(row.errors_of("tool_calling") for row in choose_rows(rows, "tool_calling", 24, seed=0))


def test_every_call_takes_fresh_repeats(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm()
    scorer = Scorer(world.context(lm), "tool_calling")
    rows = list(world.development.valset)[:4]
    first = scorer.score(world.program, rows, 2)
    second = scorer.score(world.program, rows, 3)
    assert (first.calls, second.calls, scorer.calls) == (8, 12, 20)
    assert sorted({request.repeat for request in lm.judged}) == [0, 1, 2, 3, 4]
    assert len({request.key for request in lm.judged}) == 20


def test_objectives_are_per_trace_and_only_where_defined(world: World, fake_lm: type[FakeLM]) -> None:
    scorer = Scorer(world.context(fake_lm(finds=lambda _: 1.0, alarms=lambda _: 1.0)), "tool_calling")
    bad, good = list(world.development.valset)[:2]
    scores = scorer.score(world.program, [bad, good], 2)
    assert scores.objectives[bad.trace_id] == {"coverage": 1.0, "localization": 1.0, "precision": 0.5}
    assert scores.objectives[good.trace_id] == {"precision": 0.0}
    assert scores.means == {
        "score": pytest.approx((2 / 3 + 0) / 2),
        "coverage": 1.0,
        "localization": 1.0,
        "precision": pytest.approx(0.25),
    }


def test_missing_judgments_are_filled_with_the_mean_and_never_zero(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(
        finds=lambda _: 1.0, alarms=lambda _: 0.0, replies=lambda _, reply: reply if "[]" in reply else "not JSON"
    )
    rows = list(world.development.valset)[:4]
    scores = Scorer(world.context(lm), "tool_calling").score(world.program, rows, 1)
    assert [scores.by_trace[row.trace_id] for row in rows] == [None, 1.0, None, 1.0]
    assert scores.filled == [1.0, 1.0, 1.0, 1.0]
    assert scores.usable == 0.5
    assert scores.require_usable() is scores


def test_no_usable_judgment_at_all(world: World, fake_lm: type[FakeLM]) -> None:
    rows = list(world.development.valset)[:4]
    lm = fake_lm(replies=lambda *_: "not JSON")
    scores = Scorer(world.context(lm), "tool_calling").score(world.program, rows, 1)
    assert scores.mean is None
    assert scores.means == {}
    with pytest.raises(TooFewUsable, match="0% of 4 tool_calling judgments"):
        scores.require_usable()
    good = Scorer(world.context(fake_lm()), "tool_calling").score(world.program, rows, 1)
    assert scores.gains_over(good) == {}
    assert good.gains_over(scores) == {}


def test_gains_pair_traces(world: World, fake_lm: type[FakeLM]) -> None:
    rows = list(world.development.valset)[:4]
    low = Scorer(world.context(fake_lm(finds=lambda _: 0.0, alarms=lambda _: 0.0)), "tool_calling")
    high = Scorer(world.context(fake_lm(finds=lambda _: 1.0, alarms=lambda _: 0.0)), "tool_calling")
    gains = high.score(world.program, rows, 1).gains_over(low.score(world.program, rows, 1))
    assert gains == {"val-0": 1.0, "val-1": 0.0, "val-2": 1.0, "val-3": 0.0}


@pytest.mark.parametrize(
    ("cap", "clean_each", "labelled", "clean"),
    [(24, 2.0, 4, 8), (9, 2.0, 4, 5), (24, math.inf, 4, 12), (6, math.inf, 3, 3), (24, 0.5, 4, 2)],
)
def test_clean_rows_for_each_labelled_one(world: World, cap: int, clean_each: float, labelled: int, clean: int) -> None:
    bad = [row for row in world.development.trainset if row.errors][:4]
    good = [row for row in world.development.trainset if not row.errors]
    rows = choose_rows([*bad, *good], "tool_calling", cap, 0, clean_each)
    assert (sum(bool(row.errors) for row in rows), sum(not row.errors for row in rows)) == (labelled, clean)


def test_more_readings_of_the_same_traces(world: World, fake_lm: type[FakeLM]) -> None:
    rows = list(world.development.valset)[:6]
    scorer = Scorer(world.context(fake_lm()), "tool_calling")
    first, second = scorer.score(world.program, rows, 2), scorer.score(world.program, rows, 1)
    both = first.with_readings(second)
    assert both.table.repeats == (0, 1, 2)
    assert (both.calls, both.usable) == (18, 1.0)
    for trace_id, score in both.by_trace.items():
        (two, one) = (first.by_trace[trace_id], second.by_trace[trace_id])
        assert two is not None
        assert one is not None
        assert score == pytest.approx((2 * two + one) / 3)
    assert both == Scorer(world.context(fake_lm()), "tool_calling").score(world.program, rows, 3)
