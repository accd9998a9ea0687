"""Judges that were tuned before bring with them what they must not be tested on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.split import LeakageError
from labeled_traces.stable_split import held_before
from pipeline.config import ExperimentConfig, PipelineError
from pipeline.config_file import parse_config
from pipeline.export.folder import export_to_folder
from pipeline.export.run_export import TunedRun
from pipeline.measure import Measurement, open_evaluation
from pipeline.prepare import prepare
from pipeline.run import optimize
from pipeline.run_folder import PLACES, RunFolder
from pipeline.tuned_on import tuned_on

pytestmark = pytest.mark.usefixtures("by_hand")
REFUSED = r"these judges were tuned on \d+ of the traces that are held out here, first 'sim-0-.*recalibrate"


def quiet(_: str) -> None: ...


def experiment(output: Path, programs: Path | None = None, **changes: Any) -> ExperimentConfig:
    values: dict[str, Any] = {
        "name": "small",
        "output": str(output),
        "data": {"simulated": {"traces": 40}},
        "judges": {
            "model": "simulated/default",
            "dimensions": ["tool_calling"],
            "holistic": False,
            "programs": programs and str(programs),
        },
        "search": {"optimizer": "by_hand"},
        "rule": {"enabled": False},
        "tracking": {"enabled": False},
    }
    return parse_config({**values, **changes}, "test", output)


@pytest.fixture
def first(tmp_path: Path) -> RunFolder:
    return optimize(experiment(tmp_path), quiet)[0].folder


@pytest.mark.parametrize("which", ["run", "programs", "export", "exported judges"])
def test_judges_of_another_split_are_refused(tmp_path: Path, first: RunFolder, which: str) -> None:
    export_to_folder(TunedRun.open(first.path), tmp_path / "judges-of-may")
    programs = {
        "run": first.path,
        "programs": first.programs("tuned"),
        "export": tmp_path / "judges-of-may",
        "exported judges": tmp_path / "judges-of-may" / "judges",
    }[which]
    with pytest.raises(LeakageError, match=REFUSED):
        prepare(experiment(tmp_path, programs, split={"seed": 1}), quiet)
    prepare(experiment(tmp_path, programs), quiet)
    prepare(experiment(tmp_path, programs, data={"simulated": {"traces": 40, "seed": 4}}), quiet)
    prepare(experiment(tmp_path, first.programs("seed"), split={"seed": 1}), quiet)


def test_what_judges_came_from_is_known_over_several_runs(tmp_path: Path, first: RunFolder) -> None:
    other = {"simulated": {"traces": 40, "seed": 4}}
    second = optimize(experiment(tmp_path, first.path, data=other), quiet)[0].folder
    assert set(tuned_on(first.path)) < set(tuned_on(second.path))
    assert set(tuned_on(second.programs("seed"))) == set(tuned_on(first.path))
    with pytest.raises(LeakageError, match=REFUSED):
        prepare(experiment(tmp_path, second.path, split={"seed": 1}), quiet)


def test_an_evaluation_of_a_testset_that_judges_were_tuned_on_is_refused(tmp_path: Path, first: RunFolder) -> None:
    data, split = first["data.jsonl"], tmp_path / "other.json"
    prepare(experiment(tmp_path, split={"seed": 1}), quiet).manifest.save(split)
    with pytest.raises(LeakageError, match=REFUSED):
        open_evaluation(Measurement(data, first.path, split=split, parts=("testset",)), quiet)
    open_evaluation(Measurement(data, first.path, split=split, parts=("trainset",)), quiet)
    open_evaluation(Measurement(data, first.path, split=first["split.json"], parts=("testset",)), quiet)


def test_other_runs_of_a_task_are_said_and_ids_that_tell_count(tmp_path: Path, first: RunFolder) -> None:
    lines: list[str] = []
    prepare(experiment(tmp_path, first.path, data={"simulated": {"traces": 40, "seed": 4}}), lines.append)
    assert any("tuned on other runs of the tasks of" in line and "'sim-4-" in line for line in lines)
    lines.clear()
    prepare(experiment(tmp_path, first.path), lines.append)
    assert not any("warning" in line for line in lines)
    place = replace(tuned_on(first.path)[0], content="")
    row = Dataset.load(first["data.jsonl"])[place.trace_id]
    assert held_before([row], [place]) == ([row], [])
    assert held_before([row], [replace(place, trace_id="x")]) == ([], [row])
    assert held_before([row], [replace(place, trace_id="x", group="", task="")]) == ([], [])


def test_a_damaged_record_is_said(tmp_path: Path, first: RunFolder) -> None:
    found = json.loads(first[PLACES].read_text())
    first[PLACES].write_text(json.dumps({**found, "places": found["places"][1:]}))
    with pytest.raises(PipelineError, match=r"places\.json is damaged, so nobody knows what these judges were tuned"):
        prepare(experiment(tmp_path, first.path), quiet)
