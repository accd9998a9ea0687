"""Batches at a provider: submitted once, whatever is interrupted, and fetched with all that they gave."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.pipeline.batch.batch_server import BatchServer

OPENAI = ("--model", "openai/any", "--holistic", "--price", "1", "1")
ANTHROPIC = ("--model", "anthropic/claude-sonnet-4-5", "--holistic")
Run = Callable[..., Any]


def test_the_whole_way_with_openai(batch: Run, batch_server: BatchServer) -> None:
    batch_server.failing = (1,)
    batch("export", "data.jsonl", *OPENAI)
    (job,) = batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    assert batch_server.files[job["file_id"]] == Path("calls.jsonl").read_bytes()
    assert {headers["authorization"] for headers in batch_server.headers} == {"Bearer sk-of-openai"}
    (early,) = batch("fetch", "calls.jsonl")
    assert (early["status"], early["files"]) == ("validating", [])
    assert batch_server.until_ended(batch) == ["in_progress", "finalizing", "completed"]
    assert batch("status", "calls.jsonl")[0]["counts"] == {"total": 6, "completed": 5, "failed": 1}
    (done,) = batch("fetch", "calls.jsonl")
    assert done["files"] == ["replies-batch_0.jsonl", "errors-batch_0.jsonl"]
    found = batch("import", "data.jsonl", *OPENAI, "--replies", *done["files"])
    assert (found["filed"], found["errors"], found["missing"]) == (5, {"server_error": 1}, 1)
    assert found["cost"] == pytest.approx(5 * 120e-6 / 2), "half the price"
    assert "sk-of-openai" not in "".join(path.read_text() for path in Path().glob("*.json*"))
    assert batch("export", "data.jsonl", *OPENAI)["calls"] == 1
    batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    assert len(batch_server.batches) == 2, "the second round is a batch of its own"
    assert [row["batch_id"] for row in batch("status", "calls.jsonl")] == ["batch_0", "batch_1"]


def test_the_whole_way_with_anthropic(batch: Run, batch_server: BatchServer) -> None:
    batch_server.failing = (0,)
    batch("export", "data.jsonl", *ANTHROPIC)
    batch("submit", "calls.jsonl", *batch_server.at(*ANTHROPIC))
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
    batch("submit", "calls.jsonl", *batch_server.at(*ANTHROPIC))
    assert len(batch_server.batches) == 1
    assert batch_server.until_ended(batch)[-1] == "completed"
    (done,) = batch("fetch", "calls.jsonl")
    assert done["counts"] == {"processing": 0, "succeeded": 5, "errored": 1, "canceled": 0, "expired": 0}
    found = batch("import", "data.jsonl", *ANTHROPIC, "--replies", *done["files"])
    assert (found["filed"], found["tokens"]) == (5, 5 * 120)
    assert found["errors"] == {"errored overloaded_error": 1}
    # 3 dollars per million tokens of prompts, 15 of replies; cached 0.3, written into the cache 3.75; half of all.
    assert found["cost"] == pytest.approx(5 * (40 * 3 + 50 * 0.3 + 10 * 3.75 + 20 * 15) / 2e6)


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_what_a_batch_gave_before_it_ended_is_kept(end: str, batch: Run, batch_server: BatchServer) -> None:
    batch_server.end = end
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    assert batch_server.until_ended(batch)[-1] == end
    (done,) = batch("fetch", "calls.jsonl")
    found = batch("import", "data.jsonl", *OPENAI, "--replies", *done["files"])
    assert (found["filed"], found["errors"]) == (3, {f"batch_{end}": 3})
    assert batch("export", "data.jsonl", *OPENAI)["calls"] == 3


def test_a_batch_that_failed_says_why_and_may_be_submitted_again(batch: Run, batch_server: BatchServer) -> None:
    batch_server.end = "failed"
    batch("export", "data.jsonl", *OPENAI)
    batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    assert batch_server.until_ended(batch)[-1] == "failed"
    assert batch("status", "calls.jsonl")[0]["detail"] == "line 1: the model is not known"
    batch("submit", "calls.jsonl", *batch_server.at(*OPENAI))
    assert len(batch_server.batches) == 2


@pytest.mark.parametrize("options", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_a_provider_that_refuses_is_named_without_the_key(
    options: tuple[str, ...], batch: Run, batch_server: BatchServer
) -> None:
    batch("export", "data.jsonl", *options)
    body = {"error": {"message": "no credit for sk-of-openai sk-of-anthropic", "type": "billing_error"}}
    batch_server.refuse = (402, json.dumps(body))
    error = batch("submit", "calls.jsonl", *batch_server.at(*options), code=3)["error"]
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


BODY = {"messages": [{"role": "user", "content": "x"}], "model": "any", "max_tokens": 5}
CHANGES: list[dict[str, Any]] = [
    {"messages": None},
    {"messages": []},
    {"messages": "x"},
    {"messages": [{"role": "user"}]},
    {"messages": [{"role": "user", "content": None}]},
    {"max_tokens": None},
    {"max_tokens": "5"},
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_line_that_was_changed_by_hand_is_named(provider: str, change: dict[str, Any], batch: Run) -> None:
    rows = [{"custom_id": "gpa-1-0", "body": BODY}, {"custom_id": "gpa-2-0", "body": {**BODY, **change}}]
    Path("calls.jsonl").write_text("\n".join(map(json.dumps, rows)))
    error = batch("submit", "calls.jsonl", "--model", f"{provider}/any", code=2)["error"]["message"]
    assert error == "calls.jsonl, line 2: no call: accepted is a file that `batch export` wrote"


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


def test_all_files_together_are_asked_about_before_the_first_is_sent(batch: Run, batch_server: BatchServer) -> None:
    batch("export", "data.jsonl", *OPENAI)
    Path("calls-2.jsonl").write_text(Path("calls.jsonl").read_text().replace("gpa-", "gpa-2"))
    words = ["submit", "calls.jsonl", "calls-2.jsonl", *batch_server.at(*OPENAI), "--price", "1", "1"]
    error = batch(*words, "--ask-above", "0.03", code=2)["error"]["message"]
    assert "about 0.05 dollars are expected, more than 0.03 (ask_above)" in error
    assert "--max-dollars" not in error, "an option that this command does not have"
    assert not batch_server.files
    jobs = batch(*words, "--ask-above", "0.06")
    assert [job["calls_file"] for job in jobs] == ["calls.jsonl", "calls-2.jsonl"]
    assert [job["batch_id"] for job in jobs] == list(batch_server.batches) == ["batch_0", "batch_1"]


@pytest.mark.parametrize("folder", [".", "/", ".."])
def test_a_folder_is_no_file_of_calls(folder: str, batch: Run) -> None:
    for step in ("status", "fetch"):
        assert "accepted is a file" in batch(step, folder, code=2)["error"]["message"]


@pytest.mark.parametrize(
    "change", [{"counts": None}, {"files": [1]}, {"batch_id": 5}, {"tried": "x"}, {"counts": {"completed": "x"}}]
)
def test_a_damaged_record_is_named(change: dict[str, Any], batch: Run) -> None:
    row = {"sha256": "a", "calls": 1, "provider": "simulated", "model": "simulated/default", "files": [], **change}
    Path("calls.batches.json").write_text(json.dumps({"batches": [row]}))
    for step in ("status", "fetch"):
        error = batch(step, "calls.jsonl", code=2)["error"]["message"]
        assert "calls.batches.json: not what `batch submit` wrote" in error
