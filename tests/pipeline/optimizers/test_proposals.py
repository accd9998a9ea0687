from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import pytest

from pipeline.optimizers.proposals import ProposalChecks, personal_masked, tool_names

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import World

Refuse: TypeAlias = Callable[[str, str], str | None]


@pytest.fixture
def checks(world: World) -> Refuse:
    """A part and its text -> why it is refused."""
    checks = ProposalChecks(world.program, world.development)
    return lambda part, text: checks.refuse({part: text}).get(part)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("Fill in {{trace}} here.", "placeholder"),
        ("Improve {current} first.", "placeholder"),
        ("## Reply format", "contract"),
        ("## Do not judge\nanything", "contract"),
        ("# Task", "contract"),
        ("===== TRACE 0123abcd =====", "contract"),
        ("<<<", "contract"),
        ("Give a score from 0 to 10, where 10 is best.", "another score scale"),
        ("Rate each step on a scale of 1-5.", "another score scale"),
        ("The score is 8 out of 10 for most traces.", "another score scale"),
        ("Write to jane.doe@example.org if unsure.", "an e-mail address"),
        ("Call (555) 123-4567 about it.", "a phone number"),
        ("Card 4111 1111 1111 1111 was used.", "a card or account number"),
        ("It happened in span 9f86d081884c7d65.", "an id of a trace or span"),
        ("Check db_lookup twice.", "tool of this agent"),
        ("Check `calculator` twice.", "tool of this agent"),
        ("Check calculator(x) twice.", "tool of this agent"),
    ],
)
def test_a_bad_line_is_refused_with_its_reason(checks: Refuse, world: World, line: str, why: str) -> None:
    refusal = checks("rubric", f"{world.program.rubric}\n{line}")
    assert refusal is not None
    assert why in refusal


@pytest.mark.parametrize(
    "line",
    [
        "Compare each argument with what the step asks for.",
        "Years such as 2020-2024 and values such as 48.1 are data, {not} placeholders.",
        "A calculator-like step is no error, nor is a simple lookup in a database.",
        "Confidence runs from 0 to 100.",
        "Scores stay on the 0 to 3 scale.",
    ],
)
def test_a_good_line_is_accepted(checks: Refuse, world: World, line: str) -> None:
    assert checks("rubric", f"{world.program.rubric}\n{line}") is None


def test_the_seed_itself_is_accepted_in_every_part(checks: Refuse, world: World) -> None:
    for part, text in world.program.parts.items():
        if text:
            assert checks(part, text) is None


def test_notes_may_name_tools(checks: Refuse) -> None:
    assert checks("architecture_notes", "The agent calls db_lookup first.") is None


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_text_is_refused(checks: Refuse, text: str) -> None:
    assert checks("rubric", text) == "the text is empty"


def test_a_text_over_its_cap_is_refused(world: World) -> None:
    checks = ProposalChecks(world.program, world.development, part_chars={"rubric": 20})
    assert "at most 20" in checks.refuse({"rubric": "x" * 21})["rubric"]
    assert "at most 20" not in checks.refuse({"rubric": "x" * 20})["rubric"]


def test_parts_are_checked_each_by_itself(world: World) -> None:
    checks = ProposalChecks(world.program, world.development)
    copied = "the lookup of train-4/tool asked for another value"
    texts = {"rubric": world.program.rubric, "architecture_notes": copied, "output_template": " ", "examples": "?"}
    refused = checks.refuse(texts)
    assert set(refused) == {"architecture_notes", "output_template", "examples"}
    assert "train-4" in refused["architecture_notes"]


def test_a_rubric_must_keep_the_score_anchors(checks: Refuse, world: World) -> None:
    kept = [line for line in world.program.rubric.splitlines() if not line.startswith("- 2:")]
    assert "no longer says what these scores mean: 2" in str(checks("rubric", "\n".join(kept)))
    reworded = "Find errors in calls.\n\n**3** no error\n2 = slips\nScore 1: harm\n- 0: disaster"
    assert checks("rubric", reworded) is None


def test_words_of_a_labelled_trace_or_of_its_labels_are_refused(checks: Refuse) -> None:
    # The traces say `1. look up figure 4 for val`, the label `the lookup of val-4/tool asked for another`.
    for text in (
        "the lookup of train-4/tool asked for another value",
        "THE LOOKUP OF VAL-4/TOOL: asked for another value",
    ):
        assert "copies a run of words from labelled trace" in str(checks("output_template", text))
    assert checks("output_template", "the lookup asked for another value") is None


def example(trace_id: str, excerpt: str = "@span S1 kind=TOOL") -> str:
    return json.dumps({"excerpt": excerpt, "findings": [], "score": 3, "trace_id": trace_id})


def test_examples_come_from_the_trainset_alone(checks: Refuse) -> None:
    assert checks("examples", example("train-1")) is None
    assert "not in the trainset" in str(checks("examples", f"{example('train-1')}\n{example('val-1')}"))
    assert "not a JSON object" in str(checks("examples", "an example"))
    assert "an e-mail address" in str(checks("examples", example("train-1", "mail a@b.org")))


def test_what_looks_personal_is_masked() -> None:
    masked = personal_masked("Ask jane.doe@example.org or +14155552671 about 9f86d081884c7d65 in 2024.")
    assert masked == "Ask <e-mail address> or <phone number> about <id of a trace or span> in 2024."


def test_tool_names_come_from_spans_and_schemas(world: World) -> None:
    row = next(iter(world.development.trainset))
    assert set(tool_names(row)) == {"db_lookup", "calculator"}
