"""Tests of the client over real HTTP: what is sent, what is read, what it costs."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.budget import Price, Usage, reserved_tokens
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.lm import JudgeError, LMError, LMReply, LMRequest, Message
from judges.models.client import ModelClient
from judges.models.limits import Limits
from judges.models.litellm_transport import load_litellm

if TYPE_CHECKING:
    from tests.judges.conftest import NewClient
    from tests.judges.scripted_server import ScriptedServer

    Servers = type[ScriptedServer]


def ask(client: ModelClient, request: LMRequest) -> LMReply:
    return asyncio.run(client.complete(request))


def test_a_reply(client: ModelClient, scripted_server: Servers, key: str) -> None:
    with scripted_server(lambda _: "three") as server:
        reply = ask(client, server.request(seed=7))
    assert replace(reply, sent="") == LMReply("three", "stop", prompt_tokens=100, completion_tokens=20, cost=None)
    (received,) = server.requests
    assert received.path == "/v1/chat/completions"
    assert received.headers["authorization"] == f"Bearer {key}"
    assert received.body["temperature"] == 0.7
    assert received.body["max_tokens"] == 50
    assert received.body["seed"] == 7
    assert "response_format" not in received.body
    assert received.body["messages"][0] == {"role": "system", "content": "Be strict."}


def test_text_arrives_as_it_was_sent(client: ModelClient, scripted_server: Servers) -> None:
    text = 'Judge {this} {{and}} ✓ 日本 \x00 "quoted" \u2028'
    with scripted_server(lambda body: body["messages"][0]["content"]) as server:
        reply = ask(client, server.request(messages=(Message("user", text),)))
    assert reply.text == text


def test_a_lone_surrogate_in_the_prompt_is_no_crash(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: "fine") as server:
        assert ask(client, server.request(messages=(Message("user", "a\ud83db"),))).text == "fine"


def test_null_content_that_was_cut_is_an_empty_reply_with_its_reason(
    client: ModelClient, scripted_server: Servers
) -> None:
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat(None, "length"))) as server:
        reply = ask(client, server.request())
    assert (reply.text, reply.finish_reason, reply.completion_tokens) == ("", "length", 20)


def test_cut_text_keeps_its_reason(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat('{"sco', "length"))) as server:
        reply = ask(client, server.request())
    assert (reply.text, reply.finish_reason) == ('{"sco', "length")


def test_cached_tokens_are_read(client: ModelClient, scripted_server: Servers) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "total_tokens": 105,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat("x", usage=usage))) as server:
        reply = ask(client, server.request())
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens) == (100, 5, 64)


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        (None, (0, 0)),
        ({"completion_tokens": 20}, (0, 20)),
        ({"prompt_tokens": 100}, (100, 0)),
        ({"prompt_tokens": None, "completion_tokens": None}, (0, 0)),
        ({"prompt_tokens": -5000, "completion_tokens": 20}, (0, 20)),
        ({"prompt_tokens": 100, "completion_tokens": -10}, (100, 0)),
        ({"prompt_tokens": 100, "completion_tokens": 10**30}, (100, 0)),
    ],
)
def test_usage_that_is_missing_or_cannot_be_is_zero_tokens_and_has_no_cost(
    new_client: NewClient, scripted_server: Servers, usage: dict[str, int | None] | None, told: tuple[int, int]
) -> None:
    client = new_client(prices={"openai/any-model": Price(input=2.0, output=10.0)})
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat("x", usage=usage))) as server:
        reply = ask(client, server.request())
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.cost) == ("x", *told, None)


@pytest.mark.parametrize("cached", [-5000, 5000])
def test_a_cache_that_cannot_be_changes_no_cost(client: ModelClient, scripted_server: Servers, cached: int) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": cached}}
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat("x", usage=usage))) as server:
        reply = ask(client, server.request(model="openai/gpt-4o-mini"))
    assert reply.cost == pytest.approx(1000 * 0.15e-6 + 100 * 0.6e-6)
    assert reply.cached_tokens == 0


def test_no_text_takes_more_tokens_than_are_reserved() -> None:
    """Against a real tokenizer: text of which a token is little more than a byte."""
    luck = random.Random(0)
    texts = (
        " ".join(str(luck.randrange(10)) for _ in range(500)),
        json.dumps([str(uuid.UUID(int=luck.getrandbits(128))) for _ in range(50)]),
        base64.b64encode(luck.randbytes(1000)).decode(),
        "".join(chr(luck.randrange(0x1F300, 0x1F6FF)) for _ in range(200)),
        "".join(chr(luck.randrange(32)) for _ in range(500)),
    )
    for text in texts:
        taken = len(load_litellm().encoding.encode(text, disallowed_special=()))
        assert taken <= reserved_tokens(LMRequest("m", (Message("user", text),)))[0]


def test_a_refusal_field_is_the_text(client: ModelClient, scripted_server: Servers) -> None:
    body = scripted_server.chat(None)
    body["choices"][0]["message"]["refusal"] = "I can't help with that."
    with scripted_server(lambda _: scripted_server.answer(body=body)) as server:
        assert ask(client, server.request()).text == "I can't help with that."


@pytest.mark.parametrize(
    "endpoint",
    [
        "ftp://127.0.0.1/v1",
        "127.0.0.1:8000",
        "http://",
        "http://user:pass-word-1@127.0.0.1/v1",
        "http://127.0.0.1/v1?api_key=pass-word-1",
        "http://127.0.0.1/v1#pass-word-1",
        "http://[pass-word-1",
        "not a url",
    ],
)
def test_an_endpoint_that_cannot_be(client: ModelClient, scripted_server: Servers, endpoint: str) -> None:
    with scripted_server(lambda _: "x") as server, pytest.raises(JudgeError, match="accepted is a base URL") as caught:
        ask(client, server.request(endpoint=endpoint))
    assert "pass-word-1" not in str(caught.value)


def test_a_key_that_is_echoed_is_not_in_the_reply(client: ModelClient, scripted_server: Servers, key: str) -> None:
    with scripted_server(lambda _: f"hf_hub_download was called with {key}.") as server:
        assert ask(client, server.request()).text == "hf_hub_download was called with [hidden]."


def test_a_local_server_needs_no_key(
    client: ModelClient, scripted_server: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with scripted_server(lambda _: "fine") as server:
        assert ask(client, server.request()).text == "fine"


def test_cost_by_the_users_price(new_client: NewClient, scripted_server: Servers) -> None:
    client = new_client(prices={"openai/any-model": Price(input=2.0, output=10.0)})
    with scripted_server(lambda _: "x") as server:
        assert ask(client, server.request()).cost == pytest.approx((100 * 2.0 + 20 * 10.0) / 1e6)


def test_cost_by_litellms_table_counts_cached_tokens(client: ModelClient, scripted_server: Servers) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
    cached = {**usage, "prompt_tokens_details": {"cached_tokens": 800}}
    answers = [scripted_server.answer(body=scripted_server.chat("x", usage=counts)) for counts in (usage, cached)]
    with scripted_server(scripted_server.in_turn(*answers)) as server:
        full = ask(client, server.request(model="openai/gpt-4o-mini"))
        less = ask(client, server.request(model="openai/gpt-4o-mini"))
    assert full.cost == pytest.approx(1000 * 0.15e-6 + 100 * 0.6e-6)
    assert full.cost == pytest.approx(client.cost_of(server.request(model="openai/gpt-4o-mini"), 1000, 100))
    assert less.cost == pytest.approx(200 * 0.15e-6 + 800 * 0.075e-6 + 100 * 0.6e-6)


@pytest.mark.parametrize("model", ["openai/any-model", "any-model", "ollama/llama3", ""])
def test_an_unknown_price_is_none(client: ModelClient, model: str) -> None:
    assert client.cost_of(LMRequest(model, ()), 1000, 100) is None


def test_nothing_is_printed_and_no_warning_shows(scripted_server: Servers, key: str) -> None:
    """In a process of its own: what a user would see."""
    code = """
