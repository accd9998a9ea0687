"""Free-response curves drawn by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from judges.judgment import Finding, Judgment, Outcome
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import Impact
from pipeline.metrics.froc import curve, free_response, rank
from pipeline.metrics.table import MatchTable

if TYPE_CHECKING:
    from tests.pipeline.metrics.conftest import Build

LC, PA = "logical_consistency", "plan_adherence"
HIGH, MEDIUM, LOW = Impact.HIGH, Impact.MEDIUM, Impact.LOW


def values(table: MatchTable) -> dict[str, float]:
    return {
        name: float(statistic.value(statistic.columns.sum(axis=0)[None])[0])
        for name, statistic in free_response(table).items()
    }


def rows(build: Build) -> list[LabeledTrace]:
    """Two labels on two traces, two clean traces."""
    return [
        build.row("t1", build.label("a", LC)),
        build.row("t2", build.label("b", LC)),
        build.row("t3"),
        build.row("t4"),
    ]


def judgments(build: Build, found: dict[str, list[Finding]], repeat: int = 0) -> list[Judgment]:
    return [build.judgment(name, *found.get(name, []), repeat=repeat) for name in ("t1", "t2", "t3", "t4")]


def test_severity_ranks_before_confidence() -> None:
    ranked = [Finding(LC, (), "", "", severity, confidence) for severity, confidence in
              ((HIGH, 10), (HIGH, 0), (MEDIUM, 100), (LOW, 99))]  # fmt: skip
    assert sorted(ranked, key=rank, reverse=True) == ranked


def test_curve_by_hand(build: Build) -> None:
    found = {
        "t1": [build.finding("a", severity=HIGH, confidence=90), build.finding("c", severity=HIGH, confidence=99)],
        "t2": [build.finding("b", severity=MEDIUM, confidence=50)],
        "t3": [build.finding("c", severity=HIGH, confidence=50)],
        "t4": [build.finding("c", severity=LOW, confidence=80), build.finding("a", severity=LOW, confidence=20)],
    }
    table = build.table(rows(build), judgments(build, found))
    # High 90, high 50, medium 50, low 80, low 20: label, alarm, label, alarm, alarm; two labels, two clean traces.
    # A finding that misses on a faulty trace (high 99 on t1) moves neither axis.
    assert curve(table) == [(0, 0), (0, 0.5), (0.5, 0.5), (0.5, 1), (1, 1), (1.5, 1)]
    expected = {
        "froc_area": 0.5 * 0.5 + 0.5 * 1,
        "localization_at_0.1": 0.5,
        "localization_at_0.25": 0.5,
        "localization_at_0.5": 1.0,
        "localization_at_1": 1.0,
    }
    assert values(table) == pytest.approx(expected)
    assert free_response(table)["froc_area"].n == 2


def test_one_threshold_beyond_the_range_is_interpolated(build: Build) -> None:
    """Everything flagged at one level: four alarms per clean trace for all labels; a quarter of it at one alarm."""
    everything = [build.finding(span) for span in ("root", "a", "b", "c")]
    table = build.table(rows(build), judgments(build, dict.fromkeys(("t1", "t2", "t3", "t4"), everything)))
    assert curve(table) == [(0, 0), (4, 1)]
    assert values(table)["froc_area"] == pytest.approx(0.25 / 2)
    assert values(table)["localization_at_0.5"] == pytest.approx(0.5 / 4)


def test_a_curve_that_ends_early_goes_on_flat(build: Build) -> None:
    found = {"t1": [build.finding("a")], "t3": [build.finding("c", severity=LOW)]}
    # (0, 0), (0, .5), (.5, .5), then flat.
    assert values(build.table(rows(build), judgments(build, found)))["froc_area"] == pytest.approx(0.5)


def test_silence_has_no_area(build: Build) -> None:
    table = build.table(rows(build), judgments(build, {}))
    assert curve(table) == [(0, 0)]
    assert set(values(table).values()) == {0.0}


def test_repeats_are_averaged_and_judges_united(build: Build) -> None:
    """Repeat 0: the label is found by the second judge alone, and more surely. Repeat 1: by neither."""
    data = [build.row("t1", build.label("a", LC, PA)), build.row("t2")]
    work = [
        build.judgment("t1", build.finding("a", severity=LOW)),
        build.judgment("t1", build.finding("a", severity=HIGH), dimension=PA),
        build.judgment("t1", repeat=1),
        build.judgment("t1", dimension=PA, repeat=1),
        build.judgment("t2"),
        build.judgment("t2", dimension=PA),
        build.judgment("t2", build.finding("b", severity=MEDIUM), repeat=1),
        build.judgment("t2", dimension=PA, repeat=1),
    ]
    assert curve(build.table(data, work)) == [(0, 0), (0, 0.5), (0.5, 0.5)]


def test_a_match_elsewhere_is_no_localization(build: Build) -> None:
    data = [build.row("t1", build.label("a", LC, text="wrong year asked")), build.row("t2")]
    work = [build.judgment("t1", build.finding("c", text="wrong year asked")), build.judgment("t2")]
    assert values(build.table(data, work, "text", 0.5))["froc_area"] == 0.0


def test_undefined_has_a_reason(build: Build) -> None:
    faulty, clean = build.row("t1", build.label("a", LC)), build.row("t3")
    for data, outcome, reason in (
        ([faulty], Outcome.SCORED, "no clean traces"),
        ([clean], Outcome.SCORED, "no labels"),
        ([clean], Outcome.REFUSED, "no usable judgment of a clean trace"),
    ):
        table = build.table(data, [build.judgment(row.trace_id, outcome=outcome) for row in data])
        assert curve(table) == []
        statistic = free_response(table)["froc_area"]
        assert statistic.reason == reason
        assert statistic.value(statistic.columns.sum(axis=0)[None]) == pytest.approx([float("nan")], nan_ok=True)


def test_area_grows_when_an_alarm_goes(build: Build) -> None:
    loud = {"t1": [build.finding("a", severity=LOW)], "t3": [build.finding("c", severity=HIGH)]}
    quiet = {"t1": [build.finding("a", severity=LOW)]}
    areas = [values(build.table(rows(build), judgments(build, found)))["froc_area"] for found in (loud, quiet)]
    assert areas == pytest.approx([0.25, 0.5])
