"""The planner writes the reference plan, or one with exactly the fault that it says."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from labeled_traces.simulated.faults import NO_FAULTS
from labeled_traces.simulated.planner import write_plan
from labeled_traces.simulated.tasks import Task, draw_task

BAD = replace(NO_FAULTS, bad_plan=1.0)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    rng = random.Random(1)
    return [draw_task(rng) for _ in range(400)]


def test_without_faults_it_writes_the_reference_plan(tasks: list[Task]) -> None:
    for task in tasks:
        plan, faults = write_plan(task, NO_FAULTS, random.Random(0))
        assert [planned.step for planned in plan] == task.reference_plan()
        assert faults == []
        assert all(planned.plain for planned in plan)


def test_a_bad_plan_differs_from_the_reference_as_its_variant_says(tasks: list[Task]) -> None:
    seen = set()
    for seed, task in enumerate(tasks):
        plan, [fault] = write_plan(task, BAD, random.Random(seed))
        reference = task.reference_plan()
        facts = [planned.step.fact for planned in plan if planned.step.fact]
        needed = [step.fact for step in reference if step.fact]
        at = plan[fault.at]
        seen.add((fault.variant, task.kind))
        match fault.variant:
            case "uncovered":
                assert len(plan) == len(reference)
                assert at.step.fact not in needed
                assert len(set(facts) & set(needed)) == len(needed) - 1
            case "undefined":
                assert len(plan) == len(reference) - 1
                assert at.missing is not None
                assert at.missing.fact in needed
                assert at.missing.fact not in facts
            case "redundant":
                assert len(plan) == len(reference) + 1
                assert at.redundant
                assert [fact == at.step.fact for fact in facts].count(True) == 2
    assert ("undefined", "one_value") not in seen
    assert len(seen) == 14


def test_wrong_tools_replace_lookups_and_say_what_for(tasks: list[Task]) -> None:
    for task in tasks:
        plan, faults = write_plan(task, replace(NO_FAULTS, wrong_tool=1.0), random.Random(0))
        lookups = [i for i, step in enumerate(task.reference_plan()) if step.tool == "db_lookup"]
        assert [fault.at for fault in faults] == lookups
        for i in lookups:
            assert plan[i].step.tool == "web_search"
            assert plan[i].step.fact == task.reference_plan()[i].fact


def test_a_redundant_step_stays_a_plain_lookup(tasks: list[Task]) -> None:
    for seed, task in enumerate(tasks):
        plan, _ = write_plan(task, replace(BAD, wrong_tool=1.0), random.Random(seed))
        assert all(planned.step.tool != "web_search" for planned in plan if not planned.plain)