import asyncio, sys
from judges.models.client import ModelClient
from judges.models.limits import Limits
from judges.lm import LMError, LMRequest, Message
client = ModelClient(timeout=5.0, retries=0)
for i in range(int(sys.argv[2])):
    try:
        asyncio.run(client.complete(LMRequest("openai/any-model", (Message("user", str(i)),), endpoint=sys.argv[1])))
    except LMError as error:
        print(error.kind)
print("end")
"""
    body = scripted_server.chat({"text": "an object"})
    answers = scripted_server.in_turn(
        "fine", scripted_server.error(500, "boom"), scripted_server.answer(body=body), "fine"
    )
    with scripted_server(answers) as server:
        run = subprocess.run(
            [sys.executable, "-W", "always", "-W", "ignore::DeprecationWarning", "-c", code, server.endpoint, "4"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "OPENAI_API_KEY": key},
            timeout=60,
            check=True,
        )
    assert run.stdout.split() == ["provider_error", "provider_error", "end"]
    assert run.stderr == ""
    assert json.loads(json.dumps(server.bodies[-1]))["messages"][0]["content"] == "3"


def test_what_was_sent_is_told(client: ModelClient, scripted_server: Servers, key: str) -> None:
    def script(body: dict[str, Any]) -> Any:
        refused = "temperature" in body or "max_tokens" in body
        message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        message = "Unsupported value: 'temperature'" if "temperature" in body else message
        return scripted_server.error(400, message) if refused else "{}"

    with scripted_server(script) as server:
        reply = ask(client, server.request(schema={"type": "object", "title": "verdict"}, seed=3))
        body = server.bodies[-1]
    sent = json.loads(reply.sent)
    digest = sent["response_format"].pop("schema_sha256")
    assert sent == {
        "model": sent["model"],
        "max_completion_tokens": 50,
        "seed": 3,
        "response_format": {"type": "json_schema", "name": "verdict"},
    }
    assert sent["model"].endswith(body["model"])
    assert len(digest) == 64
    assert sent.keys() == body.keys() - {"messages"}
    assert key not in reply.sent


def test_a_wait_that_the_provider_asks_for_holds_all_calls_once(client: ModelClient, scripted_server: Servers) -> None:
    """Of eight calls each waits as long as the first one that was turned away was told, and is sent once after it."""
    turned = scripted_server.error(429, "slow down", {"Retry-After": "0.5"})
    begun: list[float] = []

    def script(_: dict[str, Any]) -> Any:
        begun.append(time.monotonic())
        return turned if len(begun) == 1 else "fine"

    async def calls(server: ScriptedServer) -> list[LMReply]:
        first = asyncio.ensure_future(client.complete(server.request()))
        while not begun:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        others = [client.complete(server.request(repeat=number)) for number in range(1, 8)]
        return list(await asyncio.gather(first, *others))

    with scripted_server(script) as server:
        assert [reply.text for reply in asyncio.run(calls(server))] == ["fine"] * 8
    assert len(begun) == 9
    assert all(0.45 <= at - begun[0] < 3.0 for at in begun[1:])


def test_a_limit_of_requests_holds_over_http(new_client: NewClient, scripted_server: Servers) -> None:
    client = new_client(limits=Limits(rpm=600))

    async def calls(server: ScriptedServer) -> None:
        await asyncio.gather(*(client.complete(server.request(repeat=number)) for number in range(16)))

    with scripted_server(lambda _: "fine") as server:
        begun = time.monotonic()
        asyncio.run(calls(server))
        assert 0.55 <= time.monotonic() - begun < 3.0, "ten at once, then ten a second"


def test_a_call_ends_at_its_deadline(
    new_client: NewClient, scripted_server: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every attempt is in time, and so is every wait: only together they are too long."""
    client = new_client(timeout=5.0, retries=50, pause=0.1)
    monkeypatch.setattr(client, "deadline", 2.0)
    late = replace(scripted_server.error(500, "boom"), delay=0.2)
    with scripted_server(lambda _: late) as server:
        begun = time.monotonic()
        with pytest.raises(LMError, match="boom"):
            ask(client, server.request())
        assert time.monotonic() - begun < 4.0
        assert 2 <= len(server.requests) <= 7


