from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from judges.judgment import Finding
from labeled_traces.dataset import LabeledTrace
from pipeline.config import PipelineError
from pipeline.metrics.cell import Cell
from pipeline.metrics.table import MatchTable
from pipeline.optimizers.objective import Change, Margins, consistency, consistency_objective
from pipeline.optimizers.scoring import Scores

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import World

D = "tool_calling"
OBJECTIVE = consistency_objective(Margins())


def read(rows: list[LabeledTrace], reported: list[list[int]]) -> Scores:
    """One list of repeats a trace: 1 where the judge reports an error, at the right span if there is one."""
    cells = {}
    for row, repeats in zip(rows, reported, strict=True):
        found = Finding(D, (f"{row.trace_id}/tool",), "off")
        errors = row.errors_of(D)
        for repeat, says in enumerate(repeats):
            pairs = ((0, 0),) if says and errors else ()
            cells[row.trace_id, D, repeat] = Cell(True, 0 if says else 3, (found,) if says else (), errors, pairs)
    return Scores.of(MatchTable("span", True, tuple(rows), (D,), tuple(range(len(reported[0]))), cells), len(cells))


@pytest.fixture
def rows(world: World) -> list[LabeledTrace]:
    """Eight with an error, then eight clean ones."""
    return sorted((row for row in world.development.trainset), key=lambda row: not row.errors)[4:20]


def values(scores: Scores) -> dict[str, float]:
    """The mean of each guard's value."""
    means = {}
    for guard in OBJECTIVE.guards:
        known = [value for value in guard.value(scores).values() if value is not None]
        means[guard.name] = sum(known) / len(known)
    return means


def test_worked_values(rows: list[LabeledTrace]) -> None:
    scores = read(rows, [[1, 1, 0]] * 8 + [[0, 0, 1]] * 4 + [[0, 0, 0]] * 4)
    assert values(scores) == {
        "coverage": pytest.approx(2 / 3),
        "localization": pytest.approx(2 / 3),
        "false_alarms": pytest.approx(-1 / 6),
        "locked_in": 0.0,
    }
    known = consistency(scores)
    assert known[rows[0].trace_id] == pytest.approx((1 / 3 + 1 - 3**0.5 / (3 / 2**0.5)) / 2)
    assert known[rows[-1].trace_id] == 1.0


def test_a_real_gain_has_no_fault(rows: list[LabeledTrace]) -> None:
    before = read(rows, [[1, 1, 0]] * 8 + [[0, 0, 1]] * 8)
    after = read(rows, [[1, 1, 1]] * 8 + [[0, 0, 0]] * 8)
    change = Change.of(OBJECTIVE, after, before)
    assert change.gain is not None
    assert change.gain > 0.5
    assert change.faults == ()


@pytest.mark.parametrize(
    ("labelled", "clean", "fault"),
    [
        ([[0, 0, 0]] * 8, [[0, 0, 0]] * 8, ("coverage", "localization", "locked_in")),
        ([[1, 1, 1]] * 8, [[1, 1, 1]] * 8, ("false_alarms", "locked_in")),
        # As much is found as before, and nothing is unstable any more: half of it is found always, half never.
        ([[1, 1, 1]] * 4 + [[0, 0, 0]] * 4, [[0, 0, 0]] * 8, ("locked_in",)),
    ],
    ids=["says nothing", "reports always", "locks in its own mean"],
)
def test_cheap_ways_to_consistency_are_faults(
    rows: list[LabeledTrace], labelled: list[list[int]], clean: list[list[int]], fault: tuple[str, ...]
) -> None:
    before = read(rows, [[1, 0, 0], [0, 1, 1]] * 4 + [[0, 0, 0]] * 8)
    change = Change.of(OBJECTIVE, read(rows, labelled + clean), before)
    assert change.gain is not None
    assert change.gain > 0.2
    assert tuple(words.split()[0] for words in change.faults) == fault


def test_a_guard_is_broken_only_beyond_its_margin_and_a_standard_error(rows: list[LabeledTrace]) -> None:
    before = read(rows, [[1, 1, 1]] * 16)
    worse = read(rows, [[1, 1, 0]] + [[1, 1, 1]] * 15)
    assert Change.of(OBJECTIVE, worse, before).faults == ()
    strict = consistency_objective(Margins(0.01, 0.01, 0.01, 0.01))
    assert Change.of(strict, worse, before).faults == ()
    much_worse = read(rows, [[1, 0, 0]] * 8 + [[1, 1, 1]] * 8)
    assert "coverage got worse by 0.667" in Change.of(strict, much_worse, before).faults
    assert Change.of(consistency_objective(Margins(0.7, 0.7, 0.7, 0.7)), much_worse, before).faults == ()


def test_without_clean_traces_false_alarms_cannot_be_measured(rows: list[LabeledTrace]) -> None:
    labelled = rows[:8]
    change = Change.of(OBJECTIVE, read(labelled, [[1, 1, 1]] * 8), read(labelled, [[1, 0, 0]] * 8))
    assert change.faults == ("false_alarms cannot be measured",)


def test_lost_replies_are_a_fault(rows: list[LabeledTrace]) -> None:
    before = read(rows, [[1, 1, 0]] * 16)
    table = before.table
    cells = {key: replace(cell, usable=key[2] == 0, findings=(), pairs=()) for key, cell in table.cells.items()}
    change = Change.of(OBJECTIVE, Scores.of(replace(table, cells=cells), len(cells)), before)
    assert change.gain is None
    assert change.faults == ("only 33% of its judgments can be used",)


@pytest.mark.parametrize("wrong", [{"coverage": -0.1}, {"locked_in": 1.5}])
def test_bad_margins_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PipelineError, match="accepted is 0 to 1"):
        Margins(**wrong)
