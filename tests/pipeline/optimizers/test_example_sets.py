from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pipeline.optimizers.example_sets import example_sets
from pipeline.optimizers.examples import ExampleBuilder
from pipeline.optimizers.proposals import ProposalChecks

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import World

CATALOGUE = [
    (category, json.dumps({"excerpt": f"{category} {n}", "findings": [], "score": 3, "trace_id": f"train-{n}"}))
    for category in ("late", "wrong", "")
    for n in range(4)
]


def sets_of(world: World, count: int = 8, seed: int = 0, **knobs: int) -> list[str]:
    program = world.program.with_knobs(**knobs)
    return example_sets(program, CATALOGUE, ProposalChecks(program, world.development), count, seed)


def categories(text: str) -> list[str]:
    known = {line: category for category, line in CATALOGUE}
    return [known[line] for line in text.split("\n")]


def test_the_programs_own_examples_come_first_and_no_set_twice(world: World) -> None:
    sets = sets_of(world)
    assert sets[0] == world.program.examples == ""
    assert len(sets) == len(set(sets)) == 8
    assert sets_of(world) == sets
    assert sets_of(world, seed=1) != sets


def test_a_set_shows_one_example_of_a_category_the_clean_one_last(world: World) -> None:
    drawn = [categories(text) for seed in range(20) for text in sets_of(world, seed=seed)[1:]]
    assert all(len(names) == len(set(names)) <= 3 for names in drawn)
    assert all("" not in names[:-1] for names in drawn)
    assert {len(names) for names in drawn} == {1, 2, 3}
    clean = sum("" in names for names in drawn) / len(drawn)
    assert 0.3 < clean < 0.7


@pytest.mark.parametrize("most", [1, 2])
def test_no_set_is_larger_than_what_is_shown(world: World, most: int) -> None:
    assert all(len(categories(text)) <= most for text in sets_of(world, max_examples=most)[1:])


def test_where_no_example_is_shown_there_is_nothing_to_choose(world: World) -> None:
    assert sets_of(world, max_examples=0) == [""]


def test_few_examples_make_few_sets(world: World) -> None:
    checks = ProposalChecks(world.program, world.development)
    assert example_sets(world.program, [], checks, 8, 0) == [""]
    assert example_sets(world.program, CATALOGUE[-1:], checks, 8, 0) == ["", CATALOGUE[-1][1]]


def test_sets_that_the_checks_refuse_are_left_out(world: World) -> None:
    foreign = json.dumps({"excerpt": "x", "findings": [], "score": 3, "trace_id": "val-1"})
    checks = ProposalChecks(world.program, world.development)
    assert example_sets(world.program, [("wrong", foreign)], checks, 8, 0) == [""]


def test_the_catalogue_has_one_example_a_trace_from_the_trainset_alone(world: World) -> None:
    train = list(world.development.trainset)
    rows = [json.loads(line) for _, line in ExampleBuilder(train).catalogue("tool_calling")]
    assert [row["trace_id"] for row in rows] == [row.trace_id for row in train]
    assert all(set(row) == {"excerpt", "findings", "score", "trace_id"} for row in rows)
    assert [bool(row["findings"]) for row in rows] == [bool(row.errors) for row in train]
    # Of another dimension there are no errors, and these traces are not clean either.
    others = ExampleBuilder(train).catalogue("plan_quality")
    assert len(others) == sum(row.is_clean for row in train)
    assert {category for category, _ in others} == {""}
