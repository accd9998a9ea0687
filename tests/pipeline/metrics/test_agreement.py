"""Agreement with people, and of judges with themselves, by hand and against scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from judges.judgment import Judgment, Outcome
from labeled_traces.label import Impact, ScoreLabel
from pipeline.metrics.agreement import over_repeats, with_people
from pipeline.metrics.bootstrap import Statistic
from pipeline.metrics.table import MatchTable

if TYPE_CHECKING:
    from tests.pipeline.metrics.conftest import Build

LC, PA = "logical_consistency", "plan_adherence"


def value(statistic: Statistic) -> float | None:
    number = float(statistic.value(statistic.columns.sum(axis=0)[None])[0])
    return None if np.isnan(number) else number


def scored(build: Build, people: list[int], judge: list[int]) -> MatchTable:
    """One trace per pair of scores."""
    rows = [build.row(f"t{i}", scores=[ScoreLabel(LC, score)]) for i, score in enumerate(people)]
    return build.table(rows, [build.judgment(f"t{i}", score=score) for i, score in enumerate(judge)])


def repeated(build: Build, repeats: list[str]) -> MatchTable:
    """A string per repeat: for each trace 1 an error, 0 none, - no usable judgment."""
    judgments: list[Judgment] = []
    for repeat, line in enumerate(repeats):
        for i, mark in enumerate(line):
            found = [build.finding("a")] if mark == "1" else []
            outcome = Outcome.TIMEOUT if mark == "-" else Outcome.SCORED
            judgments.append(build.judgment(f"t{i}", *found, repeat=repeat, outcome=outcome))
    return build.table([build.row(f"t{i}") for i in range(len(repeats[0]))], judgments)


def test_shares_on_three_scales(build: Build) -> None:
    # Pairs: equal 3; 3-2; 0-1 (one point on the 3-point scale); 2-0; equal 1.
    found = with_people(scored(build, [3, 3, 0, 2, 1], [3, 2, 1, 0, 1]))
    expected = {"agreement": 2 / 5, "agreement_3": 3 / 5, "agreement_2": 4 / 5, "off_by_one": 4 / 5}
    assert {name: value(found[name]) for name in expected} == pytest.approx(expected)
    assert found["agreement"].n == 5


def test_scores_follow_from_labels_where_people_gave_none(build: Build) -> None:
    rows = [build.row("t1", build.label("a", LC, impact=Impact.MEDIUM)), build.row("t2")]
    table = build.table(rows, [build.judgment("t1", score=1), build.judgment("t2", score=2)])
    assert value(with_people(table)["agreement"]) == 0.5


def test_every_rater_and_every_repeat_is_a_pair(build: Build) -> None:
    rows = [build.row("t", scores=[ScoreLabel(LC, 3, "ann"), ScoreLabel(LC, 2, "bob")])]
    judgments = [build.judgment("t", score=score, repeat=repeat) for repeat, score in enumerate((3, 3, 0))]
    found = with_people(build.table(rows, judgments))["agreement"]
    assert value(found) == pytest.approx(2 / 6)
    assert found.n == 2


def test_missing_and_not_applicable_scores_are_left_out(build: Build) -> None:
    rows = [build.row(name) for name in ("t1", "t2", "t3")]
    judgments = [
        build.judgment("t1", score=3),
        build.judgment("t2", outcome=Outcome.NOT_APPLICABLE),
        build.judgment("t3", outcome=Outcome.UNPARSEABLE),
    ]
    found = with_people(build.table(rows, judgments))["agreement"]
    assert (value(found), found.n) == (1.0, 1)


def test_kappa_equals_scikit_learn(build: Build) -> None:
    generator = np.random.default_rng(3)
    people = generator.integers(0, 4, size=50)
    judge = np.clip(people + generator.integers(-1, 2, size=50), 0, 3)
    found = value(with_people(scored(build, people.tolist(), judge.tolist()))["kappa"])
    assert found == pytest.approx(cohen_kappa_score(people, judge, weights="quadratic"))


def test_nine_in_ten_by_the_majority_class_is_a_kappa_of_zero(build: Build) -> None:
    found = with_people(scored(build, [3] * 9 + [0], [3] * 10))
    assert value(found["agreement"]) == 0.9
    assert value(found["kappa"]) == pytest.approx(0.0)
    assert value(found["alpha_people"]) == pytest.approx(1 - 19 * 2 / (2 * 19 * 1))


def test_all_alike_is_undefined_not_one(build: Build) -> None:
    found = with_people(scored(build, [3, 3, 3], [3, 3, 3]))
    assert value(found["agreement"]) == 1.0
    for name in ("kappa", "alpha_people"):
        assert value(found[name]) is None
    assert found["kappa"].reason == "kappa undefined: no variation"
    assert found["alpha_people"].reason == "alpha undefined: no variation"


def test_nothing_to_compare(build: Build) -> None:
    found = with_people(build.table([build.row("t")], [build.judgment("t", outcome=Outcome.REFUSED)]))
    assert {statistic.reason for statistic in found.values()} == {"no scores to compare"}
    assert all(value(statistic) is None for statistic in found.values())


def test_alpha_of_three_repeats(build: Build) -> None:
    found = over_repeats(repeated(build, ["1010", "1110", "0010"]))
    assert value(found["alpha"]) == pytest.approx(0.389, abs=5e-4)
    # Pairs of repeats that agree: 1 of 3, 1 of 3, 3 of 3, 3 of 3.
    assert value(found["raw_agreement"]) == pytest.approx(8 / 12)
    assert value(found["reported_share"]) == pytest.approx(6 / 12)
    assert found["alpha"].n == 4


@pytest.mark.parametrize(
    ("repeats", "reason", "raw"),
    [
        (["111", "111"], "alpha undefined: no variation", 1.0),
        (["000", "000"], "alpha undefined: no variation", 1.0),
        (["101"], "alpha undefined: fewer than 2 repeats", None),
        (["1-", "-0"], "alpha undefined: fewer than 2 repeats", None),
    ],
)
def test_alpha_undefined(build: Build, repeats: list[str], reason: str, raw: float | None) -> None:
    found = over_repeats(repeated(build, repeats))
    assert value(found["alpha"]) is None
    assert found["alpha"].reason == reason
    assert value(found["raw_agreement"]) == raw


def test_perfect_repeats_with_variation_are_one(build: Build) -> None:
    found = over_repeats(repeated(build, ["1011", "1011"]))
    assert value(found["alpha"]) == 1.0
    assert value(found["alpha_scores"]) == 1.0


def test_missing_repeats_leave_their_unit_smaller(build: Build) -> None:
    full, holes = over_repeats(repeated(build, ["110", "100"])), over_repeats(repeated(build, ["1101-", "10010"]))
    # The two last units: one agrees (1, 1), one has a single repeat.
    assert holes["alpha"].n == 4
    assert value(full["raw_agreement"]) == pytest.approx(2 / 3)
    assert value(holes["raw_agreement"]) == pytest.approx(3 / 4)


def test_units_are_traces_and_dimensions(build: Build) -> None:
    judgments = [
        build.judgment("t", *([build.finding("a")] if dimension == LC else []), dimension=dimension, repeat=repeat)
        for dimension in (LC, PA)
        for repeat in range(2)
    ]
    found = over_repeats(build.table([build.row("t")], judgments))
    assert found["alpha"].n == 2
    assert value(found["alpha"]) == 1.0


def test_standard_deviation_over_repeats(build: Build) -> None:
    scores = {"t1": [3, 3, 3], "t2": [0, 3, 3], "t3": [1, 2]}
    judgments = [build.judgment(name, score=s, repeat=r) for name, line in scores.items() for r, s in enumerate(line)]
    found = over_repeats(build.table([build.row(name) for name in scores], judgments))["std"]
    # Sample deviations: 0, sqrt(6 / 2), sqrt(0.5).
    assert value(found) == pytest.approx((0 + 3**0.5 + 0.5**0.5) / 3)
    assert found.n == 3
