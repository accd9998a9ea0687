"""Wrong arguments and misread figures always differ from the right ones, and show which variant they are."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeled_traces.simulated.plan import Step
from labeled_traces.simulated.slips import misread_figure, wrong_arguments
from labeled_traces.simulated.tools import Toolbox
from labeled_traces.simulated.world import build_world
from labeled_traces.trace import JSON

TOOLBOX = Toolbox(build_world(0))
ROWS = [["2020", 400.1], ["2021", 420.2]]
STEPS = [
    Step("db_lookup", {"entity": "Velmar", "metric": "gdp", "year": 2021}, "v1"),
    Step("db_lookup", {"entity": "Calder Trust", "metric": "market_value", "year": 2024}, "v1"),
    Step("db_series", {"entity": "Velmar", "metric": "gdp", "start_year": 2021, "end_year": 2022}, "v1"),
    Step("db_top_k", {"year": 2021, "k": 5}, "v1"),
    Step("web_search", {"query": "GDP of Velmar in 2021"}, "v1"),
    Step("calculator", {"expression": "(v2 - v1) / v1 * 100"}, "r"),
    Step("make_chart", {"kind": "line", "title": "t", "points": "v3"}, "c"),
]
VALUES: dict[str, JSON] = {"v1": 80.5, "v2": 91.5, "v3": ROWS}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.tool)
def test_wrong_arguments_are_rejected_or_mean_something_else(step: Step) -> None:
    variants = set()
    for seed in range(60):
        variant, wrong = wrong_arguments(step, VALUES, random.Random(seed))
        variants.add(variant)
        assert wrong != step.resolve(VALUES)
        assert (TOOLBOX.call(step.tool, wrong).output is None) == (variant == "rejected")
    assert variants == {"rejected", "wrong_form" if step.tool == "make_chart" else "wrong_figure"}


def test_operands_that_are_equal_cannot_be_swapped_unseen() -> None:
    step = Step("calculator", {"expression": "v1 - v2"}, "r")
    variants = {wrong_arguments(step, {"v1": 7.5, "v2": 7.5}, random.Random(seed))[0] for seed in range(40)}
    assert variants == {"rejected"}


@given(st.integers(-99999, 99999), st.sampled_from([10, 100]), st.integers(0, 999))
def test_a_misread_figure_is_rounded_or_another_one(whole: int, digits: int, seed: int) -> None:
    figure = whole / digits
    variant, misread = misread_figure(figure, random.Random(seed))
    assert misread != figure
    assert (misread == round(figure)) == (variant == "rounded")


def test_neighbouring_digits_are_swapped() -> None:
    assert {misread_figure(48.1, random.Random(seed)) for seed in range(40)} == {("rounded", 48.0), ("misread", 84.1)}
    assert misread_figure(1.0, random.Random(0)) == ("misread", 0.1)
    assert misread_figure(0.0, random.Random(0)) == ("misread", 10.0)
