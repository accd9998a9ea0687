from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config import PipelineError
from pipeline.optimizers.objective import Margins, Objective, consistency_objective
from pipeline.optimizers.scoring import Scorer, TooFewUsable
from pipeline.optimizers.selection import Selection, SelectionRule, gain_estimate, gain_p_value

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import FakeLM, World

LESSON = "Look for values that are marked as BAD."


@pytest.mark.parametrize(
    ("gains", "p"),
    [
        ([], 1.0),
        ([0.0, 0.0], 1.0),
        ([1.0], 1 / 2),
        ([1.0, 1.0, 1.0], 1 / 8),
        ([1.0, 1.0, 1.0, 0.0, 0.0], 1 / 8),
        ([1.0, -1.0], 3 / 4),
        # Patterns of (3, 2, -1) with a sum of at least 4: 3+2+1, 3+2-1.
        ([3.0, 2.0, -1.0], 2 / 8),
    ],
)
def test_sign_flips_of_small_samples_are_counted_exactly(gains: list[float], p: float) -> None:
    assert gain_p_value(gains) == pytest.approx(p)


@given(st.lists(st.floats(-1, 1).map(lambda x: round(x, 2)), max_size=20))
def test_p_is_a_probability_and_grows_when_signs_turn(gains: list[float]) -> None:
    p = gain_p_value(gains)
    assert 0 < p <= 1
    if sum(gains) > 0:
        assert p <= gain_p_value([-gain for gain in gains]) + 0.05


def test_gains_without_effect_pass_no_more_often_than_the_level_says() -> None:
    draw = np.random.default_rng(0)
    passed = [
        gain_p_value(list((draw.binomial(2, 0.6, 12) - draw.binomial(2, 0.6, 12)) / 2)) <= 0.2 for _ in range(600)
    ]
    assert np.mean(passed) < 0.22


def test_the_bound_of_the_gain_draws_whole_groups(world: World) -> None:
    rows = list(world.development.valset)
    gains = {row.trace_id: 0.5 if i % 3 else -0.2 for i, row in enumerate(rows)}
    estimate = gain_estimate(gains, rows, 0.95, seed=0)
    assert estimate.value == pytest.approx(np.mean(list(gains.values())))
    assert estimate.low is not None
    assert 0 < estimate.low < np.mean(list(gains.values()))
    assert estimate.n == len(rows)
    one_group = [replace(row, group="same") for row in rows]
    assert gain_estimate(gains, one_group, 0.95, seed=0).low is None
    assert gain_estimate({}, rows, 0.95, seed=0).value is None


def test_a_real_gain_is_taken(world: World, fake_lm: type[FakeLM]) -> None:
    rows = list(world.development.valset)
    good = world.program.with_parts({"rubric": world.program.rubric + LESSON}, "test")
    neutral = world.program.with_parts({"rubric": world.program.rubric + "\nBe fair."}, "test")
    scorer = Scorer(world.context(fake_lm()), world.program.dimension)
    selection = SelectionRule(finalists=2, repeats=2).select(world.program, [neutral, good], rows, scorer)
    assert selection.improved
    assert selection.program == good
    assert selection.gain is not None
    assert selection.gain.low is not None
    assert selection.gain.low > 0
    assert scorer.calls == 3 * 2 * len(rows) == SelectionRule(finalists=2, repeats=2).calls(len(rows))


def test_no_gain_returns_the_input(world: World, fake_lm: type[FakeLM]) -> None:
    rows = list(world.development.valset)
    rule = SelectionRule()
    neutral = world.program.with_parts({"rubric": world.program.rubric + "\nBe fair."}, "test")
    scorer = Scorer(world.context(fake_lm(finds=lambda _: 0.5)), world.program.dimension)
    selection = rule.select(world.program, [neutral], rows, scorer)
    assert not selection.improved
    assert selection.program is world.program
    assert "no gain found" in selection.reason
    nothing = rule.select(world.program, [], rows, scorer)
    assert nothing.program is world.program
    assert nothing.gain is None


def test_without_usable_judgments_nothing_is_chosen(world: World, fake_lm: type[FakeLM]) -> None:
    scorer = Scorer(world.context(fake_lm(replies=lambda *_: "no JSON")), world.program.dimension)
    child = world.program.with_parts({"rubric": world.program.rubric + LESSON}, "test")
    with pytest.raises(TooFewUsable, match="0%"):
        SelectionRule().select(world.program, [child], list(world.development.valset), scorer)


