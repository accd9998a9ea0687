"""The commands and files that the README shows, run as they stand: what needs a key, a server or minutes is replaced.

Its set-up lines install the project, and the demo is run by other tests.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from judges.mlflow_layout import build_messages
from judges.program import seed_program
from judges.render import render
from labeled_traces.dataset import Dataset
from labeled_traces.simulated import rate, simulate
from pipeline.cli import main
from pipeline.commands import COMMANDS
from pipeline.config import ExperimentConfig
from pipeline.config_file import checked
from pipeline.recalibration.config import RecalibrationConfig

TEXT = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
LINES = [shlex.split(line, comments=True) for kind, block in BLOCKS if kind == "sh" for line in block.splitlines()]
COMMAND_LINES = [words for words in LINES if words and words[0] == "gpa-judges"]
EXPERIMENT, RECALIBRATION = (block for kind, block in BLOCKS if kind == "yaml")


def test_it_shows_every_command() -> None:
    assert {words[1] for words in COMMAND_LINES} == set(COMMANDS)
    assert {kind for kind, _ in BLOCKS} == {"sh", "text", "yaml", "python"}  # another kind has no test here yet


def test_its_files_are_accepted() -> None:
    experiment = checked(ExperimentConfig, yaml.safe_load(EXPERIMENT), "README.md")
    assert checked(RecalibrationConfig, yaml.safe_load(RECALIBRATION), "README.md").search == experiment.search


def test_its_python_gives_a_judge_the_whole_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Dataset(rate(simulate(2, 0), 0)).save(Path("data.jsonl"))
    given: list[Any] = []
    (block,) = (block for kind, block in BLOCKS if kind == "python")
    exec(block, {"scorer": lambda inputs: given.append(inputs)})
    program = seed_program("plan_quality")
    sent = [build_messages(program, render(row.trace, program.knobs.trace_tokens))[1] for row in simulate(2, 0)]
    assert [f"inputs: {json.dumps(inputs, indent=2, ensure_ascii=False)}" for inputs in given] == [
        message.content for message in sent
    ]


def test_its_commands_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From traces to exported judges, in the order of the README, with a simulated model and few of everything."""
    monkeypatch.chdir(tmp_path)
    Dataset(rate(simulate(60, 0), 0)).save(tmp_path / "traces" / "traces.jsonl")
    (tmp_path / "annotations").mkdir()
    values = yaml.safe_load(EXPERIMENT.replace("openai/gpt-5", "simulated/default"))
    few = {"judges": {**values["judges"], "dimensions": ["tool_calling"], "holistic": False}, "rule": {"repeats": 1}}
    few |= {
        "search": {**values["search"], "settings": {"max_iterations": 2, "min_labels": 2}},
        "validation": {"repeats": 1},
    }
    Path("experiment.yaml").write_text(yaml.safe_dump({**values, **few, "tracking": {"enabled": False}}))
    Path("recalibration.yaml").write_text(RECALIBRATION)
    ran: dict[str, Any] = {}
    for words in COMMAND_LINES:
        name = words[1]
        if name not in ("import", "split", "evaluate", "optimize", "validate", "export", "schedule"):
            continue
        if name == "import" and name in ran:  # of a server, or with a table of labels
            continue
        changes = {"openai/gpt-5": "simulated/default", "mlflow": "folder"}
        line = [changes.get(word, word) for word in words[1:]]
        line = [ran["optimize"]["run_dir"] if word.startswith("runs/") else word for word in line]
        if name == "import":  # of simulated traces, which hold their labels
            line = [word for word in line if word not in ("--labels", "annotations/")]
        code = main([*line, "--json"])
        assert code in ((0, 1, 5) if name == "validate" else (0,)), capsys.readouterr().err
        ran[name] = json.loads(capsys.readouterr().out)
    assert list(ran) == ["import", "split", "evaluate", "optimize", "validate", "export", "schedule"]
    assert ran["import"]["traces"] == 60
    assert ran["evaluate"]["simulated"] is True
    assert set(ran["export"]["judges"]) == {"tool_calling"}
    assert "recalibrate" in ran["schedule"]["text"]
