"""An OpenAI-compatible chat server on loopback whose answers a test writes: the fixture `scripted_server` is its class.

with scripted_server(lambda body: "the reply") as server:
    ...  # model "openai/any-model", endpoint server.endpoint
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from judges.lm import LMRequest, Message


@dataclass(frozen=True)
class Answer:
    """One HTTP answer. A `body` that is text is sent as it is. `delay` is in seconds, before the answer; `drip` is the
    pause after each byte of the body."""

    status: int = 200
    body: Mapping[str, Any] | str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drip: float = 0.0


@dataclass(frozen=True)
class Received:
    path: str
    headers: Mapping[str, str]  # names in lower case
    body: dict[str, Any]


Script: TypeAlias = Callable[[dict[str, Any]], "Answer | str"]
"""From the body of a chat request to an answer; text stands for a normal completion that says it."""


class ScriptedServer:
    """`with ScriptedServer(script) as server:` answers at `server.endpoint` and keeps `server.requests`.

    `script` runs in the thread of its request, so it may be called several times at once.
    """

    answer = Answer

    def __init__(self, script: Script) -> None:
        self.requests: list[Received] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        self._script = script
        self._closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # One packet an answer: two of them cost 40 ms of delayed acknowledgement.
            wbufsize = -1

            def do_POST(self) -> None:
                outer._handle(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_: Any) -> None:
                """A client that went away (timeouts do that) is no news."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of the chat requests so far, in order of arrival."""
        with self._lock:
            return [request.body for request in self.requests]

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def request(self, **changes: Any) -> LMRequest:
        """A request to this server; `changes` replace its fields."""
        request = LMRequest(
            model="openai/any-model",
            messages=(Message("system", "Be strict."), Message("user", "Judge {this} ✓")),
            temperature=0.7,
            max_tokens=50,
            endpoint=self.endpoint,
        )
        return replace(request, **changes)

    @property
    def formats(self) -> list[str]:
        """The reply formats that were asked for, in order of arrival."""
        return [body.get("response_format", {}).get("type", "text") for body in self.bodies]

    @staticmethod
    def in_turn(*answers: Answer | str) -> Script:
        """Answers in this order, the last one for ever."""
        left = list(answers)
        return lambda _: left.pop(0) if len(left) > 1 else left[0]

    @staticmethod
    def chat(content: Any, finish_reason: str = "stop", **changes: Any) -> dict[str, Any]:
        """A chat completion. `changes` replace top-level fields; `usage=None` leaves the usage out."""
        body: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "any-model",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish_reason}
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
            **changes,
        }
        return {name: value for name, value in body.items() if value is not None}

    @staticmethod
    def error(status: int, message: str, headers: Mapping[str, str] | None = None, **fields: Any) -> Answer:
        """An error in OpenAI's shape."""
        body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **fields}}
        return Answer(status, body, headers or {})

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            self.requests.append(
                Received(handler.path, {name.lower(): value for name, value in handler.headers.items()}, body)
            )
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            answer = self._script(body)
            if isinstance(answer, str):
                answer = Answer(body=self.chat(answer))
            if answer.delay:
                self._closing.wait(answer.delay)
            self._send(handler, answer)
        finally:
            with self._lock:
                self._at_once -= 1

    def _send(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        content = (answer.body if isinstance(answer.body, str) else json.dumps(answer.body)).encode()
        handler.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if not answer.drip:
            handler.wfile.write(content)
            return
        for byte in content:
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            if self._closing.wait(answer.drip):
                return
