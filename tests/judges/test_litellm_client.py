"""Tests of the client over real HTTP, against a server whose answers the test writes."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.budget import Price
from judges.litellm_client import LiteLLMClient
from judges.lm import JudgeError, LMError, LMReply, LMRequest, Message

if TYPE_CHECKING:
    from tests.judges.scripted_server import Answer, Script, ScriptedServer

    Servers = type[ScriptedServer]

KEY = "sk-sentinel-0123456789abcdef"
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture(scope="module")
def client() -> Iterator[LiteLLMClient]:
    """One client for most tests: every server is another endpoint."""
    client = LiteLLMClient(timeout=5.0, retries=2, pause=0.01)
    yield client
    client.close()


def request(server: ScriptedServer, **changes: Any) -> LMRequest:
    values: dict[str, Any] = {
        "model": "openai/any-model",
        "messages": (Message("system", "Be strict."), Message("user", "Judge {this} ✓ \ud83d")),
        "temperature": 0.7,
        "max_tokens": 50,
        "endpoint": server.endpoint,
        **changes,
    }
    return LMRequest(**values)


def ask(client: LiteLLMClient, request: LMRequest) -> LMReply:
    return asyncio.run(client.complete(request))


def in_turn(*answers: Answer | str) -> Script:
    """Answers in this order, the last one for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_a_reply(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: "three") as server:
        reply = ask(client, request(server, seed=7))
    assert reply == LMReply("three", "stop", prompt_tokens=100, completion_tokens=20, cost=None)
    (received,) = server.requests
    assert received.path == "/v1/chat/completions"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.body["temperature"] == 0.7
    assert received.body["max_tokens"] == 50
    assert received.body["seed"] == 7
    assert "response_format" not in received.body
    assert received.body["messages"][0] == {"role": "system", "content": "Be strict."}


def test_text_arrives_as_it_was_sent(client: LiteLLMClient, scripted_server: Servers) -> None:
    text = 'Judge {this} {{and}} ✓ 日本 \x00 "quoted" \u2028'
    with scripted_server(lambda body: body["messages"][0]["content"]) as server:
        reply = ask(client, request(server, messages=(Message("user", text),)))
    assert reply.text == text


def test_a_lone_surrogate_in_the_prompt_is_no_crash(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: "fine") as server:
        assert ask(client, request(server, messages=(Message("user", "a\ud83db"),))).text == "fine"


