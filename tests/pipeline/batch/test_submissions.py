"""What is submitted is paid once, whatever is interrupted."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.cli import main

if TYPE_CHECKING:
    from tests.pipeline.batch.batch_server import BatchServer

OPENAI = ("--model", "openai/any", "--holistic", "--price", "1", "1")
ANTHROPIC = ("--model", "anthropic/claude-sonnet-4-5", "--holistic")
Run = Callable[..., Any]


def at(server: BatchServer, *options: str) -> tuple[str, ...]:
    return (*options[:2], "--endpoint", server.endpoint)


def until_ended(batch: Run) -> list[str]:
    seen = []
    while (status := batch("status", "calls.jsonl")[0]["status"]) not in (
        "completed",
        "failed",
        "expired",
        "cancelled",
    ):
        seen.append(status)
    return [*seen, status]


def test_a_second_submission_is_the_same_batch(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    first = batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))[0]
    again = batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))[0]
    assert again["batch_id"] == first["batch_id"]
    assert (len(batch_server.batches), len(batch_server.files)) == (1, 1)


def test_calls_of_a_batch_that_may_be_running_are_not_paid_again(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))
    error = batch("export", "data.jsonl", *OPENAI, code=2)["error"]["message"]
    assert "calls.jsonl was submitted as batch batch_0, and what that gave is not fetched" in error
    Path("calls.jsonl").write_text("\n".join(Path("calls.jsonl").read_text().splitlines()[1:]))
    error = batch("submit", "calls.jsonl", *at(batch_server, *OPENAI), code=2)["error"]["message"]
    assert "held other calls when batch batch_0 was submitted" in error
    assert len(batch_server.batches) == 1
    batch("export", "data.jsonl", *OPENAI, "--out", "others.jsonl")


def test_a_large_cost_is_asked_about_before_anything_is_sent(
    batch: Run, batch_server: BatchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    batch("export", "data.jsonl", *OPENAI)
    words = ["submit", "calls.jsonl", *at(batch_server, *OPENAI), "--price", "1000", "1000"]
    error = batch(*words, code=2)["error"]["message"]
    assert "dollars are expected, more than 10 (ask_above), and there is no terminal to ask at" in error
    assert not batch_server.files
    assert main(["batch", *words, "--yes"]) == 0
    assert "cost: up to about 6 calls" in capsys.readouterr().err
    assert len(batch_server.batches) == 1


def test_two_processes_do_not_submit_one_file_at_once(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    with Path("calls.jsonl").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        error = batch("submit", "calls.jsonl", *at(batch_server, *OPENAI), code=2)["error"]["message"]
    assert error == "calls.jsonl is being submitted by another process: accepted is one at a time"
    assert not batch_server.batches


@pytest.mark.parametrize("options", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_kill_before_the_batch_is_known_pays_once(
    options: tuple[str, ...], batch: Run, batch_server: BatchServer
) -> None:
    batch("export", "data.jsonl", *options)
    batch_server.hold = True
    words = ["batch", "submit", "calls.jsonl", *at(batch_server, *options)]
    root = {"PYTHONPATH": str(Path(__file__).parents[3])}
    work = subprocess.Popen([sys.executable, "-m", "pipeline.cli", *words], env={**os.environ, **root})
    while not batch_server.batches and work.poll() is None:
        time.sleep(0.02)
    work.send_signal(signal.SIGKILL)
    assert work.wait() == -signal.SIGKILL
    batch_server.hold = False
    assert batch("status", "calls.jsonl")[0]["detail"] == "start the last `batch submit` again"
    (job,) = batch(*words[1:])
    assert [job["batch_id"]] == list(batch_server.batches)


@pytest.mark.parametrize("options", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_lost_answer_is_no_second_batch(options: tuple[str, ...], batch: Run, batch_server: BatchServer) -> None:
    """Neither by a retry of a library, nor by the same command again."""
    batch("export", "data.jsonl", *options)
    batch_server.drop = True
    words = ["submit", "calls.jsonl", *at(batch_server, *options)]
    assert "the batch of calls.jsonl was not created" in batch(*words, code=3)["error"]["message"]
    batch_server.drop = False
    ((name, made),) = batch_server.batches.items()
    # Others of the same key have come since: the list has several pages.
    counts = {kind: 7 for kind in made["request_counts"]}
    for number in range(5):
        other = {**made, "id": f"other_{number}", "input_file_id": "another", "request_counts": counts}
        batch_server.batches[other["id"]] = other
    (job,) = batch(*words)
    assert job["batch_id"] == name
    assert len(batch_server.batches) == 6


def test_another_files_batch_is_not_taken_for_a_lost_one(batch: Run, batch_server: BatchServer) -> None:
    """They have as many calls and come seconds apart, which is all that Anthropic tells of them."""
    to = at(batch_server, *ANTHROPIC)
    batch("export", "data.jsonl", *ANTHROPIC)
    Path("calls-2.jsonl").write_text(Path("calls.jsonl").read_text().replace("gpa-", "gpa-2"))
    batch("submit", "calls.jsonl", *to)
    batch_server.refuse = (503, "busy")
    batch("submit", "calls-2.jsonl", *to, code=3)
    batch_server.refuse = None
    (job,) = batch("submit", "calls-2.jsonl", *to)
    assert job["batch_id"] == "msgbatch_1"


def test_two_batches_that_it_may_be_are_left_to_the_user(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *ANTHROPIC)
    batch_server.drop = True
    words = ["submit", "calls.jsonl", *at(batch_server, *ANTHROPIC)]
    batch(*words, code=3)
    batch_server.drop = False
    batch_server.batches["msgbatch_1"] = {**batch_server.batches["msgbatch_0"], "id": "msgbatch_1"}
    error = batch(*words, code=2)["error"]["message"]
    assert "msgbatch_1 or msgbatch_0 may be its batch" in error
    assert len(batch_server.batches) == 2


def test_a_kill_after_the_upload_uploads_once(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))
    state = json.loads(Path("calls.batches.json").read_text())
    state["batches"][0].update(batch_id="", tried=0.0, submitted="")
    Path("calls.batches.json").write_text(json.dumps(state))
    batch_server.batches.clear()
    batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))
    assert (len(batch_server.batches), len(batch_server.files)) == (1, 1)


def test_calls_that_all_expired_may_be_submitted_again(batch: Run, batch_server: BatchServer) -> None:
    """Their file is the same as before: it must not pass for one that was submitted."""
    batch_server.end = "expired"
    batch_server.failing = tuple(range(6))
    to = at(batch_server, *OPENAI)
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *to)
    assert until_ended(batch)[-1] == "expired"
    (done,) = batch("fetch", "calls.jsonl")
    assert batch("import", "data.jsonl", *OPENAI, "--replies", *done["files"])["missing"] == 6
    batch("export", "data.jsonl", *OPENAI)
    assert batch("submit", "calls.jsonl", *to)[0]["batch_id"] == "batch_1"
    assert len(batch_server.batches) == 2


def test_the_same_calls_go_to_one_provider(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))
    error = batch("submit", "calls.jsonl", "--model", "openai/any", code=2)["error"]["message"]
    assert f"calls.jsonl was submitted to openai {batch_server.endpoint}: accepted is the same" in error
