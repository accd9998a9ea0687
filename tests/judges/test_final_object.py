from __future__ import annotations

from typing import Any

import pytest

from judges.final_object import final_object

DIFFER = "it holds two answers that differ"


def read(text: str) -> tuple[dict[str, Any] | None, str]:
    return final_object(text, ("rationale", "b"))


def test_the_last_object_of_several() -> None:
    assert read('{"a": 1} and {"b": 2}') == ({"b": 2}, "")
    assert read("nothing") == (None, "it holds no JSON object")
    assert read('{"a": [1, 2}') == (None, "its JSON is broken")


def test_only_an_object_of_the_whole_form_contradicts() -> None:
    whole = {"rationale": "", "b": 2}
    assert read('{"b": 1} {"rationale": "x"} {"rationale": "", "b": 2}') == (whole, "")
    assert read('{"rationale": "x", "b": 2, "c": 3} {"rationale": "", "b": 2}') == (whole, "")
    assert read('{"rationale": "", "b": 1} {"rationale": "", "b": 2}') == (None, DIFFER)
    assert read('{"rationale": "", "b": 1} {"b": 2}') == (None, DIFFER)
    assert read('{"rationale": "", "b": 1} {"c": 2}') == (None, DIFFER)


def test_a_part_of_the_form_contradicts_the_same_part() -> None:
    assert read('{"b": 1} {"b": 2}') == (None, DIFFER)


def test_what_counts_as_the_same_can_be_told() -> None:
    text = '{"b": 1} {"b": 3}'
    assert final_object(text, ("b",), meaning=lambda answer: answer["b"] % 2) == ({"b": 3}, "")


REASONING = [
    ("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<Reasoning>", "</Reasoning>"),
    ("<thought>", "</thought>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"), ("<|channel>thought\n", "<channel|>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("analysis", "assistantfinal"),
]  # fmt: skip


@pytest.mark.parametrize(("begin", "end"), REASONING)
def test_drafts_in_reasoning_are_no_answers(begin: str, end: str) -> None:
    assert read(f'{begin}Perhaps {{"b": 1}}? No.{end}{{"b": 2}}') == ({"b": 2}, "")
    assert read(f'{begin}Perhaps {{"b": 1}}{end}')[0] is None
    if begin != "analysis":
        assert read(f'{begin}Perhaps {{"b": 1}}') == (None, "it ends inside its reasoning")


def test_a_tag_that_is_spoken_of_is_no_reasoning() -> None:
    assert read('The agent wrote `<thinking>` twice. {"b": 2}') == ({"b": 2}, "")
    assert read('The trace says:\n> <thinking> I must.\n{"b": 2}') == ({"b": 2}, "")
    assert read('{"b": 1}\n> </thinking>\n{"b": 2}') == (None, DIFFER)


def test_many_tags_are_read_in_a_moment() -> None:
    assert read("<think>" * 100_000 + '{"b": 2}') == (None, "it ends inside its reasoning")
