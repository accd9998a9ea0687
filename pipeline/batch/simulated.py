"""The simulated model as a batch provider: it answers a file of calls at once, so that the whole way can be tried."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judges.lm import LMReply, LMRequest, Message
from labeled_traces.files import parse_json, read_lines


def request_of(row: dict[str, Any]) -> LMRequest:
    """The call of a line; the repeat stands in its custom id."""
    body = row["body"]
    schema = (body.get("response_format") or {}).get("json_schema") or {}
    return LMRequest(
        model=body["model"],
        messages=tuple(Message(message["role"], message["content"]) for message in body["messages"]),
        temperature=body["temperature"],
        max_tokens=body["max_tokens"],
        schema=schema.get("schema"),
        seed=body.get("seed"),
        repeat=int(row["custom_id"].rpartition("-")[2]),
    )


def answers(path: Path) -> Iterator[str]:
    """A line for every call of the file, as OpenAI's batch API answers it."""
    from judges.simulated_lm import SimulatedLM

    model = SimulatedLM()
    for number, line in read_lines(path):
        row = parse_json(line, f"{path}, line {number}")
        yield json.dumps(_line(row, asyncio.run(model.complete(request_of(row)))))


def _line(row: dict[str, Any], reply: LMReply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text}
    usage = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
    body = {
        "object": "chat.completion",
        "model": row["body"]["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish_reason}],
        "usage": {**usage, "total_tokens": reply.prompt_tokens + reply.completion_tokens},
    }
    return {"custom_id": row["custom_id"], "response": {"status_code": 200, "body": body}, "error": None}
