"""What every way to a model does: it makes one attempt of a call, and gives the endpoint's own words back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from judges.lm import LMRequest

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
    """`prefix`: what a model's name begins with here, but not at its endpoint."""

    prefix: str

    def takes(self, request: LMRequest) -> bool:
        """Whether this is a way to the model of the request."""
        ...

    async def send(self, request: LMRequest, arguments: Mapping[str, Any], session: aiohttp.ClientSession) -> Answer:
        """One attempt, without a time limit of its own; `arguments` are what `Form.arguments` made of the request.

        Raises:
            Exception: of any kind; `Failure.of` reads it.
        """
        ...


def messages_of(request: LMRequest) -> list[dict[str, str]]:
    """The messages as OpenAI's protocol has them."""
    return [{"role": message.role, "content": sendable(message.content)} for message in request.messages]


def sendable(text: str) -> str:
    """Surrogate halves cannot be sent as UTF-8: pairs become their character, lone ones U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
