"""What a prompt's texts do: measured on the shipped prompts and on texts that a person might write."""

from __future__ import annotations

import json

import pytest

from judges.program import seed_program
from judges.prompt import build_tail, exclusions
from judges.simulated_lm.failures import FAILURES
from judges.simulated_lm.reading import Texts
from judges.simulated_lm.traits import read_traits
from labeled_traces.label import DIMENSIONS
from labeled_traces.simulated.faults import FAULTS


def texts_of(dimension: str, rubric: str = "", notes: str = "", examples: str = "", template: str = "") -> Texts:
    """The shipped judge's texts, with those that are given in their place."""
    program = seed_program(dimension)
    rubric, template = rubric or program.rubric, template or program.output_template
    return Texts(dimension, rubric, exclusions(dimension), notes, examples, template, has_plan=False)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_shipped_judges_describe_their_kinds_a_bit_and_leave_room(dimension: str) -> None:
    traits = read_traits(texts_of(dimension))
    own = [traits.described[kind] for kind in FAULTS if dimension in FAULTS[kind]]
    assert 0.3 < max(own) < 0.9
    assert traits.has_exclusions
    assert [traits.asks_first_span, traits.asks_evidence, traits.clean_example] == [False] * 3
    assert traits.denied == traits.shown == frozenset()
    assert traits.notes == 0


def test_the_holistic_judge_has_no_exclusions_and_knows_no_dimension_better() -> None:
    traits = read_traits(texts_of("holistic"))
    assert not traits.has_exclusions
    for kind, dimensions in FAULTS.items():
        assert traits.described[kind] <= max(read_traits(texts_of(name)).described[kind] for name in dimensions)


def test_an_added_line_describes_its_kind_and_counts_in_length() -> None:
    before = read_traits(texts_of("execution_efficiency"))
    rubric = seed_program("execution_efficiency").rubric + FAILURES["repeated_call"].bullet
    after = read_traits(texts_of("execution_efficiency", rubric=rubric))
    assert before.described["repeated_call"] < after.described["repeated_call"] == 1
    assert after.tokens > before.tokens


def test_a_line_that_denies_an_error_does_not_describe_it() -> None:
    rubric = "Judge.\n- Not an error: the same call with identical arguments, a retry."
    assert read_traits(texts_of("execution_efficiency", rubric=rubric)).described["repeated_call"] == 0


def test_a_clause_denies_its_theme_only() -> None:
    rubric = "Judge the plan.\n- Not an error: no fallback."
    traits = read_traits(texts_of("plan_quality", rubric=rubric))
    assert len(traits.denied) == 1
    assert read_traits(texts_of("plan_quality", rubric="Report a plan without fallback.")).denied == frozenset()


def test_notes_and_template_are_valued_by_what_they_say() -> None:
    notes = "The planner plans, the executor acts. Errors often have their cause in the plan. It ends with an answer."
    traits = read_traits(texts_of("plan_quality", notes=notes, template="Cite where the error first appears."))
    assert traits.notes == 1
    assert traits.asks_first_span
    assert read_traits(texts_of("plan_quality", notes="The agent is good.")).notes == 0


def test_examples_show_a_kind_or_that_a_trace_can_be_clean() -> None:
    finding = {"span_ids": ["S1"], "explanation": "wrong tool: the web was searched", "severity": "low"}
    replies = [{"findings": [finding], "score": 2}, {"findings": [], "score": 3}, "broken"]
    texts = [f"### Example {i}\n\n> @span S1\n\nReply: {json.dumps(reply)}" for i, reply in enumerate(replies, 1)]
    first = read_traits(texts_of("tool_selection", examples=texts[0]))
    assert (first.shown, first.clean_example) == (frozenset({"wrong_tool"}), False)
    both = read_traits(texts_of("tool_selection", examples="\n\n".join([*texts, "Reply: {no}"])))
    assert (both.shown, both.clean_example) == (frozenset({"wrong_tool"}), True)


def test_examples_of_the_layout_mlflow_say_the_same() -> None:
    finding = {"span_ids": ["S1"], "explanation": "wrong tool: the web was searched", "severity": "low"}
    rows = [{"excerpt": "x", "findings": found, "score": 3 - len(found)} for found in ([finding], [])]
    program = seed_program("tool_selection").with_parts({"examples": "\n".join(map(json.dumps, rows))}, "test")
    traits = []
    for layout in ("shared_prefix", "mlflow"):
        tail = build_tail(program.with_knobs(layout=layout), None)
        traits.append(read_traits(texts_of("tool_selection", examples=tail.partition("## Examples")[2])))
    for found in traits:
        assert (found.shown, found.clean_example) == (frozenset({"wrong_tool"}), True)
