"""Anthropic caches a prompt only up to a mark: over HTTP, against a server that speaks its protocol."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from judges.judge import judge_request
from judges.lm import LMReply, LMRequest
from judges.models.client import ModelClient
from judges.models.litellm_transport import wants_marks
from judges.plan import plan_request
from judges.program import JudgeProgram, Knobs, seed_program
from judges.render import render
from labeled_traces.simulated import simulate

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer

    Servers = type[ScriptedServer]

RENDERING = render(simulate(1, 0)[0].trace, 24_000)
USAGE = {"input_tokens": 30, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 70, "output_tokens": 5}


def message(body: dict[str, Any]) -> dict[str, Any]:
    """The answer of Anthropic's /v1/messages: a reply that is bound to a schema comes as the input of a tool."""
    content: dict[str, Any] = {"type": "text", "text": "three"}
    if tools := body.get("tools"):
        content = {"type": "tool_use", "id": "t", "name": tools[0]["name"], "input": {"rationale": "three"}}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [content],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }


def program(name: str, model: str, endpoint: str) -> JudgeProgram:
    return seed_program(name, Knobs(model=model, endpoint=endpoint))


def ask(client: ModelClient, request: LMRequest) -> LMReply:
    return asyncio.run(client.complete(request))


def test_the_part_that_all_calls_of_a_trace_share_is_marked(
    scripted_server: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-none")
    client = ModelClient(timeout=30.0, retries=0)
    with scripted_server(lambda body: scripted_server.answer(body=message(body))) as server:
        root = server.endpoint.removesuffix("/v1")
        judges = [program(name, "anthropic/claude-sonnet-4-5", root) for name in ("tool_calling", "tool_selection")]
        requests = [judge_request(judge, RENDERING, None, 0, None) for judge in judges]
        requests.append(plan_request(judges[0], RENDERING))
        replies = [ask(client, request) for request in requests]
    client.close()
    assert {received.path for received in server.requests} == {"/v1/messages"}
    for request, received in zip(requests, server.requests, strict=True):
        (user,) = received.body["messages"]
        shared, own = user["content"]
        assert shared.pop("cache_control") == {"type": "ephemeral"}
        assert [shared["type"], own["type"]] == ["text", "text"]
        assert shared["text"] + own["text"] == request.messages[1].content
        assert own["text"].startswith("# Task")
        assert RENDERING.text in shared["text"]
        assert str(received.body).count("cache_control") == 0
    assert len({received.body["messages"][0]["content"][0]["text"] for received in server.requests}) == 1
    for request, reply in zip(requests, replies, strict=True):
        assert json.loads(reply.sent)["cache_marks"] == [request.messages[1].shared]
        assert (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens) == (1000, 900, 5)


@pytest.mark.parametrize("layout", ["shared_prefix", "mlflow"])
def test_others_are_sent_plain_text(client: ModelClient, scripted_server: Servers, layout: str) -> None:
    with scripted_server(lambda _: "three") as server:
        knobs = Knobs(model="openai/any-model", endpoint=server.endpoint, layout=layout)
        request = judge_request(seed_program("tool_calling", knobs), RENDERING, None, 0, None)
        ask(client, request)
    assert server.bodies[0]["messages"] == [
        {"role": message.role, "content": message.content} for message in request.messages
    ]


@pytest.mark.parametrize(
    ("model", "marked"),
    [
        ("anthropic/claude-sonnet-4-5", True),
        ("claude-sonnet-4-5", True),
        ("bedrock/anthropic.claude-sonnet-4-5-v1:0", True),
        ("vertex_ai/claude-sonnet-4-5@20250929", True),
        ("openrouter/anthropic/claude-sonnet-4.5", True),
        ("vertex_ai/gemini-2.5-pro", False),
        ("bedrock/meta.llama3-70b-instruct-v1:0", False),
        ("openai/claude-behind-a-gateway", False),
        ("gemini/gemini-2.5-pro", False),
    ],
)
def test_who_wants_marks(model: str, marked: bool) -> None:
    assert wants_marks(model) is marked
