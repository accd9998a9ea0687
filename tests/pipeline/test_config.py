from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.config import ExperimentConfig, PipelineError, SearchConfig
from pipeline.config_file import load_config, parse_config
from pipeline.gates import Gates
from pipeline.optimizers import OPTIMIZERS
from pipeline.settings import build_optimizer

SMALLEST: dict[str, Any] = {"name": "first", "data": {"path": "data.jsonl"}}


def message(values: Any) -> str:
    with pytest.raises(PipelineError) as error:
        parse_config(values, "file.yaml", Path("/somewhere"))
    return str(error.value)


def test_the_smallest_experiment_has_all_defaults() -> None:
    config = parse_config(SMALLEST, "file.yaml", Path("/somewhere"))
    assert [step.optimizer for step in config.search] == ["gepa"]
    assert config.matcher.kind == "span"
    assert len(config.judges.dimensions) == 7
    assert config.budget.calls is None


def test_relative_paths_belong_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "name: a\noutput: out\ndata: {path: ../data.jsonl}\n"
        "split: {manifest: s.json}\njudges: {programs: /abs/programs}\n"
    )
    config = load_config(file)
    assert config.output == tmp_path / "out"
    assert config.data.path == tmp_path / ".." / "data.jsonl"
    assert config.split.manifest == tmp_path / "s.json"
    assert config.judges.programs == Path("/abs/programs")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"serch": {}}, ["file.yaml", "`serch`", "did you mean `search`?", "accepted are name, data, seed"]),
        ({"judges": {"modle": "x"}}, ["`judges.modle`", "did you mean `model`?", "dimensions"]),
        ({"data": {"simulated": {"trces": 50}}}, ["`data.simulated.trces`", "`traces`", "fault_scale"]),
        ({"prices": {"openai/m": [1]}}, ["`prices.openai/m`", "at least 2 items"]),
        ({"judges": {"dimensions": ["plan_qualty"]}}, ["judges.dimensions", "did you mean `plan_quality`?"]),
        ({"judges": {"dimensions": []}}, ["at least one dimension"]),
        ({"judges": {"dimensions": ["plan_quality", "plan_quality"]}}, ["each once"]),
        ({"validation": {"repeats": 0}}, ["`validation.repeats`", "greater than or equal to 1", "given: 0"]),
        ({"data": {}}, ["`data`", "exactly one of `path` and `simulated`"]),
        ({"data": {"path": "a", "simulated": {}}}, ["exactly one of `path` and `simulated`"]),
        ({"name": "../up"}, ["`name`"]),
        ({"budget": {"dollars": 0}}, ["`budget.dollars`", "greater than 0"]),
        ({"search": 3}, ["`search`"]),
    ],
)
def test_what_is_not_accepted_is_named(change: dict[str, Any], parts: list[str]) -> None:
    text = message({**SMALLEST, **change})
    for part in parts:
        assert part in text


def test_a_key_that_resembles_nothing_gets_no_guess() -> None:
    assert "did you mean" not in message({**SMALLEST, "zzz": 1})


def test_all_faults_are_told_at_once() -> None:
    text = message({"nme": "x", "rule": {"repeats": 0}})
    assert "the key `name` is missing" in text
    assert "the key `data` is missing" in text
    assert "did you mean `name`?" in text
    assert "rule.repeats" in text


@pytest.mark.parametrize("values", [None, [], "text", 3])
def test_a_file_that_is_no_mapping(values: Any) -> None:
    assert "accepted is a mapping with the keys name, data" in message(values)


@pytest.mark.parametrize("content", [b"a: [", b"\xff\xfe\x00", b"a: b: c"])
def test_a_file_that_is_no_yaml(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    with pytest.raises(PipelineError, match=r"bad\.yaml"):
        load_config(file)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"none\.yaml"):
        load_config(tmp_path / "none.yaml")


def test_only_set_knobs_override_a_program() -> None:
    config = parse_config({**SMALLEST, "judges": {"model": "simulated/forgetful"}}, "f", Path("/"))
    assert config.judges.knobs == {"model": "simulated/forgetful"}
    config = parse_config({**SMALLEST, "judges": {"layout": "mlflow"}}, "f", Path("/"))
    assert config.judges.knobs == {"layout": "mlflow"}
    with pytest.raises(PipelineError, match=r"judges\.layout.*shared_prefix"):
        parse_config({**SMALLEST, "judges": {"layout": "chat"}}, "f", Path("/"))


def test_the_values_round_trip() -> None:
    config = parse_config(SMALLEST, "f", Path("/somewhere"))
    assert parse_config(config.model_dump(mode="json"), "f", Path("/elsewhere")) == config
    assert isinstance(config, ExperimentConfig)


def test_the_example_names_every_key_with_its_default() -> None:
    file = Path(__file__).parents[2] / "experiments" / "simulated.yaml"
    config = load_config(file)
    default = parse_config({"name": "simulated", "data": {"simulated": {}}}, "f", file.parent)
    shown, expected = config.model_dump(), default.model_dump()
    chosen = {
        ("judges", "model"): "simulated/default",
        ("matcher", "kind"): "text",
        ("validation", "gates"): asdict(Gates()),
    }
    for (section, key), value in chosen.items():
        assert shown[section].pop(key) == value
        expected[section].pop(key)
    del shown["search"], expected["search"]
    assert shown == expected
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert set(written) == set(ExperimentConfig.model_fields)
    for section, values in written.items():
        if isinstance(expected.get(section), dict) and section not in ("data", "prices"):
            assert set(values) == set(config.model_dump()[section]), section


def test_the_example_states_the_optimizers_defaults() -> None:
    """Those of the steps that stand there as comments too."""
    text = (Path(__file__).parents[2] / "experiments" / "simulated.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(re.sub(r"^  # (?=- optimizer|  )", "  ", text, flags=re.MULTILINE))
    config = parse_config(values, "f", Path("/"))
    assert {step.optimizer for step in config.search} == set(OPTIMIZERS)
    for step in config.search:
        optimizer: Any = build_optimizer(step.optimizer, step.settings)
        if step.optimizer != "seed":
            given, default = asdict(optimizer.settings), asdict(type(optimizer)().settings)
            assert json.loads(json.dumps(given)) == json.loads(json.dumps(default))
            assert len(step.settings) >= 9
        assert step.model_copy(update={"optimizer": "gepa", "settings": {}}) == SearchConfig()
    assert Gates.parse(config.validation.gates) == Gates()


@pytest.mark.parametrize(
    "change",
    [
        {"judges": {"endpoint": "https://secret-1@host/v1"}},
        {"judges": {"endpoint": "https://host/v1?api_key=secret-1"}},
        {"judges": {"endpoint": "https://host/v1;key=secret-1"}},
        {"judges": {"endpoint": "https://host/v1/key/secret-1"}},
        {"judges": {"endpoint": "https://host/sk-secret-1/v1"}},
        {"search": {"reflection_endpoint": "https://me:secret-1@host/v1"}},
        {"tracking": {"uri": "https://me:secret-1@host:5000"}},
        {"ledger": "postgresql://me:secret-1@host/db"},
        {"ledger": "postgresql://host/db?user=me&password=secret-1"},
    ],
)
def test_a_secret_is_refused_and_not_repeated(change: dict[str, Any]) -> None:
    said = message({**SMALLEST, **change})
    assert "environment" in said or "comes from PGPASSWORD" in said
    assert "secret-1" not in said