def test_schema_is_sent_and_taken(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: '{"score": 3}') as server:
        ask(client, request(server, schema=SCHEMA))
    sent = server.bodies[0]["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["schema"] == SCHEMA
    assert sent["json_schema"]["strict"] is True


def formats(server: ScriptedServer) -> list[str]:
    return [body.get("response_format", {}).get("type", "text") for body in server.bodies]


@pytest.mark.parametrize(
    ("refused", "first", "later"),
    [
        (("json_schema",), ["json_schema", "json_object"], "json_object"),
        (("json_schema", "json_object"), ["json_schema", "json_object", "text"], "text"),
    ],
)
@pytest.mark.parametrize(
    "refusal",
    [
        (400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
        (400, "Bad request"),
        (422, "body.response_format: extra fields not permitted"),
        (501, "not implemented"),
    ],
)
def test_a_reply_format_that_is_refused_falls_to_the_next_and_is_remembered(
    scripted_server: Servers, refused: tuple[str, ...], first: list[str], later: str, refusal: tuple[int, str]
) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        if body.get("response_format", {}).get("type") in refused:
            return scripted_server.error(*refusal)
        return "{}"

    client = LiteLLMClient(timeout=5.0, retries=0)
    with scripted_server(script) as server:
        assert ask(client, request(server, schema=SCHEMA)).text == "{}"
        assert formats(server) == first
        ask(client, request(server, schema=SCHEMA, repeat=1))
        assert formats(server) == [*first, later]
        assert [note.split(" takes ")[1] for note in client.adaptations] == [
            f"no reply format above {later}: replies are not bound to the schema"
        ]
        with scripted_server(script) as other:
            ask(client, request(other, schema=SCHEMA))
            assert formats(other) == first, "what one endpoint refuses, another may take"
    client.close()


def test_a_server_that_crashes_on_a_schema_is_asked_without_it(scripted_server: Servers) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        crashes = body.get("response_format", {}).get("type") == "json_schema"
        return scripted_server.error(500, "Internal Server Error") if crashes else "{}"

    client = LiteLLMClient(timeout=5.0, retries=1, pause=0.001)
    with scripted_server(script) as server:
        assert ask(client, request(server, schema=SCHEMA)).text == "{}"
        assert formats(server) == ["json_schema", "json_schema", "json_object"]
    client.close()


def test_a_format_that_has_worked_is_not_given_up_in_a_storm(client: LiteLLMClient, scripted_server: Servers) -> None:
    boom = scripted_server.error(503, "busy")
    with scripted_server(in_turn("{}", boom, boom, boom, "{}")) as server:
        ask(client, request(server, schema=SCHEMA))
        with pytest.raises(LMError, match="busy"):
            ask(client, request(server, schema=SCHEMA, repeat=1))
        ask(client, request(server, schema=SCHEMA, repeat=2))
        assert set(formats(server)) == {"json_schema"}


def test_a_schema_that_is_refused_for_itself_says_nothing_of_the_next(
    client: LiteLLMClient, scripted_server: Servers
) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema", SCHEMA)
        if schema != SCHEMA:
            return scripted_server.error(400, "Invalid schema for response_format 'reply': too many enum values")
        return "{}"

    with scripted_server(script) as server:
        ask(client, request(server, schema={**SCHEMA, "title": "long"}))
        ask(client, request(server, schema=SCHEMA))
        assert formats(server) == ["json_schema", "json_object", "json_schema"]


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (
            "temperature",
            "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is "
            "supported.",
        ),
        ("temperature", "`temperature` is deprecated for this model."),
        ("seed", "Unrecognized request argument supplied: seed"),
    ],
)
def test_a_parameter_that_is_refused_is_left_out_and_reported(
    scripted_server: Servers, caplog: pytest.LogCaptureFixture, parameter: str, message: str
) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        return scripted_server.error(400, message) if parameter in body else "fine"

    client = LiteLLMClient(timeout=5.0, retries=0)
    with scripted_server(script) as server, caplog.at_level(logging.WARNING):
        assert ask(client, request(server, seed=3, schema=SCHEMA)).text == "fine"
        ask(client, request(server, seed=3, schema=SCHEMA, repeat=1))
        note = f"openai/any-model at {server.endpoint} takes no {parameter}: it is left out"
        assert client.adaptations == [note]
        assert [record.getMessage() for record in caplog.records] == [note], "said once"
        assert [parameter in body for body in server.bodies] == [True, False, False]
        assert formats(server) == ["json_schema"] * 3
    client.close()


def test_the_other_name_of_max_tokens(client: LiteLLMClient, scripted_server: Servers) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        if "max_tokens" in body:
            return scripted_server.error(
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead.",
            )
        return "fine"

    with scripted_server(script) as server:
        ask(client, request(server))
        assert server.bodies[-1]["max_completion_tokens"] == 50


def test_a_model_that_litellm_knows_to_refuse_a_parameter(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: "fine") as server:
        assert ask(client, request(server, model="openai/o3")).text == "fine"
        assert "temperature" not in server.bodies[0]
        assert any("o3" in note and "no temperature" in note for note in client.adaptations)


def test_429_waits_as_long_as_it_is_told(client: LiteLLMClient, scripted_server: Servers) -> None:
    busy = scripted_server.error(429, "slow down", {"Retry-After": "1"})
    with scripted_server(in_turn(busy, "fine")) as server:
        start = time.monotonic()
        assert ask(client, request(server)).text == "fine"
        assert 1.0 <= time.monotonic() - start < 3.0
        assert len(server.requests) == 2


def test_a_wait_that_is_too_long_is_a_failure(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: scripted_server.error(429, "come tomorrow", {"Retry-After": "86400"})) as server:
        with pytest.raises(LMError, match="come tomorrow"):
            ask(client, request(server))
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_failures_that_may_pass_are_tried_again(client: LiteLLMClient, scripted_server: Servers, status: int) -> None:
    with scripted_server(in_turn(scripted_server.error(status, "busy"), "fine")) as server:
        assert ask(client, request(server)).text == "fine"
        assert len(server.requests) == 2


