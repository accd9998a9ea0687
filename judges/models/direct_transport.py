"""The short way to a model: one POST to an endpoint that speaks OpenAI's protocol, at a tenth of LiteLLM's CPU."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from judges.lm import JudgeError, LMRequest
from judges.models.transport import Answer, ProviderError, messages_of, sendable
from judges.redact import is_base_url, redact_url

if TYPE_CHECKING:
    import aiohttp

OPENAI = "https://api.openai.com/v1"
MOST_BYTES = 16 * 2**20
"""Of a reply's body. No model writes so much; who sends more would fill the memory, as often as there are calls."""


class DirectTransport:
    """A Transport for models named openai/..., with an endpoint or without.

    As in OpenAI's own clients, the environment holds the key (OPENAI_API_KEY; with an endpoint of one's own it may be
    missing), the base URL (OPENAI_BASE_URL or OPENAI_API_BASE), organization and project (OPENAI_ORGANIZATION or
    OPENAI_ORG_ID, OPENAI_PROJECT or OPENAI_PROJECT_ID) and proxies. No redirect is followed: keys and traces go where
    the user said.
    """

    prefix = "openai/"
    finds_proxies = True

    def __init__(self) -> None:
        self._proxies: dict[tuple[str, str], str | None] = {}

    def takes(self, request: LMRequest) -> bool:
        """See `Transport.takes`: not the models of OpenAI that have no chat completions; LiteLLM knows another way."""
        return request.model.startswith(self.prefix) and (
            bool(request.endpoint) or _chats(request.model.removeprefix(self.prefix))
        )

    def marks(self, model: str) -> bool:  # noqa: ARG002
        """See `Transport.marks`: OpenAI's protocol has none."""
        return False

    async def send(self, request: LMRequest, arguments: Mapping[str, Any], session: aiohttp.ClientSession) -> Answer:
        """See `Transport.send`."""
        import aiohttp

        model = request.model.removeprefix(self.prefix)
        body = json.dumps({"model": model, "messages": messages_of(request), **arguments}, ensure_ascii=False)
        url = f"{_base(request.endpoint).rstrip('/')}/chat/completions"
        parts = urlsplit(url)
        host = parts.scheme, parts.netloc
        if host not in self._proxies:
            self._proxies[host] = _proxy(*host)
        async with session.post(
            url,
            data=sendable(body).encode(),
            headers=_headers(request.endpoint),
            proxy=self._proxies[host],
            allow_redirects=False,
            timeout=_no_timeout(aiohttp),
        ) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            content = await _body(response, headers)
        if response.status >= 300:
            raise _error(response.status, content, headers)
        return Answer(_decoded(content), headers)


async def _body(response: aiohttp.ClientResponse, headers: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise ProviderError(502, f"the reply is longer than {MOST_BYTES:,} bytes", None, headers)
    return b"".join(parts)


def _base(endpoint: str) -> str:
    """
    Raises:
        JudgeError: what the environment says is no base URL.
    """
    if endpoint:
        return endpoint
    base = (os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE") or OPENAI).strip()
    if not is_base_url(base):
        raise JudgeError(
            f"OPENAI_BASE_URL or OPENAI_API_BASE of the environment ({redact_url(base) or 'without a host'}) is no "
            "base URL: accepted is one without user, password and parameters, such as http://127.0.0.1:8000/v1"
        )
    return base


def _headers(endpoint: str) -> dict[str, str]:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key and not endpoint:
        raise ProviderError(401, "missing credentials: OPENAI_API_KEY is not in the environment", None, {})
    headers = {"Authorization": f"Bearer {key or 'none'}", "Content-Type": "application/json"}
    names_of = {"Authorization": "OPENAI_API_KEY"}
    for header, names in (
        ("OpenAI-Organization", ("OPENAI_ORGANIZATION", "OPENAI_ORG_ID")),
        ("OpenAI-Project", ("OPENAI_PROJECT", "OPENAI_PROJECT_ID")),
    ):
        if found := [(value, name) for name in names if (value := os.environ.get(name, "").strip())]:
            headers[header], names_of[header] = found[0]
    for header, name in names_of.items():
        if not headers[header].isprintable():
            raise JudgeError(f"{name} of the environment holds a line break or another character that cannot be sent")
    return headers


def _proxy(scheme: str, host: str) -> str | None:
    """The environment's proxy for this host."""
    proxy = None if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(scheme)
    if proxy and "://" in proxy and urlsplit(proxy).scheme.lower() not in ("http", "https"):
        raise JudgeError(f"{scheme}_proxy of the environment ({redact_url(proxy)}): accepted is a proxy of HTTP")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


@cache
def _no_timeout(aiohttp: Any) -> Any:
    """The caller's clock holds for the whole attempt; the session's own would start anew with each byte."""
    return aiohttp.ClientTimeout(total=None)


@cache
def _chats(name: str) -> bool:
    from judges.models.litellm_transport import load_litellm

    known = load_litellm().model_cost.get(name, {})
    return "/" not in name and known.get("mode", "chat") == "chat"


def _error(status: int, content: bytes, headers: Mapping[str, str]) -> ProviderError:
    if 300 <= status < 400:
        target = redact_url(headers.get("location", ""))
        said = f"HTTP {status}: redirects{target and f' to {target}'}, which is not followed: name the endpoint itself"
        return ProviderError(status, said, None, headers)
    body = _decoded(content)
    if isinstance(body, Mapping):
        body = body["error"] if body.get("error") else body
    message = body.get("message") if isinstance(body, Mapping) else None
    return ProviderError(status, message if isinstance(message, str) and message else f"HTTP {status}", body, headers)


def _decoded(content: bytes) -> Any:
    """JSON, else the start of the text: enough to know a gateway's page by."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content[:2000].decode(errors="replace")
