"""Every way in which a call's reply can come, and what is no reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judges.lm import LMReply
from pipeline.batch.replies import Found, Replies, read_replies

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


def openai(content: Any = "said", finish: str = "stop", **message: Any) -> dict[str, Any]:
    choice = {"message": {"content": content, **message}, "finish_reason": finish}
    return {"response": {"status_code": 200, "body": {"choices": [choice], "usage": USAGE}}, "error": None}


def anthropic(*content: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    usage = {"input_tokens": 30, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 10, "output_tokens": 20}
    return {"result": {"type": "succeeded", "message": {"content": content, "stop_reason": stop, "usage": usage}}}


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def read(tmp_path: Path, *rows: Any) -> Replies:
    path = tmp_path / "replies.jsonl"
    lines = [row if isinstance(row, str) else json.dumps({"custom_id": "a", **row}) for row in rows]
    path.write_text("\n".join(lines), encoding="utf-8", newline="\n")
    return read_replies([path])


TOLD = LMReply("said", "stop", 100, 20, 60, reasoning_tokens=5)
OF_ANTHROPIC = LMReply("said", "stop", 100, 20, 60)


@pytest.mark.parametrize(
    ("row", "reply", "batch"),
    [
        (openai(), TOLD, True),
        (openai(finish="length"), LMReply("said", "length", 100, 20, 60, reasoning_tokens=5), True),
        (openai(None, refusal="no"), LMReply("no", "stop", 100, 20, 60, reasoning_tokens=5), True),
        (anthropic(text("sa"), text("id")), OF_ANTHROPIC, True),
        (anthropic({"type": "thinking", "thinking": "hm"}, text("said")), OF_ANTHROPIC, True),
        (anthropic({"type": "tool_use", "input": {"a": 1}}), LMReply('{"a": 1}', "stop", 100, 20, 60), True),
        (anthropic(text("said"), stop="max_tokens"), LMReply("said", "length", 100, 20, 60), True),
        (anthropic(stop="refusal"), LMReply("", "content_filter", 100, 20, 60), True),
        (anthropic(text("said"), stop="model_context_window_exceeded"), LMReply("said", "length", 100, 20, 60), True),
        (anthropic({"type": "text", "text": None}, {"type": "text"}, {}), LMReply("", "stop", 100, 20, 60), True),
        ({"response": {**openai()["response"], "status_code": "200"}}, TOLD, True),
        ({"text": "said"}, LMReply("said"), False),
        ({"text": ""}, LMReply(""), False),
        ({"text": "said", "usage": USAGE, "cost": 0.5, "finish_reason": "length"},
         LMReply("said", "length", 100, 20, 60, 0.5, reasoning_tokens=5), False),
    ],
)  # fmt: skip
def test_a_reply(row: dict[str, Any], reply: LMReply, batch: bool, tmp_path: Path) -> None:
    found = read(tmp_path, row)
    assert not found.errors
    assert not found.malformed
    usage = found.found["a"].usage
    assert found.found == {"a": Found(reply, f"{tmp_path}/replies.jsonl, line 1", batch, usage)}


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"response": None, "error": {"code": "batch_expired", "message": "late"}}, "batch_expired"),
        ({"response": {"status_code": 500, "body": {}}, "error": None}, "HTTP 500"),
        ({"response": {"status_code": 400, "body": {"error": {"code": None, "type": "invalid"}}}}, "HTTP 400 invalid"),
        ({"response": None, "error": {"message": "of api_key=abc123456789"}}, "of api_key=[hidden]"),
        ({"result": {"type": "canceled"}}, "canceled"),
        ({"result": {"type": "expired"}}, "expired"),
        ({"result": {"type": "errored", "error": {"error": {"type": "api_error"}}}}, "errored api_error"),
        ({"result": {"type": "errored", "error": {"type": "api_error"}}}, "errored api_error"),
        ({"response": {"status_code": 200, "body": {"error": {"code": "busy"}}}, "error": None}, "busy"),
        ({"response": {"status_code": "502", "body": "down"}}, "HTTP 502"),
        ({"response": {"status_code": "\x1b[31m" + "x" * 99}}, "HTTP '\\x1b[31m" + "x" * 75 + "'"),
        ({"error": {"code": "two\nlines"}}, "'two\\nlines'"),
    ],
)  # fmt: skip
def test_an_error(row: dict[str, Any], kind: str, tmp_path: Path) -> None:
    assert read(tmp_path, row) == Replies(errors={"a": kind})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "not JSON"),
        ("[]", "no custom_id: accepted is a line"),
        ({"custom_id": 5, "text": "x"}, "no custom_id"),
        ({"custom_id": "", "text": "x"}, "no custom_id"),
        ({"text": 5}, "no reply to a: accepted is a line"),
        ({"body": {}}, "no reply to a"),
        ({"text": "x", "cost": "1"}, "cost is '1': accepted is a number of dollars from 0"),
        ({"text": "x", "cost": -1}, "cost is -1"),
        ({"text": "x", "cost": float("nan")}, "cost is nan"),
        ({"text": "x", "cost": 1e8}, "cost is 100000000.0: accepted is a number of dollars from 0 to 10,000"),
        ({"response": {"status_code": 200, "body": {"choices": []}}}, "the reply holds no choices"),
        ({"response": {"status_code": 200, "body": None}}, "the reply is null, not an object"),
        (openai(["x"]), "the reply's content is a list, not a text"),
        ({"result": {"type": "succeeded", "message": {"content": "x"}}}, "no message as Anthropic writes it"),
    ],
)
def test_what_is_no_reply_is_named_and_the_rest_is_read(row: Any, said: str, tmp_path: Path) -> None:
    found = read(tmp_path, {"custom_id": "b", "text": "before"}, row, "", {"custom_id": "c", "text": "after"})
    assert set(found.found) == {"b", "c"}
    (problem,) = found.malformed
    assert problem.startswith(f"{tmp_path}/replies.jsonl, line 2: ")
    assert said in problem


def test_a_line_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_bytes(b'{"custom_id": "a", "text": "x"}\n\xff\xfe\n{"custom_id": "b", "text": "y"}\n')
    found = read_replies([path])
    assert set(found.found) == {"a", "b"}
    assert "line 2: not UTF-8 text" in found.malformed[0]


def test_the_first_reply_counts_and_a_reply_counts_more_than_an_error(tmp_path: Path) -> None:
    error = {"result": {"type": "expired"}}
    found = read(tmp_path, error, openai("first"), openai("second"), error)
    assert (found.found["a"].reply.text, found.repeated) == ("first", 1)


def test_a_key_in_a_reply_is_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "tell-nobody-this")
    for row in (
        openai("so: tell-nobody-this"),
        anthropic(text("so: tell-nobody-this")),
        {"text": "so: tell-nobody-this"},
    ):
        assert read(tmp_path, row).found["a"].reply.text == "so: [hidden]"
