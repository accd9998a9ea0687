from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.judgment import Finding
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.trace import Span, SpanKind, Trace
from pipeline.metrics.agreement import over_repeats
from pipeline.metrics.cell import Cell
from pipeline.metrics.table import MatchTable
from pipeline.metrics.trace_consistency import MOST_STD, trace_consistency

D = "tool_calling"
ERROR = ErrorLabel("s", (D,), "wrong_argument", Impact.HIGH)
OUTSIDE = ErrorLabel(None, (), "user error", Impact.LOW)
FOUND = Finding(D, ("s",), "off")
Said: TypeAlias = int | str | None


def row(name: str, *errors: ErrorLabel) -> LabeledTrace:
    return LabeledTrace(Trace(name, (Span("s", None, "agent", SpanKind.AGENT),)), errors, clean="checked")


def table(*read: tuple[LabeledTrace, Sequence[Said]]) -> MatchTable:
    """A score below 3 goes with a finding; None is `not_applicable`, a text a judgment that cannot be used."""
    cells = {
        (trace.trace_id, D, repeat): Cell(
            not isinstance(score, str),
            score if isinstance(score, int) else None,
            (FOUND,) if isinstance(score, int) and score < 3 else (),
            trace.errors_of(D),
        )
        for trace, scores in read
        for repeat, score in enumerate(scores)
    }
    most = max(len(scores) for _, scores in read)
    return MatchTable("span", True, tuple(trace for trace, _ in read), (D,), tuple(range(most)), cells)


@pytest.mark.parametrize(
    ("scores", "agreement", "std", "locked_in"),
    [
        ([0, 0, 0], 1.0, 0.0, 0.0),
        ([3, 3, 3], 1.0, 0.0, 1.0),
        # Of three pairs one agrees; the standard deviation of 3, 3, 0 is the root of 3.
        ([3, 3, 0], 1 / 3, 3**0.5, 1 / 3),
        ([0, 0, 3], 1 / 3, 3**0.5, 0.0),
        ([0, 3, 0, 3], 1 / 3, 3**0.5, 1 / 6),
        ([0, 2, 0, 2], 1.0, (4 / 3) ** 0.5, 0.0),
        ([0, 3], 0.0, MOST_STD, 0.0),
        # "not applicable" reports nothing: no better and no worse than the best score.
        ([None, None, 0], 1 / 3, 3**0.5, 1 / 3),
        # A judgment that cannot be used is missing data.
        ([0, "refused", 0], 1.0, 0.0, 0.0),
    ],
)
def test_worked_values_of_a_trace_with_an_error(
    scores: Sequence[Said], agreement: float, std: float, locked_in: float
) -> None:
    found = trace_consistency(table((row("a", ERROR), scores)), D)["a"]
    assert found is not None
    assert found.agreement == pytest.approx(agreement)
    assert found.std == pytest.approx(std)
    assert found.locked_in == pytest.approx(locked_in)
    assert found.value == pytest.approx((agreement + 1 - std / MOST_STD) / 2)


def test_on_a_clean_trace_it_is_the_alarms_that_are_locked_in() -> None:
    found = trace_consistency(table((row("a"), [0, 0, 3])), D)["a"]
    assert found is not None
    assert found.locked_in == pytest.approx(1 / 3)


def test_where_people_say_nothing_nothing_is_locked_in_or_not() -> None:
    found = trace_consistency(table((row("a", OUTSIDE), [0, 0, 3])), D)["a"]
    assert found is not None
    assert found.locked_in is None


def test_one_usable_repeat_says_nothing() -> None:
    assert trace_consistency(table((row("a", ERROR), [0, "cut"]), (row("b"), [3, 3])), D)["a"] is None


@given(st.lists(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=3, max_size=3), min_size=2, max_size=8))
def test_it_is_the_traces_share_of_the_suites_metrics(scores: list[list[int]]) -> None:
    """The means over traces are the metrics' raw agreement and standard deviation."""
    read = table(*((row(f"t{i}", *([ERROR] if i % 2 else [])), each) for i, each in enumerate(scores)))
    found = [one for one in trace_consistency(read, D).values() if one is not None]
    whole = {name: statistic.draws(np.ones((1, len(scores))))[0] for name, statistic in over_repeats(read).items()}
    assert np.mean([one.agreement for one in found]) == pytest.approx(whole["raw_agreement"])
    assert np.mean([one.std for one in found]) == pytest.approx(whole["std"])
    assert all(0 <= one.value <= 1 for one in found)


def test_other_dimensions_do_not_count() -> None:
    read = table((row("a", ERROR), [0, 0]))
    other = {("a", "plan_quality", repeat): Cell(True, 3 * repeat, (), ()) for repeat in range(2)}
    both = replace(read, dimensions=(*read.dimensions, "plan_quality"), cells={**read.cells, **other})
    assert trace_consistency(both, D) == trace_consistency(read, D)
