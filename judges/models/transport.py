"""What every way to a model does: it makes one attempt of a call, and gives the endpoint's own words back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from judges.lm import LMRequest, Message

if TYPE_CHECKING:
    import aiohttp


@dataclass(frozen=True)
class Answer:
    """`body`: a chat completion in OpenAI's shape, if the endpoint keeps to it; text where it is not even JSON. Names
    of `headers` are in lower case."""

    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


class ProviderError(Exception):
    """An answer that is none; `body` is what the endpoint says of it."""

    def __init__(self, status: int, message: str, body: Any, headers: Mapping[str, str]) -> None:
        super().__init__(message)
        self.status_code = status
        self.body = body
        self.headers = headers


class Transport(Protocol):
    """`prefix`: what a model's name begins with here, but not at its endpoint. `finds_proxies`: it looks for proxies in
    the environment itself."""

    prefix: str
    finds_proxies: bool

    def takes(self, request: LMRequest) -> bool:
        """Whether this is a way to the model of the request."""
        ...

    def marks(self, model: str) -> bool:
        """Whether what calls share is marked for the provider's cache."""
        ...

    async def send(self, request: LMRequest, arguments: Mapping[str, Any], session: aiohttp.ClientSession) -> Answer:
        """One attempt, without a time limit of its own; `arguments` are what `Form.arguments` made of the request.

        Raises:
            Exception: of any kind; `Failure.of` reads it.
        """
        ...


def messages_of(request: LMRequest, marked: bool = False) -> list[dict[str, Any]]:
    """The messages as OpenAI's protocol has them. `marked`: what other calls share is a part of its own that asks to be
    cached, as LiteLLM takes it for Anthropic's models."""
    return [{"role": message.role, "content": _content(message, marked)} for message in request.messages]


def _content(message: Message, marked: bool) -> str | list[dict[str, Any]]:
    shared, own = message.content[: message.shared], message.content[message.shared :]
    if not marked or not shared or not own:
        return sendable(message.content)
    mark = {"type": "text", "text": sendable(shared), "cache_control": {"type": "ephemeral"}}
    return [mark, {"type": "text", "text": sendable(own)}]


def sendable(text: str) -> str:
    """Surrogate halves cannot be sent as UTF-8: pairs become their character, lone ones U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