def test_the_number_of_attempts_is_bounded_and_litellm_adds_none(
    client: LiteLLMClient, scripted_server: Servers
) -> None:
    with scripted_server(lambda _: scripted_server.error(500, "boom")) as server:
        with pytest.raises(LMError, match="boom") as caught:
            ask(client, request(server))
        assert caught.value.kind == "provider_error"
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "message", "fields"),
    [
        (401, "Incorrect API key provided", {}),
        (403, "no access", {}),
        (404, "The model `any-model` does not exist", {}),
        (400, "messages must not be empty", {}),
        (429, "You exceeded your current quota, please check your plan", {"code": "insufficient_quota"}),
    ],
)
def test_failures_that_stay_are_not_tried_again(
    client: LiteLLMClient, scripted_server: Servers, status: int, message: str, fields: dict[str, Any]
) -> None:
    with scripted_server(lambda _: scripted_server.error(status, message, **fields)) as server:
        with pytest.raises(LMError, match=message) as caught:
            ask(client, request(server))
        assert caught.value.kind == "provider_error"
        assert server.endpoint in str(caught.value)
        assert len(server.requests) == 1


def test_a_hang_is_a_timeout_and_the_others_finish(scripted_server: Servers) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        hangs = body["messages"][0]["content"] == "hang"
        return scripted_server.answer(body=scripted_server.chat("late"), delay=30.0) if hangs else "fine"

    async def five(client: LiteLLMClient, server: ScriptedServer) -> list[LMReply | BaseException]:
        prompts = ("a", "b", "hang", "c", "d")
        calls = [client.complete(request(server, messages=(Message("user", prompt),))) for prompt in prompts]
        return await asyncio.gather(*calls, return_exceptions=True)

    client = LiteLLMClient(timeout=0.5, retries=2)
    with scripted_server(script) as server:
        start = time.monotonic()
        replies = asyncio.run(five(client, server))
        assert time.monotonic() - start < 3.0
        assert len(server.requests) == 5, "a timeout is not tried again"
    client.close()
    assert [reply.text for reply in replies if isinstance(reply, LMReply)] == ["fine"] * 4
    error = replies[2]
    assert isinstance(error, LMError)
    assert (error.kind, "no reply within 0.5 s" in str(error)) == ("timeout", True)


def test_a_server_that_drips_does_not_outlast_the_timeout(scripted_server: Servers) -> None:
    """Libraries' timeouts start anew with each byte."""
    with scripted_server(lambda _: scripted_server.answer(body=" " * 200, drip=0.05)) as server:
        client = LiteLLMClient(timeout=0.5, retries=0)
        start = time.monotonic()
        with pytest.raises(LMError, match="no reply within"):
            ask(client, request(server))
        assert time.monotonic() - start < 3.0
        client.close()


CONTEXT_ERRORS: dict[str, tuple[int, dict[str, Any]]] = {
    "openai": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in "
                "9000 tokens. Please reduce the length of the messages.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 8192,
            }
        },
    ),
    "llama.cpp, other words": (
        400,
        {"error": {"code": 400, "message": "no", "type": "exceed_context_size_error", "n_prompt_tokens": 9000}},
    ),
    "vllm": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the "
            "messages.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "bedrock": (400, {"error": {"message": "Input is too long for requested model.", "type": "x"}}),
    "anthropic": (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum", "type": "x"}}),
    "http": (413, {"error": {"message": "Payload Too Large", "type": "x"}}),
}


@pytest.mark.parametrize("shape", CONTEXT_ERRORS)
@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_a_prompt_over_the_context_is_too_long(
    client: LiteLLMClient, scripted_server: Servers, shape: str, schema: dict[str, Any] | None
) -> None:
    status, body = CONTEXT_ERRORS[shape]
    with scripted_server(lambda _: scripted_server.answer(status, body)) as server:
        with pytest.raises(LMError) as caught:
            ask(client, request(server, schema=schema))
        assert caught.value.kind == "too_long"
        assert len(server.requests) == 1


def test_null_content_that_was_cut_is_an_empty_reply_with_its_reason(
    client: LiteLLMClient, scripted_server: Servers
) -> None:
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat(None, "length"))) as server:
        reply = ask(client, request(server))
    assert (reply.text, reply.finish_reason, reply.completion_tokens) == ("", "length", 20)


