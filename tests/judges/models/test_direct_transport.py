"""Tests of the direct way over real HTTP: what it takes from the environment, and where it does not go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from judges.lm import LMError, LMRequest, Message
from judges.models.client import ModelClient
from judges.models.direct_transport import DirectTransport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.judges.scripted_server import ScriptedServer

    Servers = type[ScriptedServer]

NAMES = ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENAI_PROJECT")
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture
def direct(key: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelClient]:
    assert key
    for name in (*NAMES, *PROXIES):
        monkeypatch.delenv(name, raising=False)
    client = ModelClient(timeout=5.0, retries=0, transports=[DirectTransport()])
    yield client
    client.close()


def ask(client: ModelClient, request: LMRequest) -> str:
    return asyncio.run(client.complete(request)).text


@pytest.mark.parametrize(
    ("model", "endpoint", "takes"),
    [
        ("openai/any-model", "http://127.0.0.1/v1", True),
        ("openai/org/model", "http://127.0.0.1/v1", True),
        ("openai/gpt-5-mini", "", True),
        ("openai/a-new-one", "", True),
        ("openai/o1-pro", "", False),
        ("openai/responses/gpt-5", "", False),
        ("gpt-5-mini", "", False),
        ("hosted_vllm/x", "http://127.0.0.1/v1", False),
        ("ollama/llama3", "", False),
        ("anthropic/claude-sonnet-4-5", "", False),
    ],
)
def test_which_models_it_takes(model: str, endpoint: str, takes: bool) -> None:
    assert DirectTransport().takes(LMRequest(model, (), endpoint=endpoint)) is takes


def test_organization_and_project_are_sent(
    direct: ModelClient, scripted_server: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT", "proj-1")
    with scripted_server(lambda _: "fine") as server:
        ask(direct, server.request())
        headers = server.requests[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_the_base_url_of_the_environment(
    direct: ModelClient, scripted_server: Servers, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with scripted_server(lambda _: "fine") as server:
        monkeypatch.setenv(name, f"{server.endpoint}/")
        assert ask(direct, server.request(endpoint="")) == "fine"
        assert server.requests[0].path == "/v1/chat/completions"


def test_a_proxy_of_the_environment_is_used_where_none_is_excepted(
    direct: ModelClient, scripted_server: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted_server(lambda _: "from the proxy") as proxy, scripted_server(lambda _: "straight") as server:
        monkeypatch.setenv("http_proxy", proxy.endpoint.removeprefix("http://").removesuffix("/v1"))
        assert ask(direct, server.request()) == "from the proxy"
        assert proxy.requests[0].path == f"{server.endpoint}/chat/completions"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with scripted_server(lambda _: "straight") as other:
        assert ask(direct, other.request()) == "straight"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(direct: ModelClient, scripted_server: Servers, key: str, status: int) -> None:
    with scripted_server(lambda _: "stolen") as other:
        target = f"{other.endpoint}/chat/completions?api_key={key}"
        moved = scripted_server.answer(status, "", {"Location": target})
        with scripted_server(lambda _: moved) as server, pytest.raises(LMError, match="is not followed") as caught:
            ask(direct, server.request())
        assert other.requests == []
    assert other.endpoint in str(caught.value)
    assert key not in str(caught.value)


async def against(answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any], client: ModelClient) -> None:
    """One call to a server that answers connections by hand."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        await client.complete(LMRequest("openai/m", (Message("user", "x"),), endpoint=f"http://127.0.0.1:{port}"))


def test_what_is_not_http_is_tried_again_and_told(direct: ModelClient) -> None:
    async def noise(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-x\r\n")
        writer.close()

    with pytest.raises(LMError, match=r"openai/m at http://127") as caught:
        asyncio.run(against(noise, direct))
    assert caught.value.passing


@pytest.mark.parametrize("nested", ["[" * 100_000, '{"choices": ' * 50_000])
def test_a_body_that_cannot_be_decoded_is_a_failure(direct: ModelClient, scripted_server: Servers, nested: str) -> None:
    with (
        scripted_server(lambda _: scripted_server.answer(body=nested)) as server,
        pytest.raises(LMError, match="the reply is a text, not an object"),
    ):
        ask(direct, server.request())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_BASE_URL", "nowhere"),
        ("OPENAI_BASE_URL", "ftp://127.0.0.1/v1"),
        ("OPENAI_API_BASE", "http://127.0.0.1:99999/v1"),
        ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1?api-key=hidden-12345678"),
        ("OPENAI_BASE_URL", "http://me:hidden-12345678@127.0.0.1:9/v1"),
        ("OPENAI_API_KEY", "sk-hidden-1234\nsk-hidden-5678"),
        ("OPENAI_PROJECT", "proj\r1"),
        ("http_proxy", "socks5://me:hidden-12345678@127.0.0.1:1"),
    ],
)
def test_an_environment_that_cannot_be_is_told_and_costs_nothing(
    direct: ModelClient, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    if name == "OPENAI_API_BASE":
        monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv(name, value)
    with pytest.raises(LMError, match=f"openai/m: .*{name}.* of the environment") as caught:
        ask(direct, LMRequest("openai/m", (Message("user", "x"),)))
    assert (caught.value.billed, caught.value.passing) == (False, False)
    assert "hidden-" not in str(caught.value)


def test_a_body_without_end_does_not_fill_the_memory(direct: ModelClient) -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b"100000\r\n%s\r\n" % (b"x" * 2**20))
                await writer.drain()

    with pytest.raises(LMError, match=r"the reply is longer than 16,777,216 bytes") as caught:
        asyncio.run(against(flood, direct))
    assert caught.value.billed
