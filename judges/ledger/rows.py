"""What a call's row holds: the request in short or in full, and the reply."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from judges.lm import LMReply, LMRequest, Message
from judges.redact import redact_url

TRILLION = 10**12
"""Costs are whole trillionths of a dollar, so that their sums are exact."""


def trillionths(dollars: float) -> int:
    return round(dollars * TRILLION)


def as_stored(dollars: float) -> float:
    """A cost as the ledger will give it back: a run that is resumed adds up the same numbers as an unbroken one."""
    return trillionths(dollars) / TRILLION


def reply_values(reply: LMReply) -> tuple[Any, ...]:
    """In the order of `tables.REPLY`."""
    return (
        reply.text.encode("utf-8", "surrogatepass"),
        _storable(reply.finish_reason),
        reply.prompt_tokens,
        reply.completion_tokens,
        reply.cached_tokens,
        None if reply.cost is None else trillionths(reply.cost),
        reply.reasoning_tokens,
        _storable(reply.sent),
    )


def parse_reply(row: Sequence[Any]) -> LMReply | None:
    """The reply of a row, None where the row is damaged."""
    text, finish_reason, prompt_tokens, completion_tokens, cached_tokens, cost, reasoning_tokens, sent = row
    if not (isinstance(text, bytes | str) and isinstance(finish_reason, str)):
        return None
    try:
        return LMReply(
            text=_bytes(text).decode("utf-8", "surrogatepass"),
            finish_reason=_bytes(finish_reason).decode(),
            prompt_tokens=int(prompt_tokens),
            completion_tokens=int(completion_tokens),
            cached_tokens=int(cached_tokens),
            cost=None if cost is None else cost / TRILLION,
            replayed=True,
            # An old row has none.
            reasoning_tokens=int(reasoning_tokens or 0),
            sent=sent or "",
        )
    except (TypeError, ValueError):
        return None


def about(request: LMRequest) -> str:
    """A line for people: what kind of call this was. No message text, and nothing secret of the endpoint."""
    return json.dumps(
        {
            "model": request.model,
            "endpoint": _shown(request.endpoint),
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            "repeat": request.repeat,
            "characters": [len(message.content) for message in request.messages],
        }
    )


def pack(request: LMRequest) -> bytes:
    return gzip.compress(json.dumps(asdict(request)).encode())


def unpack(packed: bytes) -> LMRequest:
    return request_from(json.loads(gzip.decompress(packed)))


def request_from(fields: Mapping[str, Any]) -> LMRequest:
    """What `asdict` made of it."""
    return LMRequest(**{**fields, "messages": tuple(Message(**message) for message in fields["messages"])})


@lru_cache(maxsize=64)
def _shown(endpoint: str) -> str:
    return redact_url(endpoint)


def _bytes(value: bytes | str) -> bytes:
    """Text that is no text was read with `surrogateescape`."""
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")


def is_storable(text: str) -> bool:
    """Whether databases take a text as it is: neither NUL nor lone surrogates are in it."""
    return not any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text)


def _storable(text: str) -> str:
    """PostgreSQL's texts hold neither NUL nor lone surrogates, and in some encodings little but ASCII."""
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("ascii", "backslashreplace").decode().replace("\0", "\\0")
