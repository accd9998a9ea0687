"""Tests over real HTTP of what people read when a model fails or lets its callers wait."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from judges.lm import LMError, LMRequest, Message
from judges.models.client import ModelClient
from judges.models.failure import Failure
from judges.models.notes import Notes

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer

    Servers = type[ScriptedServer]

BUSY = Failure("provider_error", "slow down", retry=True, wait=45.0, status=429)


def ask(endpoint: str) -> LMRequest:
    return LMRequest("openai/x", (Message("user", "hello"),), endpoint=endpoint)


def test_a_wait_is_said_once_for_all_calls_of_a_model_and_again_after_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times = iter([0.0, 1.0, 2.0, 3.0, 31.0])
    notes = Notes(lambda: next(times))
    broken = Failure("provider_error", "boom", retry=True, status=500)
    request = ask("http://127.0.0.1:1/v1")
    for failure in (BUSY, BUSY, broken, broken, BUSY):
        notes.waits(request, failure, 2, 5)
    at = "openai/x at http://127.0.0.1:1/v1"
    assert caplog.messages == [
        f"{at}: the provider asks to wait 45 s (HTTP 429)",
        f"{at}: HTTP 500: boom, trying again (attempt 2 of 5)",
        f"{at}: the provider asks to wait 45 s (HTTP 429)",
    ]


def test_calls_that_are_tried_again_say_so(
    client: ModelClient, scripted_server: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    broken = scripted_server.error(500, "boom")
    with scripted_server(scripted_server.in_turn(broken, broken, "fine")) as server:
        assert asyncio.run(client.complete(server.request())).text == "fine"
    (note,) = (text for text in caplog.messages if "again" in text)
    assert "500" in note
    assert note.endswith("trying again (attempt 2 of 3)")


def test_where_nothing_listens_nothing_answers(client: ModelClient) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        with pytest.raises(LMError) as caught:
            asyncio.run(client.complete(ask(endpoint)))
    assert str(caught.value) == f"openai/x: nothing answers at {endpoint}"


def test_404_asks_for_the_base_url(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: scripted_server.error(404, "Not Found")) as server:
        for endpoint, hinted in ((server.endpoint, False), (server.endpoint.removesuffix("/v1"), True)):
            with pytest.raises(LMError, match="404") as caught:
                asyncio.run(client.complete(ask(endpoint)))
            assert str(caught.value).endswith("is the base URL right? OpenAI-compatible servers end in /v1") == hinted
