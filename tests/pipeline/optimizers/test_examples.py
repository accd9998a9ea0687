from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from judges.render import estimate_tokens
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.trace import Span, SpanKind
from pipeline.optimizers.examples import ExampleBuilder

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import World


@pytest.fixture
def builder(world: World) -> ExampleBuilder:
    return ExampleBuilder(list(world.development.trainset))


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_missed_category_gets_an_example_with_masked_ids(builder: ExampleBuilder, world: World) -> None:
    text = builder.propose(world.program, ["wrong_argument"], False, (), random.Random(0))
    (example,) = lines(text)
    row = world.development.trainset[example["trace_id"]]
    (finding,) = example["findings"]
    assert row.errors
    assert example["score"] == 0
    assert finding["span_ids"] == ["S1"]
    assert finding["severity"] == "high"
    assert "wrong argument" in finding["explanation"]
    assert '@span S1 kind=TOOL name="db_lookup" parent=-' in example["excerpt"]
    assert row.errors[0].evidence in example["excerpt"]
    assert f"{row.trace_id}/" not in json.dumps(example)


def test_a_clean_example_where_there_were_false_alarms(builder: ExampleBuilder, world: World) -> None:
    (example,) = lines(builder.propose(world.program, [], True, (), random.Random(0)))
    assert example["score"] == 3
    assert example["findings"] == []
    assert not world.development.trainset[example["trace_id"]].errors


def test_nothing_to_add_leaves_the_text_as_it_is(builder: ExampleBuilder, world: World) -> None:
    program = world.program.with_parts(
        {"examples": builder.propose(world.program, ["wrong_argument"], True, (), random.Random(0))}, "test"
    )
    assert builder.propose(program, [], False, (), random.Random(1)) == program.examples
    assert builder.propose(program, ["unheard of"], False, (), random.Random(1)) == program.examples


def test_new_ones_stand_first_and_the_knob_bounds_them(builder: ExampleBuilder, world: World) -> None:
    program = world.program
    for turn in range(4):
        text = builder.propose(program, ["wrong_argument"], True, (), random.Random(turn))
        assert lines(text)[2:] == lines(program.examples)[: program.knobs.max_examples - 2]
        program = program.with_parts({"examples": text}, "test")
    ids = [example["trace_id"] for example in lines(program.examples)]
    assert len(ids) == program.knobs.max_examples == len(set(ids))


def test_traces_that_the_child_is_tried_on_give_none(builder: ExampleBuilder, world: World) -> None:
    bad = [row.trace_id for row in world.development.trainset if row.errors]
    text = builder.propose(world.program, ["wrong_argument"], False, set(bad[1:]), random.Random(0))
    assert [example["trace_id"] for example in lines(text)] == bad[:1]
    assert (
        builder.propose(world.program, ["wrong_argument"], True, world.development.trainset.ids, random.Random(0)) == ""
    )


def test_excerpts_are_short_and_without_schemas_ids_or_addresses(world: World) -> None:
    row = next(row for row in world.development.trainset if row.errors)
    root, plan, tool = row.trace.spans
    noisy = replace(tool, outputs="BAD value " + "x " * 5000, inputs={"mail": "jane@example.org"})
    step = Span(
        "9f86d081884c7d65", tool.span_id, "step", SpanKind.LLM, inputs=plan.inputs, outputs="see 9f86d081884c7d65"
    )
    label = ErrorLabel(
        tool.span_id, ("tool_calling",), "wrong_argument", Impact.LOW, "asked jane@example.org", "see 9f86d081884c7d65"
    )
    noisy_row = replace(row, trace=replace(row.trace, spans=(root, plan, noisy, step)), errors=(label,))
    text = ExampleBuilder([noisy_row], excerpt_tokens=120).propose(
        world.program, ["wrong_argument"], False, (), random.Random(0)
    )
    (example,) = lines(text)
    assert estimate_tokens(example["excerpt"]) <= 120
    assert "characters left out" in example["excerpt"]
    assert "jane@example.org" not in text
    assert "9f86d081884c7d65" not in text
    assert "calculator" not in text
    assert example["score"] == 2


def test_a_label_without_a_span_gives_none(world: World) -> None:
    label = ErrorLabel(None, ("tool_calling",), "wrong_argument", Impact.LOW)
    rows = [replace(row, errors=(label,)) for row in world.development.trainset]
    assert ExampleBuilder(rows).propose(world.program, ["wrong_argument"], True, (), random.Random(0)) == ""
