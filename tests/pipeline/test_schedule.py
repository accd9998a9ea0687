from __future__ import annotations

import shlex
import subprocess
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
        ("0 6 * * 1\n", "one line"),
        ("0 6\n* * 1", "one line"),
        ("0 6\u2003* * 1", "one line"),
        ("0 ٦ * * 1", "is no hour"),
        ("0 6² * * 1", "is no hour"),
        ("0 22-6 * * *", "'22-6' is no hour"),
        ("0 6 * * 5-1", "'5-1' is no day_of_week"),
        ("*/100 6 * * *", "'\\*/100' is no minute"),
        ("0 */24 * * *", "is no hour"),
        ("0,,5 6 * * *", "'' is no minute"),
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
    assert words[1:] == ["-P", "-m", "pipeline.cli", "recalibrate", "/a b/50%.yaml", ">>", "/a b/log", "2>&1"]
    assert "%" not in command.replace("\\%", "")


def test_a_workflow_is_yaml_that_runs_the_pass() -> None:
    read = yaml.safe_load(workflow("0 6 * * 1", Path("ops/recalibration.yaml"), Path("ops/state")))
    assert read["on"]["schedule"] == [{"cron": "0 6 * * 1"}]
    assert read["concurrency"]["cancel-in-progress"] is False
    steps = read["jobs"]["recalibrate"]["steps"]
    # The name alone could be somebody else's package.
    assert [step["run"] for step in steps if "pip" in step.get("run", "")] == ['pip install "${{ vars.GPA_JUDGES }}"']
    assert any(step.get("run", "").startswith("gpa-judges recalibrate ops/recalibration.yaml") for step in steps)
    assert [step["uses"] for step in steps if step.get("with", {}).get("path") == "ops/state"] == [
        "actions/cache/restore@v4",
        "actions/cache/save@v4",
    ]
    saved = next(step["with"]["key"] for step in steps if step.get("uses") == "actions/cache/save@v4")
    # A key is written once, and a run that is run again keeps its id.
    assert saved.endswith("${{ github.run_id }}-${{ github.run_attempt }}")


@pytest.mark.parametrize(
    ("uri", "reached"),
    [("http://127.0.0.1:5000", False), ("sqlite:////x/mlflow.db", False), ("https://mlflow.example.org", True)],
)
def test_a_workflow_needs_a_server_that_it_can_reach(uri: str, reached: bool) -> None:
    assert any("cannot reach MLflow at" in line for line in needs("github-actions", uri)) != reached


@pytest.mark.parametrize("path", ["a: b # c", "judges (prod): x", "a #b", "- a", "'é\" ${x}", "state: "])
def test_odd_paths_stay_paths(path: str) -> None:
    read = yaml.safe_load(workflow("*/5 6 * * 1", Path(path) / "r.yaml", Path(path)))
    steps = read["jobs"]["recalibrate"]["steps"]
    assert [step["with"].get("path") for step in steps if "cache" in step.get("uses", "")] == [path, path]
    (command,) = (step["run"] for step in steps if "recalibrate" in step.get("run", ""))
    assert shlex.split(command) == ["gpa-judges", "recalibrate", f"{path}/r.yaml", "--json"]
    env = next(step["env"] for step in steps if "env" in step)
    assert env["OPENAI_API_KEY"] == "${{ secrets.OPENAI_API_KEY }}"


@pytest.mark.parametrize("path", ["!state", "#state", "~/state", "st*te", "s[ab]", "a\n!b", "${{ secrets.X }}"])
def test_what_github_would_read_as_something_else(path: str) -> None:
    with pytest.raises(PipelineError, match="GitHub"):
        workflow("0 6 * * 1", Path("r.yaml"), Path(path))
    with pytest.raises(PipelineError, match="reads an expression"):
        workflow("0 6 * * 1", Path("${{ secrets.X }}/r.yaml"), Path("state"))


def test_a_program_in_the_folder_of_now_is_not_ours(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (config.parent / "pipeline.py").write_text("raise SystemExit('not ours')", encoding="utf-8")
    line = crontab_line("0 6 * * 1", config, config.parent / "log").removeprefix("0 6 * * 1 ")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    done = subprocess.run(line.replace("recalibrate", "recalibrate --help", 1), shell=True, cwd=config.parent)
    assert done.returncode == 0
    assert "usage: gpa-judges recalibrate" in (config.parent / "log").read_text(encoding="utf-8")


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
    was = config.read_text(encoding="utf-8")
    assert main([*command, "github-actions", "--out", str(config)]) == 2
    assert config.read_text(encoding="utf-8") == was
    daily = ["schedule", str(config), "--cron", "0 6 * * *", "--target", "github-actions", "--out", str(out)]
    assert main([*command, "github-actions", "--out", str(out)]) == 0
    assert main(daily) == 2
    assert main([*daily, "--force"]) == 0
    assert "0 6 * * *" in out.read_text(encoding="utf-8")
    assert main(["schedule", str(config), "--cron", "never", "--target", "cron"]) == 2
