"""Reflection: a part gets better by what the feedback names, and now and then it does not."""

from __future__ import annotations

import random
import re

import pytest

from judges.simulated_lm.alarms import THEMES
from judges.simulated_lm.failures import FAILURES
from judges.simulated_lm.reading import ReflectionPrompt
from judges.simulated_lm.reflection import EVIDENCE_LINE, FIRST_SPAN_LINE, HEADING, MISTAKES, NOTE_LINES, reflect
from judges.simulated_lm.traits import EVIDENCE_ONLY, FIRST_SPAN, NOTES

MISSED_CALL = '- missed: category=repeated_call; impact=low; at=TOOL "a_tool"'
MISPLACED = '- misplaced: category=bad_plan; reported at=LLM "executor"; belongs at=LLM "planner"'
CURRENT = "Judge the calls.\n3: no error\n0: a bad error"


def spurious(complaint: str) -> str:
    return f'- spurious: reported at=LLM "executor" on a trace without this error; the judge said: {complaint}'


def new_text(prompt: ReflectionPrompt, seed: int = 0, error: float = 0.0) -> str:
    found = re.search(r"^<<<\n(.*)\n>>>$", reflect(prompt, error, random.Random(seed)), re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_a_rubric_learns_the_kinds_that_were_missed() -> None:
    text = new_text(ReflectionPrompt("rubric", "execution_efficiency", CURRENT, (MISSED_CALL,)))
    assert text == f"{CURRENT}\n\n{HEADING}\n{FAILURES['repeated_call'].bullet}"


def test_a_rubric_learns_at_most_two_kinds_at_a_time_the_commonest_first() -> None:
    lines = tuple(
        f"- missed: category={kind}; impact={impact}; at=no span"
        for kind, impacts in (("wrong_tool", "l"), ("bad_plan", "lm"), ("misread_output", "lmh"))
        for impact in impacts
    )
    for seed in range(8):
        text = new_text(ReflectionPrompt("rubric", "plan_quality", CURRENT, lines), seed)
        added = [kind for kind, failure in FAILURES.items() if failure.bullet in text]
        assert added in (["misread_output"], ["bad_plan", "misread_output"])


def test_a_rubric_denies_the_complaint_that_was_spurious() -> None:
    theme = THEMES["plan_quality"][1]
    lines = tuple(spurious(wording) for wording in theme.wordings)
    assert (
        new_text(ReflectionPrompt("rubric", "plan_quality", CURRENT, lines))
        == f"{CURRENT}\n\n{HEADING}\n{theme.clause}"
    )


def test_what_a_rubric_says_already_is_not_said_again() -> None:
    rubric = f"{CURRENT}\n\n{HEADING}\n{FAILURES['repeated_call'].bullet}"
    lines = (MISSED_CALL, "- missed: category=bad_plan; impact=low; at=no span")
    text = new_text(ReflectionPrompt("rubric", "execution_efficiency", rubric, lines))
    assert text == f"{rubric}\n{FAILURES['bad_plan'].bullet}"


def test_an_unknown_category_is_named_as_it_stands() -> None:
    line = "- missed: category=Quux drift; impact=high; at=no span"
    text = new_text(ReflectionPrompt("rubric", "plan_quality", CURRENT, (line,)))
    assert text == f"{CURRENT}\n\n{HEADING}\n- Look for this too, in every step: Quux drift."


def test_notes_tell_how_the_agent_works_when_findings_are_misplaced() -> None:
    notes = ""
    for seed in range(4):
        notes = new_text(ReflectionPrompt("architecture_notes", "plan_quality", notes, (MISPLACED,)), seed)
    assert all(line in notes for line in NOTE_LINES)
    assert all(re.search(cue, notes, re.IGNORECASE) for cue in NOTES)


@pytest.mark.parametrize(("line", "cue"), zip(NOTE_LINES, NOTES, strict=True))
def test_each_line_of_notes_is_worth_its_quarter(line: str, cue: str) -> None:
    assert re.search(cue, line, re.IGNORECASE)


def test_a_template_asks_for_the_first_span_and_for_evidence_when_that_went_wrong() -> None:
    prompt = ReflectionPrompt("output_template", "plan_quality", "Be brief.", (MISPLACED, spurious("Odd.")))
    assert new_text(prompt) == f"Be brief.\n{FIRST_SPAN_LINE}\n{EVIDENCE_LINE}"
    assert re.search(FIRST_SPAN, FIRST_SPAN_LINE)
    assert re.search(EVIDENCE_ONLY, EVIDENCE_LINE)


def test_nothing_to_learn_gives_other_words_only() -> None:
    text = new_text(ReflectionPrompt("rubric", "plan_quality", CURRENT, ("- good: category=x; found at=y",)))
    assert text.startswith(CURRENT)
    assert not any(failure.bullet in text for failure in FAILURES.values())


def test_a_part_that_it_cannot_write_is_kept() -> None:
    assert new_text(ReflectionPrompt("examples", "plan_quality", '{"a": 1}', (MISSED_CALL,))) == '{"a": 1}'


def test_mistakes_happen_at_their_rate_and_every_one_of_them_happens() -> None:
    prompt = ReflectionPrompt("rubric", "execution_efficiency", CURRENT, (MISSED_CALL,))
    right = f"{CURRENT}\n\n{HEADING}\n{FAILURES['repeated_call'].bullet}"
    texts = [new_text(prompt, seed, error=0.25) for seed in range(2000)]
    wrong = [text for text in texts if text != right]
    assert 0.21 < len(wrong) / len(texts) < 0.29
    assert "" in wrong
    assert any("0 to 10" in text for text in wrong)
    assert any(len(text) > 500 for text in wrong)
    assert any("For example: " in text for text in wrong)
    assert any(text.count("\n") < CURRENT.count("\n") for text in wrong)
    assert len(MISTAKES) == 6


def test_an_equal_request_gives_an_equal_text() -> None:
    prompt = ReflectionPrompt("rubric", "plan_quality", CURRENT, (MISSED_CALL, MISPLACED))
    assert len({new_text(prompt, 7, error=0.5) for _ in range(3)}) == 1
