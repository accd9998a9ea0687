"""A judge on loopback of which a share of the replies is faulty, each in one of the ways that have been seen in use.

Which fault an attempt meets follows from the seed, its request and how often that was sent before. The server keeps
its own account of what it answered. The fixture `faulty_server` is its class.
"""

from __future__ import annotations

import asyncio
import json
import random
import struct
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

from judges.ledger.budget import reserved_tokens
from judges.lm import LMRequest, Message

FAULTS = {
    "busy": 3,
    "busy, says when": 1,
    "broken": 3,
    "a gateway's": 2,
    "a page": 2,
    "reset before": 3,
    "reset amid": 3,
    "truncated": 3,
    "hang": 1,
    "no JSON": 2,
    "no choices": 2,
    "choices of another kind": 1,
    "content is a list": 1,
    "no usage": 2,
    "negative usage": 2,
    "usage in words": 1,
    "empty": 2,
    "null": 2,
    "all was reasoning": 3,
    "refusal": 3,
}
"""Name -> weight."""
ERRORS = {"busy": 429, "busy, says when": 429, "broken": 500, "a gateway's": 502}
FREE = frozenset({"busy", "busy, says when", "broken", "a page"})
"""Answered with an error, or not by a model: the only ones that cost nothing."""
TOLD = frozenset({"fine", "negative usage", "empty", "null", "all was reasoning", "refusal"})
"""Their usage is told, if only half of it; all others may be on the bill in full."""
SCORED = frozenset({"fine", "no usage", "negative usage", "usage in words"})


@dataclass(frozen=True)
class Served:
    """One attempt: the fault, the usage that was told (None: that half was not), the most it can have taken."""

    fault: str
    score: int
    told: tuple[int | None, int | None]
    most: tuple[int, int]

    @property
    def charged(self) -> tuple[int, int]:
        """Prompt and completion tokens by the rule of `LedgerLM`."""
        if self.fault in FREE:
            return 0, 0
        prompt, completion = (most if told is None else told for told, most in zip(self.told, self.most, strict=True))
        return prompt, completion


class FaultyServer:
    """`with FaultyServer(seed) as server:` answers at `server.endpoint`, and keeps `server.served`."""

    faults = frozenset(FAULTS)
    scored = SCORED
    replied = TOLD | SCORED

    def __init__(self, seed: int = 0, share: float = 0.3) -> None:
        self.served: list[Served] = []
        self._seed, self._share = seed, share
        self._times: Counter[bytes] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.endpoint = ""

    def __enter__(self) -> FaultyServer:
        self._thread.start()
        start = asyncio.start_server(self._connection, "127.0.0.1", 0, limit=2**22)
        self._server = asyncio.run_coroutine_threadsafe(start, self._loop).result()
        self.endpoint = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._one(reader, writer):
                pass
        # A client that goes away (after a timeout it does) is no news.
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection goes on."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = await reader.readexactly(int(head.split("content-length:")[1].split("\r\n")[0]))
        served, answer = self._serve(body)
        self.served.append(served)
        fault = served.fault
        if fault == "hang":
            await reader.read()
            return False
        if fault == "reset before":
            return _reset(writer)
        if fault == "a page":
            await _send(writer, 200, b"<!DOCTYPE html><title>Log in</title>", kind="text/html")
            return True
        if fault in ERRORS:
            after = "Retry-After: 0\r\n" if "when" in fault else ""
            await _send(writer, ERRORS[fault], b'{"error": {"message": "not now", "type": "x"}}', after)
            return True
        text = b'{"choices": [' if fault == "no JSON" else json.dumps(answer).encode()
        if fault in ("reset amid", "truncated"):
            await _send(writer, 200, text[: len(text) // 2], length=len(text))
            return _reset(writer) if fault == "reset amid" else False
        await _send(writer, 200, text)
        return True

    def _serve(self, body: bytes) -> tuple[Served, dict[str, Any]]:
        luck = random.Random(f"{self._seed} {self._times[body]} {body!r}")
        self._times[body] += 1
        fault = "fine"
        if luck.random() < self._share:
            (fault,) = luck.choices(list(FAULTS), list(FAULTS.values()))
        # Never 0: a judgment of 0 is a failure that became a score.
        score = luck.randint(1, 3)
        usage = luck.randint(100, 2000), luck.randint(10, 90)
        told: tuple[int | None, int | None] = usage if fault in TOLD else (None, None)
        if fault == "negative usage":
            told = (None, usage[1])
        return Served(fault, score, told, _most(json.loads(body))), _completion(fault, score, usage)


def _most(body: Mapping[str, Any]) -> tuple[int, int]:
    messages = tuple(Message(message["role"], message["content"]) for message in body["messages"])
    schema = body["response_format"]["json_schema"]["schema"]
    return reserved_tokens(LMRequest(body["model"], messages, max_tokens=body["max_tokens"], schema=schema))


def _completion(fault: str, score: int, usage: tuple[int, int]) -> dict[str, Any]:
    said: Any = json.dumps({"rationale": "As told.", "findings": [], "score": str(score)})
    message: dict[str, Any] = {"role": "assistant", "content": said}
    reason = "stop"
    if fault == "content is a list":
        message["content"] = [{"type": "image", "image": said}]
    elif fault == "empty":
        message["content"] = ""
    elif fault == "null":
        message["content"] = None
    elif fault == "refusal":
        message |= {"content": None, "refusal": "I can't help with that."}
    elif fault == "all was reasoning":
        message |= {"content": None, "reasoning_content": "First, let me"}
        reason = "length"
    told: Any = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    if fault == "all was reasoning":
        told["completion_tokens_details"] = {"reasoning_tokens": usage[1]}
    elif fault == "negative usage":
        told["prompt_tokens"] = -usage[0]
    elif fault == "usage in words":
        told = {"prompt_tokens": "many", "completion_tokens": "some"}
    choices: Any = [{"index": 0, "message": message, "finish_reason": reason}]
    answer: dict[str, Any] = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": choices}
    if fault == "no choices":
        del answer["choices"]
    elif fault == "choices of another kind":
        answer["choices"] = ["a text"]
    return answer if fault == "no usage" else {**answer, "usage": told}


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    headers: str = "",
    length: int | None = None,
    kind: str = "application/json",
) -> None:
    size = len(body) if length is None else length
    head = f"HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\n{headers}Content-Length: {size}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> bool:
    """Lets the connection break instead of ending it."""
    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False
