from __future__ import annotations

import shlex
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.cli import main
from pipeline.config import PipelineError
from pipeline.schedule import crontab_line, needs, parse_cron, run_forever, workflow

MONDAY = datetime(2026, 11, 30, 6, 0)


def test_a_cron_expression_says_when() -> None:
    due = parse_cron("0 6 * * 1")
    assert due(MONDAY)
    assert not due(MONDAY + timedelta(minutes=1))
    assert not due(MONDAY + timedelta(days=1))
    quarter = parse_cron("*/15 9-17 * 1,7 *")
    assert quarter(datetime(2026, 7, 4, 9, 45))
    assert not quarter(datetime(2026, 8, 4, 9, 45))


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("", "has 0 fields"),
        ("0 6 * *", "has 4 fields"),
        ("0 6 * * * *", "has 6 fields"),
        ("60 6 * * *", "60"),
        ("0 6 * * mon", "mon"),
        ("0 24 * * *", "24"),
        ("0 6 * * 8", "8"),
        ("x 6 * * *", "x"),
        ("*/0 6 * * *", "zero"),
        ("0 6 1 * 1", "days of the month and of the week"),
    ],
)
def test_what_is_no_cron_expression(expression: str, what: str) -> None:
    with pytest.raises(PipelineError, match=what):
        parse_cron(expression)


def test_a_crontab_line_survives_odd_paths() -> None:
    line = crontab_line("0 6 * * 1", Path("/a b/50%.yaml"), Path("/a b/log"))
    assert line.startswith("0 6 * * 1 ")
    command = line.removeprefix("0 6 * * 1 ")
    # cron itself turns \% into %.
    words = shlex.split(command.replace("\\%", "%"))
    assert words[1:] == ["-m", "pipeline.cli", "recalibrate", "/a b/50%.yaml", ">>", "/a b/log", "2>&1"]
    assert "%" not in command.replace("\\%", "")


def test_a_workflow_is_yaml_that_runs_the_pass() -> None:
    read = yaml.safe_load(workflow("0 6 * * 1", Path("ops/recalibration.yaml"), Path("ops/state")))
    assert read[True]["schedule"] == [{"cron": "0 6 * * 1"}]  # YAML reads `on` as a truth value
    assert read["concurrency"]["cancel-in-progress"] is False
    steps = read["jobs"]["recalibrate"]["steps"]
    # The name alone could be somebody else's package.
    assert [step["run"] for step in steps if "pip" in step.get("run", "")] == ['pip install "${{ vars.GPA_JUDGES }}"']
    assert any(step.get("run", "").startswith("gpa-judges recalibrate ops/recalibration.yaml") for step in steps)
    assert [step["uses"] for step in steps if step.get("with", {}).get("path") == "ops/state"] == [
        "actions/cache/restore@v4",
        "actions/cache/save@v4",
    ]


@pytest.mark.parametrize(
    ("uri", "reached"),
    [("http://127.0.0.1:5000", False), ("sqlite:////x/mlflow.db", False), ("https://mlflow.example.org", True)],
)
def test_a_workflow_needs_a_server_that_it_can_reach(uri: str, reached: bool) -> None:
    assert any("cannot reach MLflow at" in line for line in needs("github-actions", uri)) != reached


def test_odd_paths_stay_paths() -> None:
    state = "a: b # c"
    read = yaml.safe_load(workflow("0 6 * * 1", Path("r.yaml"), Path(state)))
    paths = [
        step["with"].get("path") for step in read["jobs"]["recalibrate"]["steps"] if "cache" in step.get("uses", "")
    ]
    assert paths == [state, state]


class Stop(Exception):
    pass


def test_the_loop_runs_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [MONDAY - timedelta(minutes=2, seconds=-30)]
    ran: list[list[str]] = []
    said: list[str] = []

    class Ended:
        returncode = 4

    def sleep(seconds: float) -> None:
        clock[0] += timedelta(seconds=seconds)
        if clock[0] > MONDAY + timedelta(minutes=5):
            raise Stop

    def run(command: list[str], **_: Any) -> Ended:
        ran.append(command)
        clock[0] += timedelta(seconds=90)  # over the next minute
        return Ended()

    monkeypatch.setattr("pipeline.schedule.subprocess.run", run)
    with pytest.raises(Stop):
        run_forever(parse_cron("0-1 6 * * 1"), Path("/c.yaml"), said.append, lambda: clock[0], sleep)
    assert [command[-2:] for command in ran] == [["recalibrate", "/c.yaml"]]
    assert said == ["2026-11-30 06:00: the pass ended with exit code 4"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "recalibration.yaml"
    path.write_text("mlflow: {uri: x, experiment: y}\n", encoding="utf-8")
    return path


def test_through_the_command_line(
    config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["schedule", str(config), "--cron", "0 6 * * 1", "--target"]
    assert main([*command, "cron"]) == 0
    shown = capsys.readouterr()
    assert str(config) in shown.out
    assert len(shown.out.splitlines()) == 1  # ready for a crontab
    assert "crontab -e" in shown.err
    assert "OPENAI_API_KEY" in shown.err
    out = config.parent / ".github" / "workflows" / "r.yml"
    assert main([*command, "github-actions"]) == 2  # outside of the repository
    monkeypatch.chdir(config.parent)
    assert main([*command, "github-actions", "--out", str(out)]) == 0
    assert "gpa-judges recalibrate" in out.read_text(encoding="utf-8")
    assert "the variable GPA_JUDGES" in capsys.readouterr().err
    assert main([*command, "cron", "--out", str(out)]) == 2
    assert main(["schedule", str(config), "--cron", "never", "--target", "cron"]) == 2
