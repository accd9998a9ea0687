"""What the simulated model replies to MIPROv2, in the chat form of DSPy."""

from __future__ import annotations

import random

import pytest

from judges.program import seed_program
from judges.simulated_lm.failures import described
from judges.simulated_lm.proposing import REPORTED, propose
from judges.simulated_lm.reading import FieldPrompt, read_prompt

EXAMPLE = "Findings: [{'span_ids': ['S1'], 'explanation': '%s: it is wrong', 'severity': 'high'}]"
RUBRIC = seed_program("tool_selection").rubric


def prompt(wanted: str, **inputs: str) -> str:
    fields = "\n\n".join(f"[[ ## {name} ## ]]\n{text}" for name, text in inputs.items())
    return (
        f"{fields}\n\nRespond with the corresponding output fields, starting with the field `[[ ## {wanted} ## ]]`, "
        "and then ending with the marker for `[[ ## completed ## ]]`."
    )


def reply_to(wanted: str, error: float = 0.0, **inputs: str) -> str:
    read = read_prompt(prompt(wanted, **inputs))
    assert isinstance(read, FieldPrompt)
    reply = propose(read, error, random.Random(0))
    assert reply is not None
    begin, end = f"[[ ## {wanted} ## ]]\n", "\n\n[[ ## completed ## ]]"
    assert reply.startswith(begin)
    assert reply.endswith(end)
    return reply.removeprefix(begin).removesuffix(end)


def test_fields_are_read_whatever_stands_in_them() -> None:
    text = "Look.\n\n## Rubric\n[[ ## not a field\n{x}\n===== TRACE 12345678 ====="
    read = read_prompt(prompt("proposed_instruction", task_demos="", basic_instruction=text))
    assert read == FieldPrompt({"task_demos": "", "basic_instruction": text}, "proposed_instruction")


@pytest.mark.parametrize("text", ["[[ ## examples ## ]]\nx", "Respond with `[[ ## x ## ]]`", "Hello"])
def test_other_prompts_are_none_of_these(text: str) -> None:
    assert read_prompt(text) is None


def test_observations_count_what_the_examples_report() -> None:
    examples = "\n".join(EXAMPLE % name for name in ("wrong tool", "wrong tool", "repeated call"))
    said = reply_to("observations", examples=examples, prior_observations=f"{REPORTED} wrong tool (5).")
    assert f"{REPORTED} wrong tool (2), repeated call (1)." in said
    assert f"{REPORTED} none." in reply_to("observations", examples="Findings: []")


def test_a_summary_adds_up_the_observations() -> None:
    said = reply_to("summary", observations=f"{REPORTED} wrong tool (2), repeated call (1). {REPORTED} wrong tool (3).")
    assert f"{REPORTED} wrong tool (5), repeated call (1)." in said


def test_an_instruction_describes_what_is_reported_and_keeps_the_rest() -> None:
    seen = f"{REPORTED} repeated call (2)."
    text = reply_to("proposed_instruction", dataset_description=seen, task_demos="", basic_instruction=RUBRIC)
    assert text.startswith(RUBRIC.strip())
    assert described("repeated_call", text) == 1 > described("repeated_call", RUBRIC)


def test_an_instruction_may_be_no_better() -> None:
    seen = f"{REPORTED} repeated call (2)."
    inputs = {"dataset_description": seen, "task_demos": "", "basic_instruction": RUBRIC}
    assert described("repeated_call", reply_to("proposed_instruction", error=1.0, **inputs)) < 1


def test_it_has_nothing_to_say_to_another_wish() -> None:
    assert propose(FieldPrompt({"question": "Why?"}, "answer"), 0.0, random.Random(0)) is None
