"""What is submitted is paid once, whatever is interrupted."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.batch.openai_batches import OpenAIBatches
from pipeline.batch.submissions import Submissions
from pipeline.cli import main

if TYPE_CHECKING:
    from tests.pipeline.batch.batch_server import BatchServer

OPENAI = ("--model", "openai/any", "--holistic", "--price", "1", "1")
ANTHROPIC = ("--model", "anthropic/claude-sonnet-4-5", "--holistic")
COUNTS = ("total", "completed", "failed")
Run = Callable[..., Any]


def test_a_second_submission_is_the_same_batch(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    first = batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))[0]
    again = batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))[0]
    assert again["batch_id"] == first["batch_id"]
    assert (len(batch_server.batches), len(batch_server.files)) == (1, 1)


def test_calls_of_a_batch_that_may_be_running_are_not_paid_again(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    error = batch("export", "data.jsonl", *OPENAI, code=2)["error"]["message"]
    assert "calls.jsonl was submitted as batch batch_0, and what that gave is not fetched" in error
    Path("calls.jsonl").write_text("\n".join(Path("calls.jsonl").read_text().splitlines()[1:]))
    error = batch("submit", "calls.jsonl", *batch_server.at(*OPENAI), code=2)["error"]["message"]
    assert "held other calls when batch batch_0 was submitted" in error
    assert len(batch_server.batches) == 1
    batch("export", "data.jsonl", *OPENAI, "--out", "others.jsonl")


def test_a_large_cost_is_asked_about_before_anything_is_sent(
    batch: Run, batch_server: BatchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    batch("export", "data.jsonl", *OPENAI)
    words = ["submit", "calls.jsonl", *batch_server.at(*OPENAI), "--price", "1000", "1000"]
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
        error = batch("submit", "calls.jsonl", *batch_server.at(*OPENAI), code=2)["error"]["message"]
    assert error == "calls.jsonl is being submitted by another process: accepted is one at a time"
    assert not batch_server.batches


def test_a_file_system_without_locks_is_no_obstacle(
    batch: Run, batch_server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refuse)
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    assert batch_server.until_ended(batch)[-1] == "completed"


@pytest.mark.parametrize("options", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_kill_before_the_batch_is_known_pays_once(
    options: tuple[str, ...], batch: Run, batch_server: BatchServer
) -> None:
    batch("export", "data.jsonl", *options)
    batch_server.hold = True
    words = ["batch", "submit", "calls.jsonl", *batch_server.at(*options)]
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
    words = ["submit", "calls.jsonl", *batch_server.at(*options)]
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
    to = batch_server.at(*ANTHROPIC)
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
    words = ["submit", "calls.jsonl", *batch_server.at(*ANTHROPIC)]
    batch(*words, code=3)
    batch_server.drop = False
    batch_server.batches["msgbatch_1"] = {**batch_server.batches["msgbatch_0"], "id": "msgbatch_1"}
    error = batch(*words, code=2)["error"]["message"]
    assert "msgbatch_1 or msgbatch_0 may be its batch" in error
    assert len(batch_server.batches) == 2


def test_a_kill_after_the_upload_uploads_once(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    state = json.loads(Path("calls.batches.json").read_text())
    state["batches"][0].update(batch_id="", tried=0.0, submitted="")
    Path("calls.batches.json").write_text(json.dumps(state))
    batch_server.batches.clear()
    batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    assert (len(batch_server.batches), len(batch_server.files)) == (1, 1)


@pytest.mark.parametrize(("options", "end"), [(OPENAI, "expired"), (ANTHROPIC, "completed")])
def test_calls_that_all_failed_may_be_submitted_again(
    options: tuple[str, ...], end: str, batch: Run, batch_server: BatchServer
) -> None:
    """Their file is the same as before: it must not pass for one that was submitted."""
    batch_server.end = end
    batch_server.failing = tuple(range(6))
    to = batch_server.at(*options)
    batch("export", "data.jsonl", *options)
    batch("submit", "calls.jsonl", *to)
    assert batch_server.until_ended(batch)[-1] == end
    (done,) = batch("fetch", "calls.jsonl")
    assert batch("import", "data.jsonl", *options, "--replies", *done["files"])["missing"] == 6
    batch("export", "data.jsonl", *options)
    assert batch("submit", "calls.jsonl", *to)[0]["batch_id"] == list(batch_server.batches)[1]
    assert len(batch_server.batches) == 2


def test_the_same_calls_go_to_one_provider(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    error = batch("submit", "calls.jsonl", "--model", "openai/any", code=2)["error"]["message"]
    assert f"calls.jsonl was submitted to openai {batch_server.endpoint}: accepted is the same" in error


def test_calls_that_reached_nobody_may_go_elsewhere(batch: Run, batch_server: BatchServer) -> None:
    """And what is kept of their batch is where it really is: else it could not be found again."""
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *OPENAI[:2], "--endpoint", "http://127.0.0.1:1/v1", code=3)
    batch_server.full = True
    elsewhere = ("--endpoint", batch_server.endpoint.replace("127.0.0.1", "localhost"))
    error = batch("submit", "calls.jsonl", *OPENAI[:2], *elsewhere, code=3)["error"]["message"]
    assert "the batch of calls.jsonl was not created" in error
    batch_server.full = False
    (job,) = batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    assert (job["endpoint"], job["file_id"]) == (batch_server.endpoint, "file-1"), "uploaded again"
    assert batch_server.until_ended(batch)[-1] == "completed"


def test_a_server_that_counts_nothing_is_not_paid_twice(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    to = batch_server.at(*OPENAI)
    (job,) = batch("submit", "calls.jsonl", *to)
    silent = {**batch_server.batches["batch_0"], "status": "completed", "request_counts": None}
    batch_server.refuse = (200, json.dumps(silent))
    assert batch("status", "calls.jsonl")[0]["status"] == "completed"
    assert batch("submit", "calls.jsonl", *to)[0]["batch_id"] == job["batch_id"]
    batch_server.refuse = None
    assert len(batch_server.batches) == 1


def test_a_batch_that_gave_no_file_may_be_submitted_again(batch: Run, batch_server: BatchServer) -> None:
    """Cancelled before anything was counted."""
    batch("export", "data.jsonl", *OPENAI)
    to = batch_server.at(*OPENAI)
    batch("submit", "calls.jsonl", *to)
    gone = {**batch_server.batches["batch_0"], "status": "cancelled", "request_counts": dict.fromkeys(COUNTS, 0)}
    batch_server.refuse = (200, json.dumps(gone))
    assert batch("fetch", "calls.jsonl")[0]["files"] == []
    batch_server.refuse = None
    assert batch("submit", "calls.jsonl", *to)[0]["batch_id"] == "batch_1"


def test_the_same_calls_under_another_name_are_not_paid_again(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    to = batch_server.at(*OPENAI)
    batch("submit", "calls.jsonl", *to)
    Path("calls.jsonl").rename("kept.jsonl")
    error = batch("submit", "kept.jsonl", *to, code=2)["error"]["message"]
    assert "kept.jsonl holds what was submitted as calls.jsonl: batch batch_0" in error
    assert len(batch_server.batches) == 1


def test_nor_under_two_names_at_once(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    shutil.copy("calls.jsonl", "copy.jsonl")
    error = batch("submit", "calls.jsonl", "copy.jsonl", *batch_server.at(*OPENAI), code=2)["error"]["message"]
    assert error == "calls.jsonl and copy.jsonl hold the same calls: accepted is one of them"
    assert not batch_server.files


def test_a_look_does_not_undo_what_another_process_submits(batch: Run, batch_server: BatchServer) -> None:
    """A look that waits for its answer while others fetch and submit: no batch may be lost from the file."""
    batch("export", "data.jsonl", *OPENAI)
    to = batch_server.at(*OPENAI)
    batch("submit", "calls.jsonl", *to)
    slow = Submissions.of(Path("calls.jsonl"))
    batch_server.until_ended(batch)
    batch("fetch", "calls.jsonl")
    Path("calls.jsonl").write_text("\n".join(Path("calls.jsonl").read_text().splitlines()[1:]))
    batch("submit", "calls.jsonl", *to)
    slow.seen(slow.batches[0], status="in_progress")
    left = Submissions.of(Path("calls.jsonl")).batches
    assert [(one.batch_id, one.fetched) for one in left] == [("batch_0", True), ("batch_1", False)]
    slow.seen(replace(slow.batches[0], batch_id="one that was replaced"), status="failed")
    assert Submissions.of(Path("calls.jsonl")).batches == left


def test_a_file_that_changes_while_it_is_uploaded_starts_no_batch(
    batch: Run, batch_server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch("export", "data.jsonl", *OPENAI)
    upload = OpenAIBatches.upload

    def slow(self: OpenAIBatches, path: Path) -> str:
        path.write_text("\n".join(path.read_text().splitlines()[1:]))
        return upload(self, path)

    monkeypatch.setattr(OpenAIBatches, "upload", slow)
    error = batch("submit", "calls.jsonl", *batch_server.at(*OPENAI), code=2)["error"]["message"]
    assert error == "calls.jsonl has changed while it was uploaded: no batch was started"
    assert not batch_server.batches