def test_cut_text_keeps_its_reason(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat('{"sco', "length"))) as server:
        reply = ask(client, request(server))
    assert (reply.text, reply.finish_reason) == ('{"sco', "length")


def test_cached_tokens_are_read(client: LiteLLMClient, scripted_server: Servers) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "total_tokens": 105,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat("x", usage=usage))) as server:
        reply = ask(client, request(server))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == (100, 5, 64)


def test_missing_usage_is_zero_tokens(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat("x", usage=None))) as server:
        reply = ask(client, request(server))
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.cost) == ("x", 0, 0, None)


def test_a_refusal_field_is_the_text(client: LiteLLMClient, scripted_server: Servers) -> None:
    body = scripted_server.chat(None)
    body["choices"][0]["message"]["refusal"] = "I can't help with that."
    with scripted_server(lambda _: scripted_server.answer(body=body)) as server:
        assert ask(client, request(server)).text == "I can't help with that."


def test_a_content_filter_is_an_answer(client: LiteLLMClient, scripted_server: Servers) -> None:
    message = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy"
    with scripted_server(lambda _: scripted_server.error(400, message, code="content_filter")) as server:
        reply = ask(client, request(server, schema=SCHEMA))
        assert (reply.text, reply.finish_reason) == ("", "content_filter")
        assert len(server.requests) == 1


@pytest.mark.parametrize("body", ["{not json", "", "<html>", "[]", "null"])
def test_a_body_that_is_no_completion(client: LiteLLMClient, scripted_server: Servers, body: str) -> None:
    with scripted_server(in_turn(scripted_server.answer(body=body), "fine")) as server:
        assert ask(client, request(server)).text == "fine"
    with scripted_server(lambda _: scripted_server.answer(body=body)) as server:
        with pytest.raises(LMError) as caught:
            ask(client, request(server))
        assert caught.value.kind == "provider_error"


def test_an_error_that_calls_itself_a_success(client: LiteLLMClient, scripted_server: Servers) -> None:
    body = {"error": {"message": "overloaded"}}
    with (
        scripted_server(lambda _: scripted_server.answer(200, body)) as server,
        pytest.raises(LMError, match="overloaded") as caught,
    ):
        ask(client, request(server))
    assert caught.value.kind == "provider_error"


def test_no_choices_is_a_failure(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat("x", choices=[]))) as server:
        with pytest.raises(LMError, match="no choices"):
            ask(client, request(server))
        assert len(server.requests) == 3


def test_connection_refused(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: "x") as server:
        pass
    with pytest.raises(LMError) as caught:
        ask(client, request(server))
    assert caught.value.kind == "provider_error"
    assert server.endpoint in str(caught.value)


def test_connections_outlive_event_loops_and_threads(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: "fine") as server:
        texts: list[str] = []

        def work() -> None:
            texts.extend(ask(client, request(server)).text for _ in range(5))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts == ["fine"] * 20


def test_a_cancelled_call_is_ended(client: LiteLLMClient, scripted_server: Servers) -> None:
    async def cancelled(server: ScriptedServer) -> None:
        call = asyncio.create_task(client.complete(request(server)))
        while not server.bodies:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat("x"), delay=30.0)) as server:
        start = time.monotonic()
        asyncio.run(cancelled(server))
        assert time.monotonic() - start < 3.0


def test_a_closed_client_says_so(scripted_server: Servers) -> None:
    client = LiteLLMClient()
    client.close()
    client.close()
    with scripted_server(lambda _: "x") as server, pytest.raises(JudgeError, match="closed"):
        ask(client, request(server))


def everything_of(error: BaseException | None) -> Iterator[str]:
    """All texts that a traceback or a logger could show of an error and of what led to it."""
    while error is not None:
        yield from (str(error), repr(error), repr(error.args), repr(vars(error)))
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_never_shows(client: LiteLLMClient, scripted_server: Servers, status: int) -> None:
    message = f"Incorrect API key provided: {KEY}. Header was Bearer {KEY}; " + "x" * 590 + KEY
    with (
        scripted_server(lambda _: scripted_server.error(status, message)) as server,
        pytest.raises(LMError) as caught,
    ):
        ask(client, request(server))
    shown = " ".join(everything_of(caught.value))
    assert "Incorrect API key provided" in shown
    assert KEY not in shown
    assert KEY[:12] not in shown
    assert KEY not in repr(client) + repr(vars(client))