def test_a_candidate_cannot_win_by_failing_on_hard_traces(world: World, fake_lm: type[FakeLM]) -> None:
    """The child's replies to traces with an error cannot be used; on the others it raises no alarm."""
    marked = "\nSay nothing of hard traces."
    child = world.program.with_parts({"rubric": world.program.rubric + marked}, "test")
    lm = fake_lm(
        alarms=lambda tail: 0.0 if marked in tail else 0.9,
        replies=lambda tail, reply: "?" if marked in tail and '"findings": [{' in reply else reply,
        finds=lambda _: 1.0,
    )
    scorer = Scorer(world.context(lm), world.program.dimension)
    selection = SelectionRule().select(world.program, [child], list(world.development.valset), scorer)
    assert selection.program is world.program


def test_a_gain_that_breaks_a_guard_is_none(world: World, fake_lm: type[FakeLM]) -> None:
    """The child reports nothing: perfectly consistent, no false alarm, and no coverage."""
    marked = "\nReport nothing."
    silent = world.program.with_parts({"rubric": world.program.rubric + marked}, "test")
    lm = fake_lm(finds=lambda tail: 0.0 if marked in tail else 0.6, alarms=lambda tail: 0.0 if marked in tail else 0.2)
    rows = list(world.development.valset)
    guarded = consistency_objective(Margins())

    def select(objective: Objective) -> Selection:
        scorer = Scorer(world.context(lm), world.program.dimension)
        return SelectionRule(finalists=1).select(world.program, [silent], rows, scorer, objective)

    free = select(Objective("consistency", guarded.value))
    assert free.improved
    kept = select(guarded)
    assert kept.program is world.program
    assert kept.gain == free.gain
    assert "coverage" in kept.reason
    assert "it may have got worse" in kept.reason
    assert "false_alarms" not in kept.reason


def test_a_guard_that_cannot_be_measured_does_not_hold(world: World, fake_lm: type[FakeLM]) -> None:
    good = world.program.with_parts({"rubric": world.program.rubric + LESSON}, "test")
    rows = [row for row in world.development.valset if row.errors]
    scorer = Scorer(world.context(fake_lm()), world.program.dimension)
    selection = SelectionRule().select(world.program, [good], rows, scorer, consistency_objective(Margins()))
    assert not selection.improved
    assert "false_alarms unknown" in selection.reason


def test_what_holds_is_told_with_a_gain(world: World, fake_lm: type[FakeLM]) -> None:
    good = world.program.with_parts({"rubric": world.program.rubric + LESSON}, "test")
    rows = [*world.development.valset, *world.development.trainset]
    scorer = Scorer(world.context(fake_lm(alarms=lambda _: 0.02)), world.program.dimension)
    selection = SelectionRule().select(world.program, [good], rows, scorer, consistency_objective(Margins()))
    assert selection.program == good
    assert all(f"; {name} " in selection.reason for name in ("coverage", "localization", "false_alarms", "locked_in"))
    assert re.search(r"; coverage \+0\.\d+ .* lower bound \+0\.\d+\), margin 0.05; localization", selection.reason)
    assert re.search(r"; locked_in -0\.\d+ .* upper bound -0\.\d+\), margin 0.05$", selection.reason)


def test_more_repeats_are_spent_on_what_is_ahead_so_far(world: World, fake_lm: type[FakeLM]) -> None:
    rows = list(world.development.valset)
    good = world.program.with_parts({"rubric": world.program.rubric + LESSON}, "test")
    bad = world.program.with_parts({"rubric": world.program.rubric + "\nReport nothing."}, "test")
    lm = fake_lm(finds=lambda tail: 0.95 if LESSON in tail else 0.0 if "Report nothing" in tail else 0.5)
    rule = SelectionRule(finalists=2, repeats=2, more_repeats=3)
    scorer = Scorer(world.context(lm), world.program.dimension)
    assert rule.select(world.program, [bad], rows, scorer).program is world.program
    assert scorer.calls == 2 * 2 * len(rows)
    scorer = Scorer(world.context(lm), world.program.dimension)
    selection = rule.select(world.program, [bad, good], rows, scorer)
    assert selection.program == good
    assert scorer.calls == (3 * 2 + 2 * 3) * len(rows) <= rule.calls(len(rows)) == 3 * 5 * len(rows)


@pytest.mark.parametrize(
    "wrong", [{"finalists": 0}, {"repeats": 0}, {"level": 1.0}, {"level": 0.5}, {"more_repeats": -1}]
)
def test_bad_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(PipelineError, match="accepted"):
        SelectionRule(**wrong)  # type: ignore[arg-type]
