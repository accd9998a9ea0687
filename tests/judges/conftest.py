"""Fixtures of the tests of models behind HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from judges.models.litellm_client import LiteLLMClient

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer

KEY = "sk-sentinel-0123456789abcdef"


@pytest.fixture(scope="session")
def one_client(scripted_server: type[ScriptedServer]) -> Iterator[LiteLLMClient]:
    """A client that has made a call: the first one loads much of LiteLLM, which no test's clock should count."""
    first = LiteLLMClient()
    with scripted_server(lambda _: "fine") as server:
        asyncio.run(first.complete(server.request()))
    first.close()
    client = LiteLLMClient(timeout=5.0, retries=2, pause=0.01)
    yield client
    client.close()


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The provider's key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


@pytest.fixture
def client(one_client: LiteLLMClient, key: str) -> LiteLLMClient:
    """One client for most tests: every server is another endpoint, so they do not disturb each other."""
    assert key
    return one_client
