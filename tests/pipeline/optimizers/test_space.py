from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.program import JudgeProgram, seed_program
from labeled_traces.dataset import LabeledTrace
from labeled_traces.split import Development
from labeled_traces.trace import Span, SpanKind, Trace
from pipeline.optimizers.proposals import ProposalChecks
from pipeline.optimizers.space import TEXTS, Space, example_lines, fresh_examples, gathered, useful_limits

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import World

SEED = seed_program("plan_quality")
LINES = [json.dumps({"excerpt": f"excerpt {n}", "findings": [], "score": 3, "trace_id": f"t{n}"}) for n in range(5)]


def space(seed: JudgeProgram = SEED, lines: int = 5, slots: int = 3) -> Space:
    variants = {part: [seed.parts[part], f"{part} B", f"{part} C"] for part in TEXTS}
    return Space(seed, {**variants, "examples": LINES[:lines]}, [24_000, 12_000], [0.7, 0.2], slots, "test")


@st.composite
def points(draw: st.DrawFn) -> dict[str, int]:
    return {name: draw(st.integers(0, size - 1)) for name, size in space().sizes.items()}


def test_the_point_of_zeros_is_the_input_program() -> None:
    here = space()
    assert here.point(SEED) == dict.fromkeys(here.sizes, 0)
    assert here.program(here.point(SEED)) is SEED


@given(points())
def test_a_point_says_all_of_its_program(point: dict[str, int]) -> None:
    here = space()
    program = here.program(point)
    for part in TEXTS:
        assert program.parts[part] == here.variants[part][point[part]]
    chosen = [LINES[point[f"example_{slot}"]] for slot in range(point["examples"])]
    assert program.examples.split("\n") == (list(dict.fromkeys(chosen)) or [""])
    assert [example["trace_id"] for example in program.shown_examples] == list(
        dict.fromkeys(json.loads(line)["trace_id"] for line in chosen)
    )
    assert program.knobs.trace_tokens == [24_000, 12_000][point["trace_tokens"]]
    assert program.knobs.temperature == [0.7, 0.2][point["temperature"]]
    assert program.knobs.plan_extraction == (point["plan_extraction"] == 0)
    if program is not SEED:
        assert (program.parent, program.origin) == (SEED.hash, "test")


@given(points())
def test_texts_and_examples_lead_back_to_the_point(point: dict[str, int]) -> None:
    here = space()
    program = here.program(point)
    back = here.program(here.point(program))
    assert back.parts == program.parts


def test_what_is_no_variant_is_placed_as_near_as_can_be() -> None:
    here = space()
    stranger = replace(SEED, rubric="unknown", architecture_notes="architecture_notes C", examples=LINES[1])
    point = here.point(stranger)
    assert (point["rubric"], point["architecture_notes"], point["examples"], point["example_0"]) == (0, 2, 1, 1)


def test_examples_that_the_input_shows_are_its_point() -> None:
    shows = replace(SEED, examples="\n".join(LINES[2:5]))
    here = space(shows)
    point = here.point(shows)
    assert [point["examples"], *(point[f"example_{slot}"] for slot in range(3))] == [3, 2, 3, 4]
    assert here.program(point) is shows
    assert here.program({**point, "examples": 1}).examples == LINES[2]


def test_more_examples_than_the_knob_allows_are_shown() -> None:
    tight = SEED.with_knobs(max_examples=1)
    here = space(tight)
    program = here.program({**here.point(tight), "examples": 3, "example_1": 1, "example_2": 2})
    assert len(program.shown_examples) == 3


def test_what_cannot_be_searched_has_one_value() -> None:
    other = seed_program("tool_calling")
    assert space(other).sizes["plan_extraction"] == 1
    assert space(SEED.with_knobs(layout="mlflow")).sizes["plan_extraction"] == 1
    assert space().sizes["plan_extraction"] == 2
    none = space(lines=0).sizes
    assert none["examples"] == 1
    assert not any(name.startswith("example_") for name in none)


def test_the_bank_is_gathered_part_by_part() -> None:
    one = replace(SEED, rubric="R1", examples=f"{LINES[0]}\n{LINES[1]}")
    two = replace(SEED, rubric="R1", output_template="T2", examples=f"{LINES[1]}\n\n{LINES[2]}\n")
    found = gathered(SEED, (one, two), [LINES[0], LINES[3]])
    assert found["rubric"] == [SEED.rubric, "R1"]
    assert found["architecture_notes"] == [SEED.architecture_notes]
    assert found["output_template"] == [SEED.output_template, "T2"]
    assert found["examples"] == LINES[:4]


def test_hidden_examples_are_none() -> None:
    program = replace(SEED, examples="\n".join(LINES)).with_knobs(max_examples=2)
    assert example_lines(program) == LINES[:2]


def test_fresh_examples_come_from_the_trainset_and_pass_the_checks(world: World) -> None:
    program, development = world.program, world.development
    lines = fresh_examples(program, development, 6, 0)
    rows = [json.loads(line) for line in lines]
    assert len(rows) == len({row["trace_id"] for row in rows}) == 6
    assert {row["trace_id"] for row in rows} <= set(development.trainset.ids)
    assert [bool(row["findings"]) for row in rows] == [True, False] * 3  # an error, a clean one, and so on
    assert not ProposalChecks(program, development).refuse({"examples": "\n".join(lines)})
    assert fresh_examples(program, development, 6, 0) == lines
    assert fresh_examples(program, development, 6, 1) != lines
    assert fresh_examples(program, development, 0, 0) == []
    few = Development(development.trainset.subset(["train-0", "train-1"]), development.valset)
    assert len(fresh_examples(program, few, 6, 0)) == 2


def long_trace(words: int) -> LabeledTrace:
    root = Span(f"root-{words}", None, "agent", SpanKind.AGENT, inputs="task", outputs="word " * words)
    return LabeledTrace(Trace(f"trace-{words}", (root,)))


@pytest.mark.parametrize(
    ("words", "expected"),
    [(10, [1_000]), (600, [1_000, 500]), (1_500, [1_000, 500, 2_000]), (9_000, [1_000, 500, 2_000])],
)
def test_only_limits_that_show_another_text_are_searched(words: int, expected: list[int]) -> None:
    assert useful_limits(1_000, (0.5, 2.0), [long_trace(words)]) == expected


def test_a_limit_below_the_least_is_not_tried() -> None:
    assert useful_limits(256, (0.01,), [long_trace(9_000)]) == [256]