def test_an_attempt_is_cut_at_the_deadline(
    new_client: NewClient, scripted_server: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = new_client(timeout=5.0, pause=0.01)
    monkeypatch.setattr(client, "deadline", 1.5)
    hang = scripted_server.answer(body="", delay=30.0)
    with scripted_server(scripted_server.in_turn(scripted_server.error(500, "boom"), hang)) as server:
        begun = time.monotonic()
        with pytest.raises(LMError, match="no reply within") as caught:
            ask(client, server.request())
        assert caught.value.kind == "timeout"
        assert time.monotonic() - begun < 4.0


@pytest.mark.parametrize("paced", [False, True])
def test_what_is_cancelled_before_it_is_sent_is_not_charged(
    tmp_path: Path, new_client: NewClient, scripted_server: Servers, paced: bool
) -> None:
    """One call hangs at the server; seven wait, for their turn or for their next attempt."""
    client = new_client(limits=Limits(rpm=1) if paced else None, pause=30.0)
    hang = scripted_server.answer(body="", delay=30.0)
    answers = scripted_server.in_turn(*[scripted_server.error(503, "busy")] * (0 if paced else 7), hang)

    async def cancelled(server: ScriptedServer, lm: LedgerLM) -> None:
        calls = [asyncio.ensure_future(lm.complete(server.request(repeat=number))) for number in range(8)]
        while len(server.requests) < (1 if paced else 8):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        for call in calls:
            call.cancel()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)

    with scripted_server(answers) as server:
        with LedgerLM(client, Ledger(tmp_path / "l"), "run") as lm:
            asyncio.run(cancelled(server, lm))
        with LedgerLM(client, Ledger(tmp_path / "l"), "run") as lm:
            assert lm.spent() == Usage(len(server.requests), sum(reserved_tokens(server.request())))