@pytest.mark.parametrize(
    "endpoint",
    ["ftp://127.0.0.1/v1", "127.0.0.1:8000", "http://", "http://user:pass-word-1@127.0.0.1/v1", "not a url"],
)
def test_an_endpoint_that_cannot_be(client: LiteLLMClient, scripted_server: Servers, endpoint: str) -> None:
    with scripted_server(lambda _: "x") as server, pytest.raises(JudgeError, match="accepted is a base URL") as caught:
        ask(client, request(server, endpoint=endpoint))
    assert "pass-word-1" not in str(caught.value)


def test_a_model_without_a_provider_is_explained(client: LiteLLMClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: "x") as server, pytest.raises(LMError, match="LLM Provider NOT provided"):
        ask(client, request(server, model="any-model"))


def test_a_local_server_needs_no_key(
    client: LiteLLMClient, scripted_server: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with scripted_server(lambda _: "fine") as server:
        assert ask(client, request(server)).text == "fine"


def test_a_missing_key_of_a_provider_is_not_tried_again(client: LiteLLMClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    start = time.monotonic()
    with pytest.raises(LMError, match="OPENAI_API_KEY"):
        ask(client, LMRequest("openai/gpt-4o-mini", (Message("user", "x"),)))
    assert time.monotonic() - start < 1.0


def test_cost_by_the_users_price(scripted_server: Servers) -> None:
    client = LiteLLMClient(prices={"openai/any-model": Price(input=2.0, output=10.0)})
    with scripted_server(lambda _: "x") as server:
        assert ask(client, request(server)).cost == pytest.approx((100 * 2.0 + 20 * 10.0) / 1e6)
    client.close()


def test_cost_by_litellms_table_counts_cached_tokens(client: LiteLLMClient, scripted_server: Servers) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    cached = {**usage, "prompt_tokens_details": {"cached_tokens": 800}}
    answers = [scripted_server.answer(body=scripted_server.chat("x", usage=counts)) for counts in (usage, cached)]
    with scripted_server(in_turn(*answers)) as server:
        full = ask(client, request(server, model="openai/gpt-4o-mini"))
        less = ask(client, request(server, model="openai/gpt-4o-mini"))
    assert full.cost == pytest.approx(1000 * 0.15e-6 + 100 * 0.6e-6)
    assert full.cost == pytest.approx(client.cost_of(request(server, model="openai/gpt-4o-mini"), 1000, 100))
    assert less.cost == pytest.approx(200 * 0.15e-6 + 800 * 0.075e-6 + 100 * 0.6e-6)


@pytest.mark.parametrize("model", ["openai/any-model", "any-model", "ollama/llama3", ""])
def test_an_unknown_price_is_none(client: LiteLLMClient, model: str) -> None:
    assert client.cost_of(LMRequest(model, ()), 1000, 100) is None


def test_nothing_is_printed_and_no_warning_shows(scripted_server: Servers) -> None:
    """In a process of its own: what a user would see."""
    code = """
import asyncio, sys
from judges.litellm_client import LiteLLMClient
from judges.lm import LMError, LMRequest, Message
client = LiteLLMClient(timeout=5.0, retries=0)
for i in range(int(sys.argv[2])):
    try:
        asyncio.run(client.complete(LMRequest("openai/any-model", (Message("user", str(i)),), endpoint=sys.argv[1])))
    except LMError as error:
        print(error.kind)
print("end")
"""
    body = scripted_server.chat([{"type": "text", "text": "a list"}])
    answers = in_turn("fine", scripted_server.error(500, "boom"), scripted_server.answer(body=body), "fine")
    with scripted_server(answers) as server:
        run = subprocess.run(
            [sys.executable, "-W", "always", "-W", "ignore::DeprecationWarning", "-c", code, server.endpoint, "4"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "OPENAI_API_KEY": KEY},
            timeout=60,
            check=True,
        )
    assert run.stdout.split() == ["provider_error", "provider_error", "end"]
    assert run.stderr == ""
    assert json.loads(json.dumps(server.bodies[-1]))["messages"][0]["content"] == "3"
