from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judges.lm import JudgeError
from judges.program import seed_suite
from labeled_traces.dataset import Dataset
from labeled_traces.simulated import simulate
from labeled_traces.trace import TraceError
from pipeline.config import ExperimentConfig, PipelineError
from pipeline.config_file import parse_config
from pipeline.measure import Measurement, measure
from pipeline.prepare import load_judges
from pipeline.run_folder import RunFolder, open_judges

HASHES = {"data": "d", "judges": "j", "holistic": None}


def config(output: Path, **changes: Any) -> ExperimentConfig:
    return parse_config({"name": "mine", "output": str(output), "data": {"path": "data.jsonl"}, **changes}, "f", output)


def folder_of(output: Path, hashes: dict[str, str | None] | None = None, **changes: Any) -> str:
    return RunFolder.of(config(output, **changes), hashes or HASHES).name


def test_the_same_experiment_has_the_same_folder(tmp_path: Path) -> None:
    name = folder_of(tmp_path)
    assert name.startswith("mine-")
    assert len(name) == len("mine-") + 8
    assert folder_of(tmp_path) == name
    same: list[dict[str, Any]] = [
        {"budget": {"calls": 5}},
        {"prices": {"m": [1, 2]}},
        {"limits": {"rpm": 5, "tpm": 50}},
        {"tracking": {"enabled": False}},
        {"ledger": "shared.sqlite"},
        {"judges": {"concurrency": 3, "timeout": 5}},
    ]
    assert {folder_of(tmp_path, **changes) for changes in same} == {name}


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"matcher": {"kind": "text"}}, {"judges": {"model": "openai/x"}}, {"validation": {"repeats": 9}}],
)
def test_another_experiment_has_another_folder(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert folder_of(tmp_path, **changes) != folder_of(tmp_path)


def test_other_data_or_judges_have_another_folder(tmp_path: Path) -> None:
    names = {folder_of(tmp_path, {**HASHES, key: "other"}) for key in HASHES}
    assert len(names | {folder_of(tmp_path)}) == 4


def test_a_folder_is_opened_where_it_lies(tmp_path: Path) -> None:
    made = RunFolder.of(config(tmp_path / "runs"), HASHES)
    moved = tmp_path / "elsewhere" / "x"
    moved.parent.mkdir()
    made.path.rename(moved)
    folder, read = RunFolder.open(moved)
    assert folder.path == moved
    assert read.output == moved.parent
    assert read.data.path == tmp_path / "runs" / "data.jsonl"


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is not a run"):
        RunFolder.open(tmp_path)
    (tmp_path / "config.yaml").write_text("nme: x")
    with pytest.raises(PipelineError, match="did you mean `name`"):
        RunFolder.open(tmp_path)


def test_json_in_and_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert folder.read_json("x.json") is None
    folder.write_json("x.json", {"a": [1, None, "\ud83d"]})
    assert folder.read_json("x.json") == {"a": [1, None, "\ud83d"]}
    with pytest.raises(ValueError, match="JSON"):
        folder.write_json("x.json", float("nan"))
    folder["x.json"].write_text("{")
    with pytest.raises(TraceError, match=r"x\.json"):
        folder.read_json("x.json")


def test_judges_of_a_run_of_an_export_or_of_a_folder(tmp_path: Path) -> None:
    suite = seed_suite(dimensions=("plan_quality", "tool_calling"))
    run = RunFolder.of(config(tmp_path), HASHES)
    suite.save(run.programs("tuned"))
    with pytest.raises(PipelineError, match="tuning has not ended"):
        open_judges(run.path)
    run.write_json("metrics.json", {"dimensions": {name: {} for name in suite.programs}})
    suite.save(tmp_path / "export" / "judges")
    (tmp_path / "export" / "manifest.json").write_text("{}")
    for path in (run.path, tmp_path / "export", tmp_path / "export" / "judges"):
        assert open_judges(path) == suite
    with pytest.raises(JudgeError, match="holds no judge program"):
        open_judges(tmp_path)


@pytest.mark.parametrize("place", ["evaluate", "experiment"])
def test_judges_are_named_the_same_way_everywhere(tmp_path: Path, place: str) -> None:
    suite = seed_suite(dimensions=("plan_quality",))
    suite.save(tmp_path / "export" / "judges")
    (tmp_path / "export" / "manifest.json").write_text("{}")
    if place == "evaluate":
        rows = Dataset(simulate(2, 1))
        rows.save(tmp_path / "data.jsonl")
        found = measure(
            Measurement(tmp_path / "data.jsonl", tmp_path / "export", out=tmp_path / "found"), lambda _: None
        )
        assert list(found.dimensions) == ["plan_quality"]
    else:
        judges = {"programs": str(tmp_path / "export"), "dimensions": ["plan_quality"]}
        assert load_judges(config(tmp_path, judges=judges))[0] == suite


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:secret-1@host/db",
        "postgresql://me:pa'secret-1@host/db",
        "postgresql://me:pa secret-1@host/db",
        "postgresql://me:12/secret-1@host/db",
        "mysql://host/db?user=me&passwd=pa'secret-1",
    ],
)
def test_no_file_keeps_the_password_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    """A database has no other place for it than the URI."""
    folder = RunFolder.of(config(tmp_path, tracking={"uri": uri}), HASHES)
    assert all(b"secret-1" not in file.read_bytes() for file in folder.path.iterdir())
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(PipelineError, match="the whole URI in MLFLOW_TRACKING_URI"):
        RunFolder.open(folder.path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("host", "other"))
    with pytest.raises(PipelineError, match="the whole URI in MLFLOW_TRACKING_URI"):
        RunFolder.open(folder.path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert RunFolder.open(folder.path)[1].tracking.uri == uri


@pytest.mark.parametrize("change", [("PASS", "FAIL"), ("0.5", "0.6"), ('"hash"', '"rash"'), ("{", "[{")])
def test_what_was_changed_by_hand_is_told(tmp_path: Path, change: tuple[str, str]) -> None:
    folder = RunFolder(tmp_path)
    value = {"verdict": "PASS", "gain": [0.5, None], "by": {"z": 1, "a": "é"}}
    assert folder.read_sealed("v.json") is None
    folder.write_sealed("v.json", value)
    assert folder.read_sealed("v.json") == value
    text = (tmp_path / "v.json").read_text()
    closing = "]" if "[{" in change else ""
    (tmp_path / "v.json").write_text(text.replace(*change, 1) + closing)
    with pytest.raises(PipelineError, match=r"v\.json was changed after it was written"):
        folder.read_sealed("v.json")
