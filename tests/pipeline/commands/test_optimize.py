from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pipeline.cli import main

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer

MORE = "- a query that the request did not ask for"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")


def optimize(server: ScriptedServer, **settings: Any) -> int:
    """A short search by a reflection model of the test's, whose judges are simulated."""
    short = {"val_traces": 10, "minibatch": 4, "max_calls": 150, "max_iterations": 3, "max_failures": 2}
    rule = {"finalists": 1, "repeats": 2, "level": 0.99}
    reflection = {"reflection_model": "openai/any", "reflection_endpoint": server.endpoint}
    experiment = {
        "name": "small",
        "data": {"simulated": {"traces": 60}},
        "judges": {"dimensions": ["tool_calling"]},
        "search": {**reflection, "settings": {**short, "selection": rule, **settings}},
        "rule": {"enabled": False},
        "tracking": {"enabled": False},
    }
    Path("small.yaml").write_text(yaml.safe_dump(experiment))
    return main(["optimize", "small.yaml", "--json"])


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("nothing to say", "the reflection reply holds no text"),
        ("<<<\n# Task\nRate it.\n>>>", "it holds a heading or fence of the contract"),
    ],
)
def test_a_reflection_model_that_gives_no_text_is_told(
    reply: str, why: str, scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_server(lambda _: reply) as server:
        assert optimize(server) == 3
    said = capsys.readouterr()
    texts = sum(search["tool_calling"]["texts"] for search in json.loads(said.out)["searches"])
    assert texts > 0
    assert f"WARNING: not one of {texts} texts of the reflection model could be tried" in said.err
    assert f"  warning: {texts} of {texts} texts of the reflection model openai/any could not be tried: " in said.err
    assert why in json.loads(said.out)["warning"]
    assert "do not spend the testset" not in said.err


def test_one_text_that_can_be_tried_is_a_search(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    def script(body: dict[str, Any]) -> str:
        prompt = body["messages"][-1]["content"]
        return f"<<<\n{prompt.split('<<<')[1].split('>>>')[0].strip()}\n{MORE}\n>>>"

    with scripted_server(script) as server:
        assert optimize(server) == 0
    said = capsys.readouterr()
    assert "could not be tried" not in said.err
    assert json.loads(said.out)["warning"] is None
