"""Batches at a provider: submitted once, whatever is interrupted, and fetched with all that they gave."""

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

from labeled_traces.dataset import Dataset
from labeled_traces.simulated import rate, simulate
from pipeline.cli import main

if TYPE_CHECKING:
    from tests.pipeline.batch.batch_server import BatchServer

OPENAI = ("--model", "openai/any", "--holistic", "--price", "1", "1")
ANTHROPIC = ("--model", "anthropic/claude-sonnet-4-5", "--holistic")
Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-anthropic")
    Dataset(rate(simulate(6, 0), 0)).save(tmp_path / "data.jsonl")


@pytest.fixture
def batch(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `gpa-judges batch ...` and returns its document."""

    def run(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main(["batch", *words, "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return run


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


def test_the_whole_way_with_openai(batch: Run, batch_server: BatchServer) -> None:
    batch_server.failing = (1,)
    batch("export", "data.jsonl", *OPENAI)
    (job,) = batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))
    assert batch_server.files[job["file_id"]] == Path("calls.jsonl").read_bytes()
    assert {headers["authorization"] for headers in batch_server.headers} == {"Bearer sk-of-openai"}
    (early,) = batch("fetch", "calls.jsonl")
    assert (early["status"], early["files"]) == ("validating", [])
    assert until_ended(batch) == ["in_progress", "finalizing", "completed"]
    assert batch("status", "calls.jsonl")[0]["counts"] == {"total": 6, "completed": 5, "failed": 1}
    (done,) = batch("fetch", "calls.jsonl")
    assert done["files"] == ["replies-batch_0.jsonl", "errors-batch_0.jsonl"]
    found = batch("import", "data.jsonl", *OPENAI, "--replies", *done["files"])
    assert (found["filed"], found["errors"], found["missing"]) == (5, {"server_error": 1}, 1)
    assert found["cost"] == pytest.approx(5 * 120e-6 / 2), "half the price"
    assert "sk-of-openai" not in "".join(path.read_text() for path in Path().glob("*.json*"))
    assert batch("export", "data.jsonl", *OPENAI)["calls"] == 1
    batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))
    assert len(batch_server.batches) == 2, "the second round is a batch of its own"
    assert [row["batch_id"] for row in batch("status", "calls.jsonl")] == ["batch_0", "batch_1"]


def test_the_whole_way_with_anthropic(batch: Run, batch_server: BatchServer) -> None:
    batch_server.failing = (0,)
    batch("export", "data.jsonl", *ANTHROPIC)
    batch("submit", "calls.jsonl", *at(batch_server, *ANTHROPIC))
    headers = batch_server.headers[-1]
    assert headers["x-api-key"] == "sk-of-anthropic"
    assert "structured-outputs" in headers["anthropic-beta"]
    call, sent = json.loads(Path("calls.jsonl").read_text().splitlines()[0]), batch_server.sent[0]
    assert sent["custom_id"] == call["custom_id"]
    assert sent["params"]["model"] == "claude-sonnet-4-5"
    assert sent["params"]["max_tokens"] == call["body"]["max_tokens"]
    assert sent["params"]["system"][0]["text"] == call["body"]["messages"][0]["content"]
    assert sent["params"]["output_format"]["type"] == "json_schema"
    assert "json_mode" not in sent["params"]
    batch("submit", "calls.jsonl", *at(batch_server, *ANTHROPIC))
    assert len(batch_server.batches) == 1
    assert until_ended(batch)[-1] == "completed"
    (done,) = batch("fetch", "calls.jsonl")
    assert done["counts"] == {"processing": 0, "succeeded": 5, "errored": 1, "canceled": 0, "expired": 0}
    found = batch("import", "data.jsonl", *ANTHROPIC, "--replies", *done["files"])
    assert (found["filed"], found["tokens"]) == (5, 5 * 120)
    assert found["errors"] == {"errored overloaded_error": 1}
    # 3 dollars per million tokens of prompts, 15 of replies; cached 0.3, written into the cache 3.75; half of all.
    assert found["cost"] == pytest.approx(5 * (40 * 3 + 50 * 0.3 + 10 * 3.75 + 20 * 15) / 2e6)


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


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_what_a_batch_gave_before_it_ended_is_kept(end: str, batch: Run, batch_server: BatchServer) -> None:
    batch_server.end = end
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))
    assert until_ended(batch)[-1] == end
    (done,) = batch("fetch", "calls.jsonl")
    found = batch("import", "data.jsonl", *OPENAI, "--replies", *done["files"])
    assert (found["filed"], found["errors"]) == (3, {f"batch_{end}": 3})
    assert batch("export", "data.jsonl", *OPENAI)["calls"] == 3


def test_a_batch_that_failed_says_why_and_may_be_submitted_again(batch: Run, batch_server: BatchServer) -> None:
    batch_server.end = "failed"
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))
    assert until_ended(batch)[-1] == "failed"
    assert batch("status", "calls.jsonl")[0]["detail"] == "line 1: the model is not known"
    batch("submit", "calls.jsonl", *at(batch_server, *OPENAI))
    assert len(batch_server.batches) == 2


@pytest.mark.parametrize("options", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_provider_that_refuses_is_named_without_the_key(
    options: tuple[str, ...], batch: Run, batch_server: BatchServer
) -> None:
    batch("export", "data.jsonl", *options)
    body = {"error": {"message": "no credit for sk-of-openai sk-of-anthropic", "type": "billing_error"}}
    batch_server.refuse = (402, json.dumps(body))
    error = batch("submit", "calls.jsonl", *at(batch_server, *options), code=3)["error"]
    assert error["kind"] == "LMError"
    assert "no credit for [hidden] [hidden]" in error["message"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("submit", "calls.jsonl", "--model", "openai/other"), "a call to any, not to other"),
        (("submit", "data.jsonl", "--model", "openai/any"), "data.jsonl, line 1: no call"),
        (("submit", "none.jsonl", "--model", "openai/any"), "none.jsonl is not there"),
        (("submit", "calls.jsonl", "--model", "any"), "no provider of the model 'any' is known"),
        (("submit", "calls.jsonl", "--model", "groq/any"), "batches of groq cannot be submitted"),
        (("status", "calls.jsonl"), "calls.jsonl was not submitted"),
        (("fetch", "calls.jsonl"), "calls.jsonl was not submitted"),
    ],
)
def test_what_cannot_be_says_what_can(words: tuple[str, ...], said: str, batch: Run) -> None:
    batch("export", "data.jsonl", *OPENAI)
    assert said in batch(*words, code=2)["error"]["message"]
    assert not Path("calls.batches.json").exists()


def test_without_a_key(batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    batch("export", "data.jsonl", *OPENAI)
    error = batch("submit", "calls.jsonl", "--model", "openai/any", code=2)["error"]["message"]
    assert error == "no key: accepted is OPENAI_API_KEY in the environment"


def test_the_simulated_model_is_a_provider(batch: Run) -> None:
    simulated = ("--model", "simulated/default")
    for missing in (12, 0):
        batch("export", "data.jsonl", *simulated)
        batch("submit", "calls.jsonl", *simulated)
        files = batch("fetch", "calls.jsonl")[-1]["files"]
        found = batch("import", "data.jsonl", *simulated, "--replies", *files)
        assert found["missing"] <= missing
