"""Reads replies that were had elsewhere: output and error files of OpenAI, results of Anthropic, and plain texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judges.lm import LMReply
from judges.redact import hide_values, redact
from labeled_traces.files import parse_json, read_lines
from labeled_traces.trace import TraceError

ACCEPTED = (
    '{"custom_id", "response": {"status_code", "body"}, "error"} as OpenAI writes it, {"custom_id", "result"} as '
    'Anthropic does, or {"custom_id", "text"}'
)
_TOO_MANY = 10**9
_STOPS = {"max_tokens": "length", "refusal": "content_filter"}
"""Anthropic's words for why a reply ended, where they say more than that it did."""


@dataclass(frozen=True)
class Found:
    """A reply of a file, and where it stands. `batch`: a provider's batch API gave it, at its price for batches.
    `written`: tokens of the prompt that were put into the provider's cache."""

    reply: LMReply
    where: str
    batch: bool
    written: int = 0


@dataclass
class Replies:
    """`found`: custom id -> its first reply. `errors`: custom id -> what became of it instead. `malformed`: what is
    wrong with lines that are no reply. `repeated`: replies beyond the first."""

    found: dict[str, Found] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    malformed: list[str] = field(default_factory=list)
    repeated: int = 0


def read_replies(paths: Sequence[Path]) -> Replies:
    """In any order, complete or not, repeated or not.

    Raises:
        TraceError: a file that cannot be read.
    """
    replies = Replies()
    for path in paths:
        for number, line in read_lines(path, lambda error: replies.malformed.append(str(error))):
            where = f"{path}, line {number}"
            try:
                _read(parse_json(line, where), where, replies)
            except (TraceError, _NoReply) as error:
                replies.malformed.append(str(error))
    return replies


class _NoReply(ValueError):
    pass


def _read(row: Any, where: str, replies: Replies) -> None:
    if not isinstance(row, Mapping) or not isinstance(name := row.get("custom_id"), str) or not name:
        raise _NoReply(f"{where}: no custom_id: accepted is a line {ACCEPTED}")
    if isinstance(row.get("text"), str):
        ended: LMReply | str = _plain(row, where)
    elif isinstance(result := row.get("result"), Mapping):
        ended = _of_anthropic(result, where)
    elif isinstance(row.get("response"), Mapping) or isinstance(row.get("error"), Mapping):
        ended = _of_openai(row.get("response"), row.get("error"), where)
    else:
        raise _NoReply(f"{where}: no reply to {name}: accepted is a line {ACCEPTED}")
    if isinstance(ended, str):
        replies.errors[name] = ended
    elif name in replies.found:
        replies.repeated += 1
    else:
        replies.found[name] = Found(ended, where, "text" not in row, min(_written(row), ended.prompt_tokens))


def _plain(row: Mapping[str, Any], where: str) -> LMReply:
    usage, cost = row.get("usage"), row.get("cost")
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < 1e9):
        raise _NoReply(f"{where}: cost is {cost!r}: accepted is a number of dollars from 0")
    return _reply(row["text"], row.get("finish_reason"), usage, cost)


def _of_openai(response: Any, error: Any, where: str) -> LMReply | str:
    """The reply, or the kind of error."""
    body: Any = response.get("body") if isinstance(response, Mapping) else None
    status = response.get("status_code") if isinstance(response, Mapping) else None
    if isinstance(error, Mapping) or status != 200:
        inner = body.get("error") if isinstance(body, Mapping) else None
        said = [_kind(one) for one in (error, inner) if isinstance(one, Mapping)]
        return " ".join([*([f"HTTP {status}"] if status is not None else []), *said]) or "error"
    try:
        choice = body["choices"][0]
        message = choice["message"]
        return _reply(message.get("content") or message.get("refusal"), choice.get("finish_reason"), body.get("usage"))
    except (TypeError, LookupError, AttributeError):
        raise _NoReply(f"{where}: status 200, and the body is no chat completion") from None


def _of_anthropic(result: Mapping[str, Any], where: str) -> LMReply | str:
    """The reply, or the kind of error."""
    if result.get("type") != "succeeded":
        error = result.get("error")
        inner = error.get("error", error) if isinstance(error, Mapping) else {}
        return " ".join([str(result.get("type")), *([_kind(inner)] if inner else [])])
    try:
        message = result["message"]
        parts = [
            part["text"] if part["type"] == "text" else json.dumps(part["input"])
            for part in message["content"]
            # A reply that is bound to a schema comes as the arguments of a tool in older models.
            if part["type"] in ("text", "tool_use")
        ]
        told = message.get("usage") or {}
        cached = _count(told.get("cache_read_input_tokens"))
        prompt = sum(_count(told.get(name)) for name in ("input_tokens", "cache_creation_input_tokens")) + cached
        usage = {"prompt_tokens": prompt, "completion_tokens": told.get("output_tokens")}
        reason = str(message.get("stop_reason"))
        return _reply(
            "".join(parts), _STOPS.get(reason, "stop"), {**usage, "prompt_tokens_details": {"cached_tokens": cached}}
        )
    except (TypeError, LookupError, AttributeError):
        raise _NoReply(f"{where}: succeeded, and there is no message as Anthropic writes it") from None


def _written(row: Mapping[str, Any]) -> int:
    message = row["result"].get("message") if isinstance(row.get("result"), Mapping) else None
    usage = message.get("usage") if isinstance(message, Mapping) else None
    return _count(usage.get("cache_creation_input_tokens")) if isinstance(usage, Mapping) else 0


def _reply(text: Any, finish_reason: Any, usage: Any, cost: float | None = None) -> LMReply:
    usage = usage if isinstance(usage, Mapping) else {}
    prompt, completion = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    return LMReply(
        # Some systems show what they were sent: a key must not get from there into files.
        text=hide_values(str(text or "")),
        finish_reason=str(finish_reason or "stop"),
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=min(prompt, _detail(usage, "prompt_tokens_details", "cached_tokens")),
        reasoning_tokens=min(completion, _detail(usage, "completion_tokens_details", "reasoning_tokens")),
        cost=None if cost is None else float(cost),
    )


def _detail(usage: Mapping[str, Any], group: str, name: str) -> int:
    details = usage.get(group)
    return _count(details.get(name)) if isinstance(details, Mapping) else 0


def _count(tokens: Any) -> int:
    """What was counted; 0 where that is missing or cannot be true."""
    return tokens if isinstance(tokens, int) and 0 < tokens < _TOO_MANY else 0


def _kind(error: Mapping[str, Any]) -> str:
    """A provider's short name of an error, else the beginning of its message."""
    return redact(str(error.get("code") or error.get("type") or error.get("message") or "error"))[:80]
