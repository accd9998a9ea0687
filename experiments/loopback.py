"""A chat server on loopback in a process of its own: a fixed latency, a valid judge reply, its own count of requests.

with Loopback(latency=0.1) as server:
    ...  # model "openai/judge", endpoint server.endpoint
    server.count()
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from pipeline.commands.arguments import amount

_FINDING = {
    "explanation": "The step does what the one before has done already, and nothing has changed in between.",
    "evidence": "the same call with the same arguments",
    "severity": "LOW",
    "confidence": 70,
}
_WHY = "Each step was read against the task. All but one follow from what was known at that point. " * 3


@dataclass(frozen=True)
class Count:
    """What a server has seen since the last count. `prompts` is one hash of the set of prompts that it was sent."""

    requests: int
    most_in_flight: int
    prompt_bytes: int
    prompts: str


class Loopback:
    """`latency` is in seconds, from a request's arrival to its answer."""

    def __init__(self, latency: float) -> None:
        command = [sys.executable, "-m", "experiments.loopback", str(latency)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        port = self._process.stdout.readline().strip()
        self.endpoint = f"http://127.0.0.1:{port}/v1"

    def __enter__(self) -> Loopback:
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.terminate()

    def count(self) -> Count:
        """Since the last call of `count`."""
        with urllib.request.urlopen(self.endpoint + "/count") as answer:
            return Count(**json.load(answer))


class _Server:
    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._in_flight = 0
        self._start()

    def _start(self) -> None:
        # Kept as they came: whatever is done with them later takes no time from a run.
        self._bodies: list[bytes] = []
        self._most = 0

    async def chat(self, request: web.Request) -> web.Response:
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        body = await request.read()
        self._bodies.append(body)
        self._in_flight += 1
        self._most = max(self._most, self._in_flight)
        answer = _answer(body)
        await asyncio.sleep(arrived + self._latency - loop.time())
        self._in_flight -= 1
        return web.Response(body=answer, content_type="application/json")

    async def count(self, _: web.Request) -> web.Response:
        prompts = {_prompt(body) for body in self._bodies}
        digest = hashlib.sha256("".join(sorted(prompts)).encode()).hexdigest()[:16]
        seen = {"requests": len(self._bodies), "most_in_flight": self._most, "prompts": digest}
        seen["prompt_bytes"] = sum(map(len, self._bodies))
        self._start()
        return web.json_response(seen)


def _prompt(body: bytes) -> str:
    messages = [[message["role"], message["content"]] for message in json.loads(body)["messages"]]
    return hashlib.sha256(json.dumps(messages).encode()).hexdigest()


def _answer(body: bytes) -> bytes:
    """A completion that cites a span of the trace in the prompt, in the layout that the prompt asks for."""
    cited = re.search(rb"@span ([\w.:-]+) kind", body)
    finding = {"span_ids": [cited[1].decode()] if cited else [], **_FINDING}
    verdict: dict[str, Any] = {"rationale": _WHY, "findings": [finding], "score": 2}
    if b"- result (Literal" in body:
        verdict = {"rationale": f"{_WHY}\n{json.dumps({'findings': [finding]})}", "result": "2"}
    text = json.dumps(verdict)
    prompt_tokens, completion_tokens = len(body) // 4, len(text) // 4
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "judge",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": completion_tokens,
                "total_tokens": prompt_tokens + completion_tokens,
            },
        }
    ).encode()


async def _serve(latency: float) -> None:
    server = _Server(latency)
    app = web.Application(client_max_size=2**30)
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_get("/v1/count", server.count)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    # Its end is the end of whoever started this.
    await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.loopback",
        description="A chat server on loopback: prints its port, and ends with its standard input.",
    )
    parser.add_argument("latency", type=amount, metavar="SECONDS", help="from a request to its answer, from 0")
    asyncio.run(_serve(parser.parse_args().latency))


if __name__ == "__main__":
    main()
