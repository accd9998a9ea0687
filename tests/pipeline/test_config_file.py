"""Whatever stands in a configuration file, it is accepted or refused with file and key; never anything else."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from judges.ledger.budget import Budget, Price
from pipeline.config import PipelineError
from pipeline.config_file import checked, load_config, parse_config
from pipeline.optimizers import OPTIMIZERS
from pipeline.prepare import load_judges
from pipeline.recalibration.config import RecalibrationConfig, load_recalibration

EXAMPLE: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "experiments" / "simulated.yaml").read_text(encoding="utf-8")
)
GATES = {"primary": "f1", "margins": {"coverage": 0.05, "alpha": None}, "scored_share": 0.9, "least_gain": 0.01}
STRANGE: tuple[Any, ...] = (
    *(None, [], ["x"], [1], "x", "", -1, -1.5, float("nan"), float("inf"), 10**30, True, {}, {"a": {"b": 1}}, {1: 2}),
    *(datetime.date(2026, 1, 1), "\ud800", [["x"]], {"x": None}),
)
Path_ = tuple[str | int, ...]


def settings_of(name: str) -> dict[str, Any]:
    """The default settings of an optimizer, as a file holds them."""
    optimizer: Any = OPTIMIZERS[name]()
    settings = dataclasses.asdict(optimizer.settings) if hasattr(optimizer, "settings") else {}
    return dict(json.loads(json.dumps(settings)))


def places(value: Any, path: Path_ = ()) -> Iterator[Path_]:
    if path:
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*path, key))


def changed(values: Any, path: Path_, value: Any) -> Any:
    values = copy.deepcopy(values)
    holder = values
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return values


def is_named(path: Path_, message: str) -> bool:
    """Whether the last two keys on the way are in the message: `validation.repeats`, or `gepa setting repeats`."""
    return all(key in message for key in [key for key in path if isinstance(key, str)][-2:])


EXPERIMENTS = {
    "example": {**EXAMPLE, "validation": {"repeats": 3, "gates": GATES}, "prices": {"m": [1, 2]}},
    **{
        name: {"name": "x", "data": {"path": "x"}, "search": {"optimizer": name, "settings": settings_of(name)}}
        for name in OPTIMIZERS
    },
}


def refusals(values: Any, load: Callable[[Any], object]) -> int:
    """Puts every strange value at every place; how many were refused, each with file and key."""
    messages = {}
    for path in places(values):
        for number, value in enumerate(STRANGE):
            try:
                load(changed(values, path, value))
            except PipelineError as error:
                messages[path, number] = str(error)
    assert [said for said in messages.values() if not said.startswith("file.yaml: ")] == []
    assert [(path, said) for (path, _), said in messages.items() if not is_named(path, said)] == []
    return len(messages)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_any_value_of_an_experiment(name: str, tmp_path: Path) -> None:
    def load(values: Any) -> None:
        config = parse_config(values, "file.yaml", tmp_path)
        # What is made from it later is made without a complaint.
        Price.parse(config.prices)
        Budget(**config.budget.model_dump())
        if config.judges.programs is None:
            load_judges(config)

    assert refusals(EXPERIMENTS[name], load) > 50


def test_any_value_of_a_recalibration() -> None:
    shared = {key: EXPERIMENTS["example"][key] for key in ("matcher", "search", "validation", "prices", "budget")}
    values = {
        "mlflow": {"uri": "x", "experiment": "y", "judges": None, "prefix": "gpa_", "filter": None},
        "labels": {"least_traces": 60, "fractions": [0.3, 0.2, 0.5], "taxonomy": "trail"},
        "drift": {"metrics": ["f1"], "margin": 0.05, "repeats": 2},
        "calls": {"concurrency": 8, "timeout": 60.0},
        **shared,
    }
    assert refusals(values, lambda changed: checked(RecalibrationConfig, changed, "file.yaml")) > 300


@pytest.mark.parametrize(
    "line", ["seed: 2026-01-01", "seed: 2026-99-99", "seed: 1\nseed: 2", "a: &a [*a]", f"a: {'[' * 3000}", "a: !!x y"]
)
def test_what_json_does_not_have(line: str, tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(f"name: x\ndata: {{simulated: {{}}}}\nmlflow: {{uri: x, experiment: y}}\n{line}\n")
    for load in (load_config, load_recalibration):
        with pytest.raises(PipelineError, match=r"file\.yaml, line [45]"):
            load(path)


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        ({"margins": None}, "f.yaml: validation.gates.margins: accepted is a valid dictionary (given: None)"),
        ({"margins": {"coverage": "x"}}, "f.yaml: validation.gates.margins.coverage: accepted is a valid number"),
        ({"scored_share": "x"}, "f.yaml: validation.gates.scored_share: accepted is a valid number (given: 'x')"),
        ({"primary": ["f1"]}, "f.yaml: validation.gates.primary: accepted is a valid string"),
        ({"primary": "f2"}, "f.yaml: validation.gates: primary: 'f2' is unknown: accepted are coverage"),
    ],
)
def test_gates_name_file_and_key(gates: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError) as error:
        parse_config({"name": "x", "data": {"path": "x"}, "validation": {"gates": gates}}, "f.yaml", Path("/"))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("sqlite:///mine.db", "sqlite:////of/the/file/mine.db"),
        ("sqlite:///../mine.db", "sqlite:////of/the/file/../mine.db"),
        ("sqlite:////abs/mine.db", "sqlite:////abs/mine.db"),
        ("sqlite:///$HERE/mine.db", "sqlite:///$HERE/mine.db"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("sqlite://", "sqlite://"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        (None, None),
    ],
)
def test_a_relative_database_is_relative_to_the_file(uri: str | None, expected: str | None) -> None:
    steps = [{"optimizer": "optuna", "settings": {"storage": uri}}, {"optimizer": "gepa"}]
    config = parse_config(
        {"name": "x", "data": {"path": "x"}, "search": steps, "tracking": {"uri": uri}}, "f.yaml", Path("/of/the/file")
    )
    assert config.search[0].settings == {"storage": expected}
    assert config.search[1].settings == {}
    assert config.tracking.uri == expected
