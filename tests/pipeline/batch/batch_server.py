"""The batch APIs of OpenAI and Anthropic on loopback, as far as they are used: the fixture `batch_server`."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

STEPS = ("validating", "in_progress", "finalizing")
ENDED = ("completed", "failed", "expired", "cancelled")
"""What OpenAI tells of a batch before its end; each look moves it on."""


class BatchServer:
    """`with BatchServer() as server:` answers at `server.endpoint`.

    Every call is answered with `text`, but those whose number in the file is in `failing` (an error of theirs), and the
    second half of a batch that ends as `expired` or `cancelled`. `end` is how batches end. `hold`: a batch is created,
    and the answer that says so is kept back for ever; `drop`: the connection is closed
    instead. `full`: no batch is created. `refuse`: status and body for every request.
    """

    def __init__(self) -> None:
        self.end = "completed"
        self.text = '{"rationale": "fine", "findings": [], "score": 3}'
        self.failing: tuple[int, ...] = ()
        self.hold = self.drop = self.full = False
        self.refuse: tuple[int, str] | None = None
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.headers: list[Mapping[str, str]] = []  # names in lower case
        self.sent: list[dict[str, Any]] = []
        self._closing = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            # LiteLLM closes no connection that is kept alive, so none is.
            protocol_version = "HTTP/1.0"
            wbufsize = -1

            def do_GET(self) -> None:
                outer._handle(self, b"")

            def do_POST(self) -> None:
                outer._handle(self, self.rfile.read(int(self.headers["content-length"])))

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """A client that went away is no news."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> BatchServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def at(self, *options: str) -> tuple[str, ...]:
        """The model of the options of an evaluation, asked here."""
        return (*options[:2], "--endpoint", self.endpoint)

    @staticmethod
    def until_ended(batch: Callable[..., Any]) -> list[str]:
        """What `batch status` tells of the calls, until the batch has ended."""
        seen = []
        while (status := batch("status", "calls.jsonl")[0]["status"]) not in ENDED:
            seen.append(status)
        return [*seen, status]

    def _handle(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.headers.append({name.lower(): value for name, value in handler.headers.items()})
        path, _, query = handler.path.partition("?")
        path = path.removeprefix("/v1")
        values = dict(parse_qsl(query))
        after = values.get("after") or values.get("after_id") or ""
        status, answer = self.refuse or self._answer(handler.command, path, body, after)
        content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        if self.hold and handler.command == "POST" and path.endswith("batches"):
            self._closing.wait()
        if (self.hold or self.drop) and handler.command == "POST" and path.endswith("batches"):
            return
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _answer(self, method: str, path: str, body: bytes, after: str) -> tuple[int, Any]:
        match [method, *path.strip("/").split("/")]:
            case ["POST", "files"]:
                name = f"file-{len(self.files)}"
                # The part of the form that holds the file: between its empty line and the next boundary.
                boundary = body.split(b"\r\n")[0]
                part = next(part for part in body.split(boundary) if b'name="file"' in part)
                self.files[name] = part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")
                return 200, {
                    "id": name,
                    "object": "file",
                    "bytes": 1,
                    "created_at": 1,
                    "filename": "x",
                    "purpose": "batch",
                }
            case ["GET", "files", name, "content"] if name in self.files:
                return 200, self.files[name].decode()
            case ["POST", *_, "batches"] if self.full:
                return 429, {"error": {"message": "too many batches", "type": "rate_limit_error", "code": None}}
            case ["POST", "batches"]:
                return 200, self._openai(json.loads(body))
            case ["GET", "batches"]:
                return 200, self._page(after)
            case ["GET", "batches", name] if name in self.batches:
                return 200, self._look(self.batches[name])
            case ["POST", "messages", "batches"]:
                return 200, self._anthropic(json.loads(body)["requests"])
            case ["GET", "messages", "batches"]:
                return 200, self._page(after)
            case ["GET", "messages", "batches", name] if name in self.batches:
                batch = self.batches[name]
                calls = sum(batch["request_counts"].values())
                lost = len([number for number in self.failing if number < calls])
                counts = {"processing": 0, "succeeded": calls - lost, "errored": lost, "canceled": 0, "expired": 0}
                ended = {"processing_status": "ended", "results_url": "http://192.0.2.1/x", "request_counts": counts}
                self.batches[name] = {**batch, **ended}
                return 200, batch
            case ["GET", "messages", "batches", name, "results"] if name in self.files:
                return 200, self.files[name].decode()
        return 404, {"error": {"message": f"no {path}", "type": "not_found_error", "code": None}}

    def _page(self, after: str) -> dict[str, Any]:
        """Two batches from the newest on, whatever was asked for."""
        left = list(reversed(self.batches))
        left = left[left.index(after) + 1 :] if after else left
        data = [self.batches[name] for name in left[:2]]
        return {"object": "list", "data": data, "has_more": len(left) > 2, "last_id": data[-1]["id"] if data else None}

    def _openai(self, asked: dict[str, Any]) -> dict[str, Any]:
        rows = [json.loads(line) for line in self.files[asked["input_file_id"]].splitlines()]
        name = f"batch_{len(self.batches)}"
        self.sent += rows
        self.batches[name] = {
            "id": name, "object": "batch", "endpoint": asked["endpoint"], "status": STEPS[0],
            "created_at": int(time.time()),
            "input_file_id": asked["input_file_id"], "completion_window": asked["completion_window"],
            "request_counts": {"total": len(rows), "completed": 0, "failed": 0},
        }  # fmt: skip
        return self.batches[name]

    def _look(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch as it is, which is then moved on."""
        told = dict(batch)
        if batch["status"] != STEPS[-1]:
            batch["status"] = STEPS[STEPS.index(batch["status"]) + 1] if batch["status"] in STEPS else batch["status"]
            return told
        batch["status"] = self.end
        rows = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        if self.end == "failed":
            problem = {"code": "invalid", "message": "the model is not known", "line": 1, "param": None}
            batch["errors"] = {"object": "list", "data": [problem]}
            return told
        lines = [self._openai_line(i, row, len(rows)) for i, row in enumerate(rows)]
        lost = sum(line["error"] is not None for line in lines)
        batch["request_counts"] = {"total": len(lines), "completed": len(lines) - lost, "failed": lost}
        for kind, found in (
            ("output", [line for line in lines if line["error"] is None]),
            ("error", [line for line in lines if line["error"] is not None]),
        ):
            if found:
                batch[f"{kind}_file_id"] = f"{batch['id']}-{kind}"
                # Not in the order of the requests.
                self.files[f"{batch['id']}-{kind}"] = "\n".join(map(json.dumps, reversed(found))).encode()
        return told

    def _openai_line(self, number: int, row: dict[str, Any], total: int) -> dict[str, Any]:
        line = {"id": f"r{number}", "custom_id": row["custom_id"], "response": None, "error": None}
        if self.end in ("expired", "cancelled") and number >= total // 2:
            return {**line, "error": {"code": f"batch_{self.end}", "message": "not in time"}}
        if number in self.failing:
            return {**line, "error": {"code": "server_error", "message": "lost"}}
        choice = {"index": 0, "message": {"role": "assistant", "content": self.text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        body = {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage}
        return {**line, "response": {"status_code": 200, "request_id": "r", "body": body}}

    def _anthropic(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        name = f"msgbatch_{len(self.batches)}"
        self.sent += requests
        counts = {"processing": len(requests), "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
        self.files[name] = "\n".join(json.dumps(self._result(i, row)) for i, row in enumerate(requests)).encode()
        self.batches[name] = {
            "id": name, "type": "message_batch", "processing_status": "in_progress", "request_counts": counts,
            "created_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"), "results_url": None,
        }  # fmt: skip
        return self.batches[name]

    def _result(self, number: int, request: dict[str, Any]) -> dict[str, Any]:
        if number in self.failing:
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
            return {"custom_id": request["custom_id"], "result": {"type": "errored", "error": error}}
        usage = {
            "input_tokens": 40,
            "cache_read_input_tokens": 50,
            "cache_creation_input_tokens": 10,
            "output_tokens": 20,
        }
        message = {
            "type": "message", "role": "assistant", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": self.text}],
            "usage": usage,
        }  # fmt: skip
        return {"custom_id": request["custom_id"], "result": {"type": "succeeded", "message": message}}
