"""Tests of connections that outlive their callers' event loops."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from typing import TYPE_CHECKING

import pytest

from judges.lm import JudgeError, LMReply, LMRequest
from judges.models.client import ModelClient

if TYPE_CHECKING:
    from tests.judges.conftest import NewClient
    from tests.judges.scripted_server import ScriptedServer

    Servers = type[ScriptedServer]


def ask(client: ModelClient, request: LMRequest) -> LMReply:
    return asyncio.run(client.complete(request))


def test_connections_outlive_event_loops_and_threads(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: "fine") as server:
        texts: list[str] = []

        def work() -> None:
            texts.extend(ask(client, server.request()).text for _ in range(5))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts == ["fine"] * 20


def test_a_cancelled_call_is_ended(client: ModelClient, scripted_server: Servers) -> None:
    async def cancelled(server: ScriptedServer) -> None:
        call = asyncio.create_task(client.complete(server.request()))
        while not server.bodies:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat("x"), delay=30.0)) as server:
        start = time.monotonic()
        asyncio.run(cancelled(server))
        assert time.monotonic() - start < 3.0


def test_clients_side_by_side_are_silent(
    new_client: NewClient, client: ModelClient, scripted_server: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    """LiteLLM keeps one background task a process, and forgets the one before."""
    with scripted_server(lambda _: "fine") as server:
        for _ in range(3):
            other = new_client(timeout=5.0)
            assert (ask(client, server.request()).text, ask(other, server.request()).text) == ("fine", "fine")
            gc.collect()
    assert caplog.records == []


def test_a_closed_client_says_so(new_client: NewClient, scripted_server: Servers) -> None:
    client = new_client()
    client.close()
    client.close()
    with scripted_server(lambda _: "x") as server, pytest.raises(JudgeError, match="closed"):
        ask(client, server.request())
