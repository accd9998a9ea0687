from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from pipeline.config import PipelineError, SearchConfig
from pipeline.config_file import checked
from pipeline.gates import Gates
from pipeline.recalibration.config import RecalibrationConfig, load_recalibration

SMALLEST = "mlflow: {uri: x, experiment: y}\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "r.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_smallest_file(tmp_path: Path) -> None:
    config = load_recalibration(write(tmp_path, SMALLEST))
    assert config.state == tmp_path / "recalibration"
    assert (config.mlflow.home, config.mlflow.prefix) == ("y", "gpa_")
    assert [step.optimizer for step in config.search] == ["gepa"]
    experiment = config.experiment(tmp_path, ("plan_quality",))
    assert experiment.data.path == tmp_path / "labels.jsonl"
    assert experiment.judges.programs == tmp_path / "champion"
    assert experiment.search == config.search


def test_a_relative_database_is_relative_to_the_file(tmp_path: Path) -> None:
    step = "search: {optimizer: optuna, settings: {storage: 'sqlite:///study.db'}}\n"
    config = load_recalibration(write(tmp_path, "mlflow: {uri: 'sqlite:///mlflow.db', experiment: y}\n" + step))
    assert config.mlflow.uri == f"sqlite:///{tmp_path}/mlflow.db"
    assert config.search[0].settings == {"storage": f"sqlite:///{tmp_path}/study.db"}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("budgets: {}", r"unknown key `budgets` \(did you mean `budget`"),
        ("drift: {margins: 1}", r"unknown key `drift.margins` \(did you mean `margin`"),
        ("drift: {metrics: [f2]}", "'f2' is unknown"),
        ("drift: {metrics: []}", "at least one metric"),
        ("labels: {fractions: [0.5, 0.5, 0.5]}", "add up to 1"),
        ("labels: {least_traces: 1}", "greater than or equal to 10"),
        ("search: {optimizer: magic}", "'magic' is unknown"),
        ("search: []", "one step"),
        ("validation: {gates: {primary: charm}}", "charm"),
        ("mlflow: {uri: x, experiment: y, prefix: 'a b'}", "prefix"),
    ],
)
def test_what_is_refused(tmp_path: Path, line: str, what: str) -> None:
    text = line if line.startswith("mlflow") else SMALLEST + line
    with pytest.raises(PipelineError, match=what):
        load_recalibration(write(tmp_path, text))


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"cannot be read.*accepted is a YAML file"):
        load_recalibration(tmp_path / "none.yaml")
    with pytest.raises(PipelineError, match="accepted is a YAML mapping"):
        load_recalibration(write(tmp_path, "- 1"))


def test_the_example_names_every_key_with_its_default() -> None:
    file = Path(__file__).parents[3] / "experiments" / "recalibration.yaml"
    config = load_recalibration(file)
    default = checked(RecalibrationConfig, {"mlflow": config.mlflow.model_dump()}, "f")
    shown, expected = config.model_dump(), default.model_dump()
    assert (shown.pop("state"), expected.pop("state")) == (file.parent / "recalibration", Path("recalibration"))
    assert Gates.parse(shown["validation"].pop("gates")) == Gates.parse(expected["validation"].pop("gates")) == Gates()
    assert shown == expected
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert set(written) == set(RecalibrationConfig.model_fields)
    assert set(written["search"]) == set(SearchConfig.model_fields)
    assert {*written["validation"]["gates"]} == {field.name for field in fields(Gates)}
    for name in ("mlflow", "labels", "drift", "calls", "matcher", "selection", "rule", "validation", "budget"):
        assert set(written[name]) == set(config.model_dump()[name]), name
