from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.simulated import rate, simulate
from labeled_traces.trace import Span, Trace
from labeled_traces.writers import WRITERS
from pipeline.cli import main


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Dataset(rate(simulate(4, seed=1), seed=2)).save(tmp_path / "data.jsonl")
    return tmp_path / "data.jsonl"


@pytest.mark.parametrize("form", WRITERS)
def test_import_gives_back_what_convert_wrote(form: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(data), "--to", form, "--out", "written.jsonl"]) == 0
    assert f"4 traces with {_spans(data)} spans" in capsys.readouterr().out
    assert main(["import", "written.jsonl", "--out", "back.jsonl"]) == 0
    assert Dataset.load(Path("back.jsonl")).hash == Dataset.load(data).hash


def test_the_document_says_what_was_written(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(data), "--to", "otlp", "--out", "written.jsonl", "--without-labels", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["traces"], document["spans"], document["labels"]) == (4, _spans(data), 0)


def test_another_file_is_not_written_over(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(data), "--to", "otlp", "--out", str(data)]) == 2
    assert "is there with another content" in capsys.readouterr().err
    assert main(["convert", str(data), "--to", "otlp", "--out", str(data), "--force"]) == 0


def test_files_of_other_systems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    span = {"name": "a", "context": {"trace_id": "0x" + "a" * 32, "span_id": "0x" + "b" * 16}}
    (tmp_path / "spans.jsonl").write_text(json.dumps({**span, "attributes": {"input.value": "hi"}}))
    assert main(["convert", str(tmp_path / "spans.jsonl"), "--to", "mlflow", "--out", str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out").read_text())["info"]["trace_id"] == "tr-" + "a" * 32
    assert "1 trace with 1 span and 0 labels" in capsys.readouterr().out


def test_a_trace_that_holds_nothing_can_be_written(tmp_path: Path) -> None:
    empty = LabeledTrace(Trace("empty", (Span("a", None, "a"),)))
    Dataset([empty, *simulate(1, seed=1)]).save(tmp_path / "data.jsonl")
    assert main(["convert", str(tmp_path / "data.jsonl"), "--to", "otlp", "--out", str(tmp_path / "out")]) == 0
    assert main(["import", str(tmp_path / "out"), "--out", str(tmp_path / "back")]) == 0
    assert Dataset.load(tmp_path / "back").hash == Dataset.load(tmp_path / "data.jsonl").hash


def _spans(data: Path) -> int:
    return sum(len(row.trace.spans) for row in Dataset.load(data))
