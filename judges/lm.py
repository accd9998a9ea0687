"""The one way to a language model: a request goes in, a reply comes out. Clients and the ledger implement `LM`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from labeled_traces.trace import text_hash


class JudgeError(ValueError):
    """A bad program, prompt or setting of a judge: raised before any call. Says what would be accepted."""


class LMError(RuntimeError):
    """A call that gave no reply. `kind` is one of `timeout`, `provider_error`, `too_long`.

    `billed`: the provider may charge for it all the same. Only its own answer can rule that out. `passing`: the same
    call may succeed later; else something has to be mended first (a name, a key).
    """

    def __init__(self, kind: str, message: str, billed: bool = True, passing: bool = True) -> None:
        super().__init__(message)
        self.kind = kind
        self.billed = billed
        self.passing = passing


class NotSent(asyncio.CancelledError):
    """A call was cancelled while it waited for its turn: there is nothing to charge."""


class ProviderDown(RuntimeError):
    """So many calls in a row have failed that no more are sent. Everything so far is saved. `now` as below."""

    now: Callable[[], str] | None = None


class BudgetExhausted(RuntimeError):
    """The next call would pass the cap; it was not sent. Everything so far is saved. `now` says it anew, with what is
    spent by then: calls in flight have ended since."""

    now: Callable[[], str] | None = None


@dataclass(frozen=True)
class Message:
    """`shared`: how many characters at the beginning stand in other calls as well, with all messages before: a hint for
    caches, and no part of what is sent."""

    role: str
    content: str
    shared: int = field(default=0, compare=False)


@dataclass(frozen=True)
class LMRequest:
    """Everything that is sent, and the repeat index. Two requests with equal fields are one call.

    `schema` is a JSON Schema for the reply, sent (under its title) where the endpoint takes one. `endpoint` is a base
    URL, or "" for the provider's own. `repeat` separates repeats of one prompt; where `seed` is set it is sent as well.
    """

    model: str
    messages: tuple[Message, ...]
    temperature: float = 0.0
    max_tokens: int = 2048
    schema: Mapping[str, Any] | None = None
    endpoint: str = ""
    seed: int | None = None
    repeat: int = 0

    @cached_property
    def key(self) -> str:
        """sha256 (hex) of all fields: the ledger's key."""
        # Not asdict, which copies the whole schema: a fifth of all time in a run with a model that answers at once.
        values = {own.name: getattr(self, own.name) for own in fields(self)}
        values["messages"] = [{"role": message.role, "content": message.content} for message in self.messages]
        return text_hash(json.dumps(values, sort_keys=True, ensure_ascii=True))


@dataclass(frozen=True)
class LMReply:
    """`cost` is in dollars, None where no price is known: unknown is not zero. Tokens are the provider's count, 0
    where it gave none that can be true; `cached_tokens` are among the prompt's, `reasoning_tokens` among the
    completion's. `sent` is what was sent beside the messages (the parameters as the endpoint took them), as JSON."""

    text: str
    finish_reason: str = "stop"
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    replayed: bool = False
    reasoning_tokens: int = 0
    sent: str = ""


class LM(Protocol):
    async def complete(self, request: LMRequest) -> LMReply:
        """One reply.

        Raises:
            LMError: no reply could be had (after the client's own retries).
            BudgetExhausted, ProviderDown: the call was not sent.
        """
        ...


@runtime_checkable
class RetryingLM(LM, Protocol):
    """An LM that tries again, and lets its caller pay for, or refuse, each attempt."""

    def attempts(self, request: LMRequest) -> AsyncGenerator[LMReply | LMError]:
        """How each attempt ended. An attempt is made when it is asked for; a reply is the last one.

        Yields:
            The reply, or the error of an attempt that may be followed by another.

        Raises:
            LMError: the last attempt failed.
        """
        ...
