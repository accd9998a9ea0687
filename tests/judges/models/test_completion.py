"""Tests of reading chat completions: the shapes that endpoints send, and those that nobody should."""

from __future__ import annotations

from typing import Any

import pytest

from judges.lm import LMReply
from judges.models.completion import count, read_completion
from judges.models.failure import Failure


def body(message: Any, reason: Any = "stop", usage: Any = None) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": reason}], "usage": usage}


@pytest.mark.parametrize("reasoning", [{}, {"reasoning_content": "Let me see"}, {"reasoning": "Let me see"}])
@pytest.mark.parametrize("content", [{"content": None}, {"content": ""}, {}])
def test_a_model_that_spent_all_on_reasoning_was_cut(content: dict[str, Any], reasoning: dict[str, Any]) -> None:
    usage = {
        "prompt_tokens": 50,
        "completion_tokens": 2048,
        "completion_tokens_details": {"reasoning_tokens": 2048},
        "prompt_tokens_details": {"cached_tokens": 40},
    }
    assert read_completion(body({**content, **reasoning}, "length", usage)) == LMReply(
        "", "length", 50, 2048, 40, reasoning_tokens=2048
    )


@pytest.mark.parametrize(
    "details", [None, [], "many", {"reasoning_tokens": -1}, {"reasoning_tokens": 21}, {"reasoning_tokens": "5"}]
)
def test_reasoning_that_cannot_be_counted_is_none(details: Any) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 20, "completion_tokens_details": details}
    found = read_completion(body({"content": "x"}, usage=usage))
    assert isinstance(found, LMReply)
    assert found.reasoning_tokens == 0


@pytest.mark.parametrize("reason", [None, 5, ""])
def test_a_reason_that_is_none_is_stop(reason: Any) -> None:
    assert read_completion(body({"content": "x"}, reason)) == LMReply("x", "stop")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (None, "the reply is null"),
        ([], "the reply is a list"),
        (3, "the reply is a number"),
        ('{"choices": [{', "the reply is a text, not an object: {"),
        ("busy", "the reply is a text, not an object: busy"),
        ({}, "no choices"),
        ({"choices": []}, "no choices"),
        ({"choices": {"0": {}}}, "no choices"),
        ({"choices": "text"}, "no choices"),
        ({"choices": ["text"]}, "no message"),
        ({"choices": [{}]}, "no message"),
        ({"choices": [{"message": "text"}]}, "no message"),
        (body({"content": [{"type": "image_url", "image_url": {}}]}), "content is a list"),
        (body({"content": [{"type": "text", "text": None}]}), "content is a list"),
        (body({"content": ["x"]}), "content is a list"),
        (body({"content": {"text": "x"}}), "content is an object"),
        (body({"content": 3}), "content is a number"),
    ],
)
def test_a_wrong_shape_is_a_failure_that_may_pass_and_be_billed(wrong: Any, said: str) -> None:
    found = read_completion(wrong)
    assert isinstance(found, Failure)
    assert said in found.message
    assert (found.kind, found.retry, found.billed) == ("provider_error", True, True)


@pytest.mark.parametrize("page", ["<html> busy", " \n<!DOCTYPE html><title>Log in", "<?xml version='1.0'?><Error/>"])
def test_a_page_in_the_place_of_a_reply_is_of_no_model_so_it_is_not_billed(page: str) -> None:
    found = read_completion(page)
    assert isinstance(found, Failure)
    assert "the reply is a text, not an object: <" in found.message
    assert (found.retry, found.billed) == (True, False)


@pytest.mark.parametrize(
    ("error", "kind", "retry"),
    [
        ({"message": "overloaded", "code": 502}, "provider_error", True),
        ({"message": "slow down", "code": 429}, "provider_error", True),
        ({"message": "no such model", "code": 404}, "provider_error", False),
        ({"message": "This model's maximum context length is 10 tokens", "code": 400}, "too_long", False),
        ({"message": "who knows", "code": "x"}, "provider_error", True),
        ("in words", "provider_error", True),
    ],
)
def test_an_error_in_a_success_may_be_billed(error: Any, kind: str, retry: bool) -> None:
    found = read_completion({"error": error})
    assert isinstance(found, Failure)
    assert (found.kind, found.retry, found.billed) == (kind, retry, True)
    assert (error if isinstance(error, str) else error["message"]) in found.message


def test_a_text_that_comes_in_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        *({"type": "text", "text": t} for t in "ab"),
    ]
    assert read_completion(body({"content": parts})) == LMReply("ab")


def test_a_count_with_a_point() -> None:
    assert count(5.0) == 5


@pytest.mark.parametrize("tokens", [float("nan"), float("inf"), 1e300, None, True, "5", 1.5, -1, 0, 10**12, [5]])
def test_a_count_that_cannot_be(tokens: Any) -> None:
    assert count(tokens) == 0
