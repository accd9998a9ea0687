"""Reads replies that were had elsewhere: output and error files of OpenAI, results of Anthropic, and plain texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from judges.ledger.budget import DEAREST
from judges.lm import LMReply
from judges.models.completion import count, part, read_completion, usage_of
from judges.models.failure import Failure
from judges.redact import redact
from labeled_traces.files import parse_json, read_lines
from labeled_traces.trace import TraceError

ACCEPTED = (
    '{"custom_id", "response": {"status_code", "body"}, "error"} as OpenAI writes it, {"custom_id", "result"} as '
    'Anthropic does, or {"custom_id", "text"}'
)
_STOPS = {"max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "content_filter"}
"""Anthropic's words for why a reply ended, where they say more than that it did."""

_SHOWN = 80


@dataclass(frozen=True)
class Found:
    """A reply of a file, and where it stands. `batch`: a provider's batch API gave it, at its price for batches.
    `usage`: what it says that it took, in OpenAI's words."""

    reply: LMReply
    where: str
    batch: bool
    usage: Mapping[str, Any]


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
        ended: Found | str = _plain(row, where)
    elif part(row, "result"):
        ended = _of_anthropic(part(row, "result"), where)
    elif part(row, "response") or part(row, "error"):
        ended = _of_openai(row, where)
    else:
        raise _NoReply(f"{where}: no reply to {shown(name)}: accepted is a line {ACCEPTED}")
    if isinstance(ended, str):
        replies.errors[name] = ended
    elif name in replies.found:
        replies.repeated += 1
    else:
        replies.found[name] = ended


def _plain(row: Mapping[str, Any], where: str) -> Found:
    cost = row.get("cost")
    if cost is not None and (isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost <= DEAREST):
        raise _NoReply(f"{where}: cost is {cost!r:.80}: accepted is a number of dollars from 0 to {DEAREST:,}")
    choice = {"message": {"content": row["text"]}, "finish_reason": row.get("finish_reason")}
    found = _found({"choices": [choice], "usage": row.get("usage")}, where, batch=False)
    return replace(found, reply=replace(found.reply, cost=None if cost is None else float(cost)))


def _of_openai(row: Mapping[str, Any], where: str) -> Found | str:
    """The reply, or the kind of error."""
    response, error = part(row, "response"), part(row, "error")
    status, body = response.get("status_code"), response.get("body")
    # Some write the status as text; and some gateways call an error of theirs a success.
    if error or str(status) != "200" or (part(body, "error") and not part(response, "body").get("choices")):
        said = [_kind(one) for one in (error, part(body, "error")) if one]
        return " ".join([*([f"HTTP {shown(status)}"] if status not in (None, 200) else []), *said]) or "error"
    return _found(body, where, batch=True)


def _of_anthropic(result: Mapping[str, Any], where: str) -> Found | str:
    """The reply, or the kind of error."""
    if result.get("type") != "succeeded":
        error = part(part(result, "error"), "error") or part(result, "error")
        return " ".join([shown(result.get("type")), *([_kind(error)] if error else [])])
    message = part(result, "message")
    told = part(message, "usage")
    blocks = message.get("content")
    if not isinstance(blocks, list):
        raise _NoReply(f"{where}: succeeded, and there is no message as Anthropic writes it")
    cached, written = (count(told.get(f"cache_{what}_input_tokens")) for what in ("read", "creation"))
    usage = {
        "prompt_tokens": count(told.get("input_tokens")) + cached + written,
        "completion_tokens": told.get("output_tokens"),
        "prompt_tokens_details": {"cached_tokens": cached, "cache_creation_tokens": written},
    }
    reason = str(message.get("stop_reason"))
    choice = {"message": {"content": "".join(map(_text, blocks))}, "finish_reason": _STOPS.get(reason, "stop")}
    return _found({"choices": [choice], "usage": usage}, where, batch=True)


def _text(block: Any) -> str:
    """A reply that is bound to a schema comes as the arguments of a tool in older models."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    said = {"text": block.get("text"), "tool_use": block.get("input")}.get(str(kind)) if kind else None
    return said if isinstance(said, str) else "" if said is None else json.dumps(said)


def _found(body: Any, where: str, *, batch: bool) -> Found:
    read = read_completion(body)
    if isinstance(read, Failure):
        raise _NoReply(f"{where}: {read.message}")
    return Found(read, where, batch, usage_of(body))


def _kind(error: Mapping[str, Any]) -> str:
    """A provider's short name of an error, else the beginning of its message."""
    return shown(redact(str(error.get("code") or error.get("type") or error.get("message") or "error")))


def shown(value: object) -> str:
    """What stands in a file of others, for a message: short, and without what would command a terminal."""
    text = str(value)[:_SHOWN]
    return text if text.isprintable() else repr(text)
