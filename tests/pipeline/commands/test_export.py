from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.program import JudgeSuite, Knobs, seed_suite
from pipeline.cli import main
from pipeline.export.scorer import READS
from pipeline.run_folder import RunFolder

NAMES = ("plan_quality", "tool_calling")


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tuned run in the current folder."""
    monkeypatch.chdir(tmp_path)
    folder = RunFolder(tmp_path / "runs" / "a-run-1a2b3c4d")
    folder.write_yaml("config.yaml", {"name": "a-run", "data": {"path": "data.jsonl"}})
    folder.write_json("metrics.json", {"dimensions": {name: {} for name in NAMES}})
    suite = seed_suite(Knobs(model="openai/m", layout="mlflow"), NAMES)
    suite.save(folder.programs("tuned"))
    folder.write_sealed("validation.json", {"verdict": "PASS", "provenance": {"tuned judges": suite.hash}})
    return folder.path


def test_to_mlflow(run_dir: Path, mlflow_database: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["export", str(run_dir), "--to", "mlflow", "--tracking-uri", mlflow_database]
    command += ["--experiment", "by command", "--name-prefix", "cmd_"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "tool_calling  prompts:/cmd_tool_calling/1  cmd_tool_calling  1" in shown
    assert f"Alias champion in experiment by command of MLflow at {mlflow_database}" in shown
    assert "Verdict of exactly these judges: PASS" in shown
    score = f"gpa-judges score EXPERIMENT_WITH_TRACES --tracking-uri {mlflow_database} --judges 'by command'"
    assert f"{score} --name-prefix cmd_\n  gpa-judges recalibrate CONFIG.yaml" in shown
    assert READS in shown  # or whoever calls a scorer in MLflow's usual way takes its answers for a judgment
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["alias"], document["verdict"], document["simulated"]) == ("champion", "PASS", False)
    assert list(document["judges"]) == list(NAMES)


def test_to_a_folder(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(run_dir), "--to", "folder"]) == 0
    shown = capsys.readouterr().out
    assert shown == (
        f"2 judges: {run_dir / 'export'}\nVerdict: PASS\n\n"
        f"Next:\n  gpa-judges evaluate DATA --judges {run_dir / 'export'}\n"
    )
    assert READS in (run_dir / "export" / "README.md").read_text(encoding="utf-8")
    assert main(["export", str(run_dir), "--to", "folder", "--out", "shipped", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["to"], document["folder"], document["verdict"]) == ("folder", "shipped", "PASS")
    assert list(JudgeSuite.load(Path("shipped/judges")).programs) == list(NAMES)


@pytest.mark.parametrize("verdict", [None, "FAIL"])
@pytest.mark.parametrize("to", ["folder", "mlflow"])
def test_judges_without_a_pass_say_so(
    run_dir: Path, mlflow_database: str, verdict: str | None, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if verdict is None:
        (run_dir / "validation.json").unlink()
    else:
        folder = RunFolder(run_dir)
        folder.write_sealed("validation.json", {**(folder.read_sealed("validation.json") or {}), "verdict": verdict})
    where = ["--tracking-uri", mlflow_database, "--name-prefix", f"{verdict}_"] if to == "mlflow" else []
    assert main(["export", str(run_dir), "--to", to, *where]) == 0
    shown = capsys.readouterr().out
    assert ("validated with FAIL" if verdict else "not validated: nothing shows") in shown
    assert (f"  gpa-judges validate {run_dir}" in shown) == (verdict is None)
    if to == "mlflow":
        assert "Alias challenger" in shown
        assert "run champions, which need a PASS" in shown


@pytest.mark.parametrize("to", ["folder", "mlflow"])
def test_a_verdict_that_was_changed_by_hand_is_not_shipped(
    run_dir: Path, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = run_dir / "validation.json"
    path.write_text(path.read_text().replace("PASS", "INCONCLUSIVE"))
    assert main(["export", str(run_dir), "--to", to]) == 2
    said = capsys.readouterr().err
    assert f"{path} was changed after it was written" in said
    assert f"gpa-judges validate {run_dir}" in said
    assert not (run_dir / "export").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "folder", "--name-prefix", "x_"], "--name-prefix does not belong to --to folder"),
        (["--to", "folder", "--model", "openai/m"], "--model does not belong to --to folder"),
        (["--to", "folder", "--tracking-uri", "x"], "--tracking-uri does not belong to --to folder"),
        (["--to", "mlflow", "--out", "x"], "--out does not belong to --to mlflow"),
    ],
)
def test_options_of_the_other_kind(
    run_dir: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run_dir), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(tmp_path), "--to", "folder"]) == 2
    assert "is not a run" in capsys.readouterr().err
