"""A line of a batch file holds what our client would send."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.lm import JudgeError, LMRequest, Message
from judges.models.client import ModelClient
from pipeline.batch.anthropic_batches import _requests
from pipeline.batch.calls import Lines, custom_id

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer

SCHEMA = {
    "title": "judgment", "type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"],
    "additionalProperties": False,
}  # fmt: skip


def request(model: str = "openai/any", **changes: Any) -> LMRequest:
    messages = (
        Message("system", "Be strict.", shared=10),
        Message("user", "Judge {this} ✓ \ud83d\ude00 \ud800", shared=12),
    )
    return LMRequest(model, messages, **{"max_tokens": 50, "schema": SCHEMA, "seed": 7, **changes})


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-nothing")


@pytest.mark.parametrize("model", ["openai/any", "openai/gpt-5", "openai/gpt-4o"])
@pytest.mark.parametrize("changes", [{}, {"schema": None}, {"seed": None, "temperature": 0.5}], ids=str)
def test_the_body_is_the_clients(model: str, changes: dict[str, Any], scripted_server: type[ScriptedServer]) -> None:
    with scripted_server(lambda _: "{}") as server:
        asked = request(model, endpoint=server.endpoint, **changes)
        client = ModelClient()
        reply = asyncio.run(client.complete(asked))
        client.close()
        lines = Lines()
        assert lines.of(asked)["body"] == server.bodies[0]
        assert lines.sent(asked) == reply.sent


def test_a_reasoning_model_of_openai_is_asked_as_it_takes_it() -> None:
    body = Lines().of(request("openai/gpt-5"))["body"]
    assert body["max_completion_tokens"] == 50
    assert not {"temperature", "max_tokens"} & set(body)


def test_anthropic_is_sent_what_the_client_sends(scripted_server: type[ScriptedServer], tmp_path: Path) -> None:
    message = {
        "id": "m", "type": "message", "role": "assistant", "model": "x", "content": [{"type": "text", "text": "{}"}],
        "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    with scripted_server(lambda _: scripted_server.answer(200, message)) as server:
        asked = request("anthropic/claude-sonnet-4-5", endpoint=server.endpoint.removesuffix("/v1"))
        client = ModelClient()
        asyncio.run(client.complete(asked))
        client.close()
    calls = tmp_path / "calls.jsonl"
    calls.write_text(json.dumps(Lines().of(asked)))
    headers: dict[str, str] = {}
    (sent,) = _requests(calls, headers)
    assert sent == {"custom_id": custom_id(asked), "params": server.bodies[0]}
    assert headers["anthropic-beta"] == server.requests[0].headers["anthropic-beta"]


def test_custom_ids_tell_calls_apart_and_repeats_too() -> None:
    asked = [request(), request(repeat=1), request(repeat=12345, seed=8), request(temperature=0.1), request("openai/b")]
    names = [custom_id(one) for one in asked]
    assert len(set(names)) == len(asked)
    assert names[0] == custom_id(request())
    assert [name.rpartition("-")[2] for name in names] == ["0", "1", "12345", "0", "0"]
    assert max(map(len, names)) <= 64


def test_a_model_that_takes_no_such_request_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> Any:
        raise ValueError("this model reads no text")

    monkeypatch.setattr("litellm.utils.get_optional_params", refuse)
    with pytest.raises(JudgeError, match=r"openai/any: no form of request is accepted: .*reads no text"):
        Lines().of(request())
