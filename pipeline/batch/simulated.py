"""The simulated model as a batch provider: it answers a file of calls at once, so that the whole way can be tried."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judges.lm import LMError, LMReply, LMRequest, Message
from labeled_traces.files import parse_json, read_lines, read_text
from labeled_traces.trace import text_hash
from pipeline.batch.providers import Status


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


class Simulated:
    """See `Provider`: the batch has ended as soon as it is there, and its replies are made when they are asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def upload(self, _: Path, /) -> str:
        return "simulated"

    def create(self, path: Path, _: str, /) -> str:
        return f"simulated-{text_hash(read_text(path))[:8]}"

    def created(self, _file_id: str, _calls: int, _since: float, /) -> list[str]:
        return []

    def status(self, batch_id: str) -> Status:
        if batch_id != self.create(self._path, ""):
            raise LMError("provider_error", f"{self._path} has changed since {batch_id} was submitted")
        calls = sum(1 for _ in read_lines(self._path))
        return Status("completed", {"total": calls, "completed": calls, "failed": 0}, {"replies": batch_id})

    def content(self, _: str, /) -> bytes:
        return "".join(f"{line}\n" for line in answers(self._path)).encode()
