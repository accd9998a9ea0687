"""Tests of failures over real HTTP: which are tried again, which kind they are, and that no key shows."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from judges.lm import LMError, LMReply, LMRequest, Message
from judges.models.client import ModelClient
from judges.models.failure import Failure

if TYPE_CHECKING:
    from tests.judges.conftest import NewClient
    from tests.judges.scripted_server import Answer, ScriptedServer

    Servers = type[ScriptedServer]

SCHEMA = {"type": "object"}


class APIError(Exception):
    """In LiteLLM's shape."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        super().__init__("busy")
        self.status_code = status
        self.response = SimpleNamespace(headers=headers)


def ask(client: ModelClient, request: LMRequest) -> LMReply:
    return asyncio.run(client.complete(request))


def test_429_waits_as_long_as_it_is_told(client: ModelClient, scripted_server: Servers) -> None:
    busy = scripted_server.error(429, "slow down", {"Retry-After": "1"})
    with scripted_server(scripted_server.in_turn(busy, "fine")) as server:
        start = time.monotonic()
        assert ask(client, server.request()).text == "fine"
        assert 1.0 <= time.monotonic() - start < 3.0
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"retry-after": "7"}, 7.0, 7.0),
        ({"retry-after": "0.5"}, 0.5, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0, 0.0),
    ],
)
def test_what_the_provider_asks_to_wait(headers: dict[str, str], least: float, most: float) -> None:
    wait = Failure.of(APIError(429, headers), 1.0).wait
    assert wait is not None
    assert least <= wait <= most


def test_the_provider_names_a_time() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    wait = Failure.of(APIError(429, {"retry-after": later}), 1.0).wait
    assert wait is not None
    assert 3500.0 <= wait <= 3600.0


@pytest.mark.parametrize("headers", [{}, {"retry-after": "soon"}, {"retry-after": "-1"}, {"retry-after": ""}])
def test_no_wait_that_can_be_read(headers: dict[str, str]) -> None:
    assert Failure.of(APIError(429, headers), 1.0).wait is None


def test_an_error_of_any_other_kind_is_the_providers_and_not_tried_again() -> None:
    assert Failure.of(KeyError("choices"), 1.0) == Failure("provider_error", "'choices'")


def test_litellms_own_status_does_not_hide_what_stands_behind_it() -> None:
    """It says 500 of a lost connection and of a reply that it cannot read, and 422 of an error with status 200."""

    def billed(status: int, behind: Exception | None) -> bool:
        error = APIError(status, {})
        error.__cause__ = behind
        return Failure.of(error, 1.0).billed

    def answer(status: int) -> Exception:
        error: Exception = type("HTTPStatusError", (Exception,), {"response": SimpleNamespace(status_code=status)})()
        return error

    assert [billed(500, answer(status)) for status in (400, 422, 500, 503, 520)] == [False] * 5
    assert [billed(500, answer(status)) for status in (408, 499, 502, 504, 524)] == [True] * 5
    assert billed(500, None)
    assert billed(422, None)
    assert billed(500, json.JSONDecodeError("Unterminated string", '{"choi', 3))
    assert not billed(500, json.JSONDecodeError("Expecting value", "<html>", 0))
    assert not billed(401, None), "there was no key"


def test_a_long_message_is_cut() -> None:
    assert len(Failure.of(ValueError("long " * 1000), 1.0).message) < 700


def test_a_wait_that_is_too_long_is_a_failure(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: scripted_server.error(429, "come tomorrow", {"Retry-After": "86400"})) as server:
        with pytest.raises(LMError, match="come tomorrow"):
            ask(client, server.request())
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
def test_failures_that_may_pass_are_tried_again(client: ModelClient, scripted_server: Servers, status: int) -> None:
    with scripted_server(scripted_server.in_turn(scripted_server.error(status, "busy"), "fine")) as server:
        assert ask(client, server.request()).text == "fine"
        assert len(server.requests) == 2


def test_the_number_of_attempts_is_bounded_and_litellm_adds_none(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: scripted_server.error(500, "boom")) as server:
        with pytest.raises(LMError, match="boom") as caught:
            ask(client, server.request())
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
    client: ModelClient, scripted_server: Servers, status: int, message: str, fields: dict[str, Any]
) -> None:
    with scripted_server(lambda _: scripted_server.error(status, message, **fields)) as server:
        with pytest.raises(LMError, match=message) as caught:
            ask(client, server.request())
        assert caught.value.kind == "provider_error"
        assert server.endpoint in str(caught.value)
        assert len(server.requests) == 1


