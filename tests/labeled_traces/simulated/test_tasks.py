"""Five kinds of task: read back from their wording, solved by their reference plan, graded by the truth."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from labeled_traces.simulated.plan import Step
from labeled_traces.simulated.tasks import (
    KINDS,
    Task,
    answer_text,
    draw_task,
    is_right,
    parse_task,
    partial_answer,
    same_value,
)
from labeled_traces.simulated.tools import Toolbox, value_of
from labeled_traces.simulated.world import World, build_world
from labeled_traces.trace import JSON

ONE = Task("one_value", ("Velmar",), (2023,))
COMPARE = Task("compare", ("Calder Trust", "Quillon Bank"), (2022,))
GROWTH = Task("growth", ("Velmar",), (2020, 2023))
SERIES = Task("series_chart", ("Velmar",), (2020, 2022))
TOP = Task("top_k_chart", (), (2021,), 3)
ROWS = [["2020", 400.1], ["2021", 420.2], ["2022", 440.3]]


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    rng = random.Random(5)
    return [draw_task(rng) for _ in range(2000)]


def test_all_five_kinds_are_drawn_about_equally(tasks: list[Task]) -> None:
    counts = Counter(task.kind for task in tasks)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) > 0.16 * len(tasks)


def test_every_task_is_read_back_from_its_text(tasks: list[Task]) -> None:
    assert all(parse_task(task.text) == task for task in tasks)


def test_a_task_id_stands_for_one_task(tasks: list[Task]) -> None:
    assert len({task.task_id for task in tasks}) == len({task.text for task in tasks}) == len(set(tasks))


@pytest.mark.parametrize("text", ["", "What is the weather?", ONE.text + " Please.", "Draw a chart."])
def test_another_text_is_no_task(text: str) -> None:
    assert parse_task(text) is None


def run_plan(steps: list[Step], world: World) -> dict[str, JSON]:
    toolbox, values = Toolbox(world), dict[str, JSON]()
    for step in steps:
        arguments = step.resolve(values)
        assert arguments is not None
        values[step.output] = value_of(step.tool, toolbox.call(step.tool, arguments).output)
    return values


def test_the_reference_plan_gives_the_values_of_the_database(tasks: list[Task]) -> None:
    world = build_world(2)
    for task in set(tasks[:200]):
        assert run_plan(task.reference_plan(), world) == task.true_values(world.database)


@pytest.mark.parametrize(
    ("task", "values", "answer"),
    [
        (ONE, {"v1": 48.1}, "The GDP of Velmar in 2023 was 48.1 USD bn."),
        (COMPARE, {"r": 17.8}, "Calder Trust had the higher market value in 2022, by 17.8 USD bn."),
        (COMPARE, {"r": -2.5}, "Quillon Bank had the higher market value in 2022, by 2.5 USD bn."),
        (GROWTH, {"r": 3.47}, "The GDP of Velmar changed by 3.47 % from 2020 to 2023."),
        (
            SERIES,
            {"v1": ROWS, "c": "chart-1"},
            "chart-1 shows the GDP of Velmar from 2020 to 2022: 2020 400.1, 2021 420.2, 2022 440.3 USD bn.",
        ),
        (
            TOP,
            {"v1": [["Calder Trust", 9.5]], "c": "chart-1"},
            "chart-1 shows the top 3 banks by market value in 2021: Calder Trust 9.5 USD bn.",
        ),
        (ONE, {}, None),
        (COMPARE, {"r": "much"}, None),
        (SERIES, {"v1": 3.5, "c": "chart-1"}, None),
        (SERIES, {"v1": [["2020"]], "c": "chart-1"}, None),
    ],
)
def test_the_answer_follows_from_the_recorded_values(task: Task, values: dict[str, JSON], answer: str | None) -> None:
    assert answer_text(task, values) == answer


def test_a_partial_answer_is_not_the_answer(tasks: list[Task]) -> None:
    world = build_world(2)
    for task in tasks[:300]:
        values = task.true_values(world.truth)
        partial = partial_answer(task, values)
        assert (partial is None) == (task.kind == "one_value")
        assert partial != answer_text(task, values)


@pytest.mark.parametrize(
    ("task", "values", "truth", "right"),
    [
        (ONE, {"v1": 100.9}, {"v1": 100.0}, True),
        (ONE, {"v1": 101.1}, {"v1": 100.0}, False),
        (COMPARE, {"r": 0.1}, {"r": 50.0}, True),
        (COMPARE, {"r": -0.1}, {"r": 50.0}, False),
        (GROWTH, {"r": 3.9}, {"r": 3.47}, True),
        (GROWTH, {"r": 4.0}, {"r": 3.47}, False),
        (SERIES, {"v1": ROWS}, {"v1": ROWS}, True),
        (SERIES, {"v1": ROWS[1:]}, {"v1": ROWS}, False),
        (SERIES, {"v1": [["2020", 410.1], *ROWS[1:]]}, {"v1": ROWS}, False),
    ],
)
def test_what_counts_as_right(task: Task, values: dict[str, JSON], truth: dict[str, JSON], right: bool) -> None:
    assert is_right(task, values, truth) is right


def test_a_chart_is_the_same_only_as_itself() -> None:
    assert same_value("chart-1", "chart-1")
    assert not same_value("chart-2", "chart-1")
