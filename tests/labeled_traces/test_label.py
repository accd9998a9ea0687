from __future__ import annotations

import pytest

from labeled_traces.label import DIMENSIONS, ErrorLabel, Impact, ScoreLabel, check_dimension, score_from_impacts
from labeled_traces.trace import JSON, TraceError


def test_seven_dimensions_with_their_codes() -> None:
    assert list(DIMENSIONS.values()) == ["GF", "LC", "EE", "PQ", "PA", "TS", "TC"]
    assert check_dimension("plan_quality") == "plan_quality"
    with pytest.raises(TraceError, match="dimension 'PQ' is unknown: accepted are goal_fulfillment, "):
        check_dimension("PQ")


@pytest.mark.parametrize(("text", "impact"), [("low", Impact.LOW), (" Medium\n", Impact.MEDIUM), ("HIGH", Impact.HIGH)])
def test_impacts(text: str, impact: Impact) -> None:
    assert Impact.parse(text) is impact
    assert Impact.parse(str(impact)) is impact


@pytest.mark.parametrize("value", ["", "severe", "3", None, 3])
def test_unknown_impacts(value: JSON) -> None:
    with pytest.raises(TraceError, match="accepted are low, medium and high"):
        Impact.parse(value)


@pytest.mark.parametrize(
    ("impacts", "score"),
    [((), 3), ((Impact.LOW, Impact.LOW), 2), ((Impact.LOW, Impact.MEDIUM), 1), ((Impact.HIGH, Impact.LOW), 0)],
)
def test_the_anchored_scale(impacts: tuple[Impact, ...], score: int) -> None:
    assert score_from_impacts(impacts) == score


def test_labels_refuse_unknown_dimensions_and_scores() -> None:
    with pytest.raises(TraceError, match="dimension 'style' is unknown"):
        ErrorLabel("a", ("plan_quality", "style"), "x", Impact.LOW)
    assert ErrorLabel(None, (), "Rate Limiting", Impact.LOW).dimensions == ()
    with pytest.raises(TraceError, match="score 4 is unknown: accepted are 0, 1, 2 and 3"):
        ScoreLabel("plan_quality", 4)
    with pytest.raises(TraceError, match="dimension"):
        ScoreLabel("style", 3)


def test_a_dimension_that_is_named_twice_is_kept_once() -> None:
    label = ErrorLabel(None, ("plan_quality", "tool_calling", "plan_quality"), "slip", Impact.LOW)
    assert label.dimensions == ("plan_quality", "tool_calling")
