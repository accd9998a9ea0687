"""What a batch gave is saved, whatever its provider calls it and however it answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.pipeline.batch.batch_server import BatchServer

OPENAI = ("--model", "openai/any", "--holistic")
ANTHROPIC = ("--model", "anthropic/claude-sonnet-4-5", "--holistic")
Run = Callable[..., Any]


def submit(batch: Run, server: BatchServer, options: tuple[str, ...]) -> None:
    batch("export", "data.jsonl", *options)
    batch("submit", "calls.jsonl", *options[:2], "--endpoint", server.endpoint)
    while batch("status", "calls.jsonl")[0]["status"] != "completed":
        pass


@pytest.mark.parametrize("name", ["../../elsewhere", "a/b", "x" * 300, "two\nlines"])
def test_an_id_that_is_no_name_of_a_file(name: str, batch: Run, batch_server: BatchServer) -> None:
    """Gateways make ids of many kinds. What is paid must not be out of reach for that."""
    submit(batch, batch_server, OPENAI)
    state = Path("calls.batches.json")
    state.write_text(state.read_text().replace('"batch_0"', json.dumps(name)))
    batch_server.refuse = (200, json.dumps({**batch_server.batches["batch_0"], "id": name, "output_file_id": "f"}))
    (done,) = batch("fetch", "calls.jsonl")
    (file,) = done["files"]
    assert Path(file).is_file()
    assert (file.startswith("replies-"), len(file) < 130) == (True, True)


def test_deleted_replies_are_fetched_again(batch: Run, batch_server: BatchServer) -> None:
    submit(batch, batch_server, OPENAI)
    (done,) = batch("fetch", "calls.jsonl")
    content = Path(done["files"][0]).read_bytes()
    Path(done["files"][0]).unlink()
    assert batch("fetch", "calls.jsonl")[0]["files"] == done["files"]
    assert Path(done["files"][0]).read_bytes() == content
    batch_server.refuse = (500, "not asked when nothing is missing")
    assert batch("fetch", "calls.jsonl")[0]["files"] == done["files"]


@pytest.mark.parametrize(
    "lacking", ["completion_window", "object", "endpoint", "created_at", "request_counts", "failed"]
)
def test_an_answer_that_lacks_what_nobody_needs(lacking: str, batch: Run, batch_server: BatchServer) -> None:
    """Servers that speak OpenAI's protocol do so more or less; the replies are paid."""
    submit(batch, batch_server, OPENAI)
    told = batch_server.batches["batch_0"]
    counts = {name: count for name, count in told["request_counts"].items() if name != lacking}
    told = {name: value for name, value in {**told, "request_counts": counts}.items() if name != lacking}
    batch_server.batches["batch_0"] = told
    (done,) = batch("fetch", "calls.jsonl")
    assert (done["status"], done["files"]) == ("completed", ["replies-batch_0.jsonl"])
    assert len(Path("replies-batch_0.jsonl").read_text().splitlines()) == 6


def test_nor_one_of_anthropic(batch: Run, batch_server: BatchServer) -> None:
    submit(batch, batch_server, ANTHROPIC)
    told = batch_server.batches["msgbatch_0"]
    batch_server.refuse = (200, json.dumps({name: told[name] for name in ("processing_status", "results_url")}))
    assert batch("status", "calls.jsonl")[0]["status"] == "completed"
    batch_server.refuse = None
    assert batch("fetch", "calls.jsonl")[0]["files"] == ["replies-msgbatch_0.jsonl"]


ANSWERS = ["null", "[]", "{}", '"x"', "", '{"id": null, "data": null}', '{"data": [{}], "has_more": true}']


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("options", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_answers_of_another_shape(options: tuple[str, ...], answer: str, batch: Run, batch_server: BatchServer) -> None:
    """Each step says what it wanted, and goes on when the provider is itself again."""
    submit(batch, batch_server, options)
    batch_server.refuse = (200, answer)
    for step in ("status", "fetch"):
        assert " cannot be looked up: " in batch(step, "calls.jsonl", code=3)["error"]["message"]
    Path("calls-2.jsonl").write_text(Path("calls.jsonl").read_text().replace("gpa-", "gpa-2"))
    words = ["submit", "calls-2.jsonl", *options[:2], "--endpoint", batch_server.endpoint]
    batch(*words, code=3)
    batch(*words, code=3)  # looks for the batch of the first
    batch_server.refuse = None
    batch(*words)
    assert len(batch_server.batches) == 2
