from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.render import render
from labeled_traces.dataset import Dataset
from labeled_traces.simulated import rate, simulate
from pipeline.cli import main


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.chdir(tmp_path)
    dataset = Dataset(rate(simulate(12, seed=1), seed=2))
    dataset.save(Path("data.jsonl"))
    return dataset


def test_the_data_set(rows: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "data.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "12 traces in" in shown
    assert "dimension with few errors" in shown
    assert main(["inspect", "data.jsonl", "--trace-tokens", "500", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["traces"] == len(rows)
    assert len(document["too_long"]) == len(rows)
    assert "trace that does not fit the limit" in {one["kind"] for one in document["warnings"]}


def test_one_trace_as_judges_read_it(rows: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    row = next(iter(rows))
    words = ["inspect", "data.jsonl", "--trace", row.trace_id, "--render", "--trace-tokens", "500"]
    assert main(words) == 0
    assert "characters left out ...]" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    expected = render(row.trace, 500)
    assert (document["rendered"]["text"], document["rendered"]["cut"]) == (expected.text, expected.cut)
    assert document["plan"]["model"] is None
    assert len(document["plan"]["plans"]) == 1


def test_the_plan_through_a_model_and_its_ledger(rows: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["inspect", "data.jsonl", "--trace", next(iter(rows)).trace_id, "--plan", "simulated/default", "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["plan"]["source"] == "labelled"
    assert Path("runs/inspect/ledger.sqlite").is_file()
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out) == document


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--trace", "nowhere"], "no trace is 'nowhere': accepted is one of sim-1-0000"),
        (["--trace", "sim-l-0007"], "no trace is 'sim-l-0007' (did you mean `sim-1-0007`?): accepted is one of"),
        (["--trace", "sim-1-"], "12 traces begin with 'sim-1-'"),
        (["--render"], "accepted with --trace ID"),
        (["--trace", "sim-1-0000", "--price", "1", "2"], "belong to --plan MODEL"),
    ],
)
def test_what_is_not_accepted(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "data.jsonl", *words]) == 2
    assert said in capsys.readouterr().err


def test_raw_files_before_they_are_imported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    span = {"name": "a", "context": {"trace_id": "0x" + "a" * 32, "span_id": "0x" + "b" * 16}}
    (tmp_path / "spans.jsonl").write_text(
        json.dumps({**span, "start_time": "soon", "attributes": {"input.value": "hi"}})
    )
    assert main(["inspect", str(tmp_path / "spans.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "trace without a final answer" in shown
    assert "in reading:" in shown
