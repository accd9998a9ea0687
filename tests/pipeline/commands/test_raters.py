from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.simulated import FaultRates, rate, simulate
from labeled_traces.trace import Span, Trace
from pipeline.cli import main
from pipeline.config import DataConfig, ExperimentConfig, PipelineError, validated
from pipeline.prepare import load_data


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = simulate(20, 0, FaultRates().scaled(2.0))
    pairs = zip(rate(rows, 1, rater="ann"), rate(rows, 2, rater="bob"), strict=True)
    both = [replace(a, errors=a.errors + b.errors, scores=a.scores + b.scores, raters=("ann", "bob")) for a, b in pairs]
    Dataset(both).save(tmp_path / "data.jsonl")
    return tmp_path / "data.jsonl"


def test_simulated_raters(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["raters", str(data)]) == 0
    shown = capsys.readouterr().out
    for line in ("whole runs read: ann 20, bob 20; by two or more: 20", "ann by bob", "where they disagree: "):
        assert line in shown
    assert main(["raters", str(data), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["pairs"][0]["localization"][1]["labels_of"] == "bob"
    assert 0.5 < document["ceiling"]["total"]["localization"]["value"] < 1
    assert {"trace_id", "span_id", "said"} in [set(row) for row in document["disagreements"]]


def saved(path: Path, *rows: LabeledTrace) -> str:
    Dataset(rows).save(path)
    return str(path)


def run_of(name: str, *errors: ErrorLabel, raters: tuple[str, ...] = ()) -> LabeledTrace:
    spans = (Span("root", None, "agent", inputs=name, outputs="x"), Span("a", "root", "tool", outputs="y"))
    return LabeledTrace(Trace(name, spans), errors, clean="checked", raters=raters)


def test_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rows, said in (
        ([run_of("t")], "nobody has labelled: there is nothing to compare"),
        ([run_of("t", raters=("ann",))], "one rater alone: there is nothing to compare"),
        (
            [run_of("t", ErrorLabel("a", ("tool_calling",), "c", Impact.LOW))],
            "Labels that name no rater count as those of one. To tell raters apart: a column `rater`",
        ),
        ([run_of("t", raters=("ann",)), run_of("u", raters=("bob",))], "two or more have labelled, but no trace twice"),
    ):
        assert main(["raters", saved(tmp_path / "data.jsonl", *rows), "--json"]) == 0
        shown = capsys.readouterr()
        assert said in shown.err
        assert "undefined" not in shown.err
        assert json.loads(shown.out)["pairs"] == []


def test_reasons_stand_once_below_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = ErrorLabel("a", ("tool_calling",), "c", Impact.LOW, rater="ann")
    rows = [run_of("t", error, raters=("ann", "bob")), run_of("u", raters=("ann", "bob"))]
    assert main(["raters", saved(tmp_path / "data.jsonl", *rows)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("undefined") == 1
    assert "- undefined: no variation; nothing that two raters have judged; no labels" in shown
    assert "where they disagree: 1 place\n" in shown


def test_names_cannot_steer_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = ErrorLabel("a", ("tool_calling",), "\x1b]0;title\x07c", Impact.LOW, rater="\x1b[2Jann\nx")
    assert main(["raters", saved(tmp_path / "data.jsonl", run_of("t", error, raters=("\u202e日本",)))]) == 0
    shown = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "�[2Jann x 1, �日本 1" in shown


def test_reduced_data_as_a_file_and_in_an_experiment(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = data.parent / "majority.jsonl"
    assert main(["raters", str(data), "--reduce", "majority", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for rows, form in ((Dataset.load(data), "{} before"), (Dataset.load(out), "{} now")):
        assert form.format(sum(row.is_clean for row in rows)) in said
    assert f"{sum(len(row.errors) for row in Dataset.load(data))} error labels became" in said
    config = validated(ExperimentConfig, {"name": "x", "data": {"path": str(data), "raters": "majority"}}, "x.yaml")
    assert load_data(config).hash == Dataset.load(out).hash != Dataset.load(data).hash
    assert main(["raters", str(data), "--reduce", "mayority", "--out", str(out)]) == 2
    assert "did you mean `majority`?" in capsys.readouterr().err
    assert main(["raters", str(data), "--reduce", "union"]) == 2
    with pytest.raises(PipelineError, match="accepted are majority, union, newest, rater:NAME"):
        validated(ExperimentConfig, {"name": "x", "data": {"path": "d", "raters": "most"}}, "x.yaml")
    assert "raters" not in DataConfig(path=data).model_dump(), "runs without a rule keep their names"
