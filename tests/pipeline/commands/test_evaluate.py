from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.program import seed_suite
from labeled_traces.dataset import Dataset
from labeled_traces.simulated import rate, simulate
from pipeline.cli import main

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    seed_suite(dimensions=("tool_calling",)).save(tmp_path / "judges")
    Dataset(rate(simulate(6, 0), 0)).save(tmp_path / "data.jsonl")


def evaluate(server: ScriptedServer, *more: str) -> int:
    judges = ["--judges", "judges", "--model", "openai/any", "--endpoint", server.endpoint, "--out", "found"]
    return main(["evaluate", "data.jsonl", *judges, *more])


def test_replies_that_cannot_be_used_are_no_result(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_server(lambda _: "nothing to say") as server:
        assert evaluate(server, "--json") == 3
    document: Any = json.loads(capsys.readouterr().out)
    assert document["error"]["kind"] == "NoUsableReply"
    assert "not one of 6 judgments can be used (6 unparseable)" in document["error"]["message"]
    assert "the reply cannot be used: " in document["error"]["message"]  # the first one's detail
    assert Path("found/judgments.jsonl").read_text().count('"unparseable"') == 6


def test_one_reply_that_can_be_used_is_a_result(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    clean = json.dumps({"rationale": "fine", "findings": [], "score": 3})
    with scripted_server(scripted_server.in_turn(clean, "nothing to say")) as server:
        assert evaluate(server, "--concurrency", "1") == 0
    assert "Judgments: 1 scored, 5 unparseable" in capsys.readouterr().out


def test_what_was_dropped_in_reading_is_summed_on_the_screen(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    """A judge that names no dimension loses its findings: without a word it would be one without false alarms."""
    finding = {"span_ids": [], "explanation": "x", "evidence": "", "severity": "high", "confidence": 90}
    reply = json.dumps({"rationale": "bad", "findings": [finding], "score": 0})
    with scripted_server(lambda _: reply) as server:
        holistic = ["--holistic", "--model", "openai/any", "--endpoint", server.endpoint, "--json"]
        assert main(["evaluate", "data.jsonl", *holistic]) == 0
    said = capsys.readouterr()
    assert "WARNING, replies that were repaired in reading: 6 x a finding names no known dimension: dropped" in said.err
    assert json.loads(said.out)["warnings"]["a finding names no known dimension: dropped"] == 6


@pytest.mark.parametrize("model", ["simulated/defalt", "opnai/gpt-5"])
def test_a_model_that_does_not_exist_leaves_no_folder(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "data.jsonl", "--model", model]) == 2
    assert model in capsys.readouterr().err
    assert not Path("runs").exists()


def test_an_unknown_price_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "data.jsonl", "--model", "openai/x", "--max-dollars", "1"]) == 2
    assert "the price of openai/x is unknown" in (said := capsys.readouterr().err)
    assert "--price" in said
    assert not Path("runs").exists()
