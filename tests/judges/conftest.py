"""Fixtures of the tests of models behind HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pytest

from judges.models.client import ModelClient
from judges.models.direct_transport import DirectTransport
from judges.models.litellm_transport import LiteLLMTransport
from judges.models.transport import Transport

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer

KEY = "sk-sentinel-0123456789abcdef"
NewClient: TypeAlias = Callable[..., ModelClient]


@pytest.fixture(scope="session", params=["direct", "litellm"])
def way(request: pytest.FixtureRequest) -> Transport:
    """What holds for one way to a model holds for the other."""
    return DirectTransport() if request.param == "direct" else LiteLLMTransport()


@pytest.fixture(scope="session")
def one_client(scripted_server: type[ScriptedServer], way: Transport) -> Iterator[ModelClient]:
    """A client that has made a call: the first one loads much of LiteLLM, which no test's clock should count."""
    first = ModelClient(transports=[way])
    with scripted_server(lambda _: "fine") as server:
        asyncio.run(first.complete(server.request()))
    first.close()
    client = ModelClient(timeout=5.0, retries=2, pause=0.01, transports=[way])
    yield client
    client.close()


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The provider's key in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


@pytest.fixture
def client(one_client: ModelClient, key: str) -> ModelClient:
    """One client for most tests: every server is another endpoint, so they do not disturb each other."""
    assert key
    return one_client


@pytest.fixture
def new_client(one_client: ModelClient, way: Transport) -> Iterator[NewClient]:
    """Makes clients with other settings, and closes them."""
    assert one_client
    clients: list[ModelClient] = []

    def new(**settings: object) -> ModelClient:
        clients.append(ModelClient(**{"timeout": 5.0, "transports": [way], **settings}))  # type: ignore[arg-type]
        return clients[-1]

    yield new
    for client in clients:
        client.close()