@pytest.mark.usefixtures("client")
def test_a_hang_is_a_timeout_and_the_others_finish(new_client: NewClient, scripted_server: Servers) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        hangs = body["messages"][0]["content"] == "hang"
        return scripted_server.answer(body=scripted_server.chat("late"), delay=30.0) if hangs else "fine"

    async def five(client: ModelClient, server: ScriptedServer) -> list[LMReply | BaseException]:
        prompts = ("a", "b", "hang", "c", "d")
        calls = [client.complete(server.request(messages=(Message("user", prompt),))) for prompt in prompts]
        return await asyncio.gather(*calls, return_exceptions=True)

    client = new_client(timeout=0.5, retries=2)
    with scripted_server(script) as server:
        start = time.monotonic()
        replies = asyncio.run(five(client, server))
        assert time.monotonic() - start < 3.0
        assert len(server.requests) == 5, "a timeout is not tried again"
    assert [reply.text for reply in replies if isinstance(reply, LMReply)] == ["fine"] * 4
    error = replies[2]
    assert isinstance(error, LMError)
    assert (error.kind, "no reply within 0.5 s" in str(error)) == ("timeout", True)


@pytest.mark.usefixtures("client")
def test_a_server_that_drips_does_not_outlast_the_timeout(new_client: NewClient, scripted_server: Servers) -> None:
    """Libraries' timeouts start anew with each byte."""
    with scripted_server(lambda _: scripted_server.answer(body=" " * 200, drip=0.05)) as server:
        client = new_client(timeout=0.5, retries=0)
        start = time.monotonic()
        with pytest.raises(LMError, match="no reply within"):
            ask(client, server.request())
        assert time.monotonic() - start < 3.0


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
    client: ModelClient, scripted_server: Servers, shape: str, schema: dict[str, Any] | None
) -> None:
    status, body = CONTEXT_ERRORS[shape]
    with scripted_server(lambda _: scripted_server.answer(status, body)) as server:
        with pytest.raises(LMError) as caught:
            ask(client, server.request(schema=schema))
        assert caught.value.kind == "too_long"
        assert len(server.requests) == 1


def test_a_content_filter_is_an_answer(client: ModelClient, scripted_server: Servers) -> None:
    message = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy"
    with scripted_server(lambda _: scripted_server.error(400, message, code="content_filter")) as server:
        reply = ask(client, server.request(schema=SCHEMA))
        assert (reply.text, reply.finish_reason) == ("", "content_filter")
        assert len(server.requests) == 1


@pytest.mark.parametrize("body", ["{not json", "", "<html>", "[]", "null"])
def test_a_body_that_is_no_completion(client: ModelClient, scripted_server: Servers, body: str) -> None:
    with scripted_server(scripted_server.in_turn(scripted_server.answer(body=body), "fine")) as server:
        assert ask(client, server.request()).text == "fine"
    with scripted_server(lambda _: scripted_server.answer(body=body)) as server:
        with pytest.raises(LMError) as caught:
            ask(client, server.request())
        assert caught.value.kind == "provider_error"


def test_an_error_that_calls_itself_a_success(client: ModelClient, scripted_server: Servers) -> None:
    body = {"error": {"message": "overloaded"}}
    with (
        scripted_server(lambda _: scripted_server.answer(200, body)) as server,
        pytest.raises(LMError, match="overloaded") as caught,
    ):
        ask(client, server.request())
    assert caught.value.kind == "provider_error"


def test_no_choices_is_a_failure(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat("x", choices=[]))) as server:
        with pytest.raises(LMError, match="no choices"):
            ask(client, server.request())
        assert len(server.requests) == 3


def test_connection_refused(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: "x") as server:
        pass
    with pytest.raises(LMError) as caught:
        ask(client, server.request())
    assert caught.value.kind == "provider_error"
    assert server.endpoint in str(caught.value)


def everything_of(error: BaseException | None) -> Iterator[str]:
    """All texts that a traceback or a logger could show of an error and of what led to it."""
    while error is not None:
        yield from (str(error), repr(error), repr(error.args), repr(vars(error)))
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_never_shows(client: ModelClient, scripted_server: Servers, key: str, status: int) -> None:
    message = f"Incorrect API key provided: {key}. Header was Bearer {key}; " + "x" * 590 + key
    with (
        scripted_server(lambda _: scripted_server.error(status, message)) as server,
        pytest.raises(LMError) as caught,
    ):
        ask(client, server.request())
    shown = " ".join(everything_of(caught.value))
    assert "Incorrect API key provided" in shown
    assert key not in shown
    assert key[:12] not in shown
    assert key not in repr(client) + repr(vars(client))


def test_a_model_without_a_provider_is_explained(new_client: NewClient, scripted_server: Servers) -> None:
    client = new_client(transports=None)
    with scripted_server(lambda _: "x") as server, pytest.raises(LMError, match="LLM Provider NOT provided"):
        ask(client, server.request(model="any-model"))


def test_a_missing_key_of_a_provider_is_not_tried_again(client: ModelClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    start = time.monotonic()
    with pytest.raises(LMError, match="OPENAI_API_KEY"):
        ask(client, LMRequest("openai/gpt-4o-mini", (Message("user", "x"),)))
    assert time.monotonic() - start < 1.0
