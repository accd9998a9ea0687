from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

from judges.decision import DecisionRule
from judges.ledger.upkeep import stats
from judges.lm import BudgetExhausted, JudgeError
from judges.program import JudgeSuite
from labeled_traces.dataset import Dataset
from labeled_traces.split import LeakageError, SplitManifest, make_split
from labeled_traces.trace import TraceError
from pipeline.config import BudgetConfig, ExperimentConfig, PipelineError
from pipeline.config_file import parse_config
from pipeline.evaluate import load_judgments
from pipeline.prepare import prepare
from pipeline.results import HEADLINE, Result
from pipeline.run import optimize, run_experiment, validate_run
from pipeline.run_folder import RunFolder

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[2]
TWO = ["logical_consistency", "tool_calling"]
pytestmark = pytest.mark.usefixtures("by_hand")


def quiet(_: str) -> None: ...


def experiment(output: Path, **changes: Any) -> ExperimentConfig:
    """Small and quick: two dimensions, few proposals, no MLflow."""
    values: dict[str, Any] = {
        "name": "small",
        "output": str(output),
        "data": {"simulated": {"traces": 120}},
        "judges": {"model": "simulated/default", "dimensions": TWO},
        "matcher": {"kind": "text"},
        "search": {"settings": {"max_calls": 600, "max_iterations": 4}},
        "validation": {"repeats": 2},
        "tracking": {"enabled": False},
    }
    return parse_config({**values, **changes}, "test", output)


def cheap(output: Path, **changes: Any) -> ExperimentConfig:
    """No search to speak of."""
    few = {"model": "simulated/default", "dimensions": TWO, "holistic": False}
    quick = {"search": {"optimizer": "by_hand"}, "rule": {"enabled": False}, "judges": few}
    return experiment(output, **{**quick, **changes})


def calls_in(folder: Path) -> int:
    with sqlite3.connect(folder / "ledger.sqlite") as db:
        count: int = db.execute("SELECT count(*) FROM calls").fetchone()[0]
    db.close()
    return count


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """One whole run, with MLflow."""
    config = experiment(tmp_path_factory.mktemp("whole"), tracking={"experiment": "tests"})
    return run_experiment(config, quiet)


def test_the_result_holds_every_number(finished: Result) -> None:
    document = finished.to_json()
    assert document == RunFolder(finished.run_dir).read_sealed("validation.json")
    assert set(document["testset"]) == {"seed", "tuned", "holistic", "flag_all", "silent", "guess"}
    for side in document["testset"].values():
        for metric in HEADLINE:
            assert {"value", "low", "high", "n"} <= set(side[metric])
            assert side[metric]["value"] is not None or side[metric]["reason"]
    assert document["verdict"] in ("PASS", "FAIL", "INCONCLUSIVE")
    assert document["simulated"] is True
    assert document["cost"] == 0
    assert document["calls"] == calls_in(finished.run_dir)
    assert document["tokens"] > document["calls"]
    assert document["differences"]["coverage"]["value"] == pytest.approx(
        document["testset"]["tuned"]["coverage"]["value"] - document["testset"]["seed"]["coverage"]["value"]
    )


def test_tuning_helps_in_the_simulated_world(finished: Result) -> None:
    assert (finished.differences["f1"].low or 0) > 0
    assert finished.beaten.get("f1", []) == []


def test_everything_lies_in_the_folder(finished: Result) -> None:
    folder = finished.run_dir
    seed, tuned = JudgeSuite.load(folder / "programs" / "seed"), JudgeSuite.load(folder / "programs" / "tuned")
    assert list(seed.programs) == list(tuned.programs) == TWO
    assert seed.hash != tuned.hash
    assert seed.rule == DecisionRule()
    assert finished.provenance["tuned judges"] == tuned.hash
    manifest = SplitManifest.load(folder / "split.json")
    data = Dataset.load(folder / "data.jsonl")
    manifest.check(data)
    held_out = load_judgments(folder / "judgments" / "testset-tuned.jsonl")
    assert {judgment.trace_id for judgment in held_out} == set(manifest.testset)
    development = load_judgments(folder / "judgments" / "development-tuned.jsonl")
    assert {judgment.trace_id for judgment in development} == {*manifest.trainset, *manifest.valset}
    metrics = json.loads((folder / "metrics.json").read_text())
    assert set(metrics["dimensions"]) == set(TWO)
    assert metrics["rule"]["rule"] == tuned.rule.to_json()
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    assert {trial["dimension"] for trial in trials} == set(TWO)
    assert {trial["program"] for trial in trials} >= {program.hash for program in tuned.programs.values()}
    assert "<svg" in (folder / "report.html").read_text()


def test_the_search_saw_no_held_out_trace(finished: Result) -> None:
    manifest = SplitManifest.load(finished.run_dir / "split.json")
    tuned = JudgeSuite.load(finished.run_dir / "programs" / "tuned")
    shown = {row["trace_id"] for program in tuned.programs.values() for row in program.shown_examples}
    assert shown <= set(manifest.trainset)


def test_mlflow_has_few_metrics_with_clear_names(finished: Result) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{finished.run_dir.parent}/mlflow.db")
    (run,) = client.search_runs([client.get_experiment_by_name("tests").experiment_id])
    names = set(run.data.metrics) - {"calls", "tokens", "cost"}
    assert 60 < len(names) < 100
    sides = {"seed", "tuned", "holistic", "difference", "development", *finished.controls}
    for name in names:
        metric, whose, *bound = name.split("/")
        assert metric in (*HEADLINE, "f1", "froc_area", "scored_share")
        assert whose in sides
        assert bound in ([], ["low"], ["high"])
        assert not bound or whose in ("tuned", "difference")
    assert {name for name in names if name.split("/")[1] in finished.controls} == {
        f"f1/{name}" for name in finished.controls
    }


def test_mlflow_has_one_run_with_everything(finished: Result) -> None:
    from mlflow import MlflowClient

    output = finished.run_dir.parent
    client = MlflowClient(tracking_uri=f"sqlite:///{output}/mlflow.db")
    found = client.get_experiment_by_name("tests")
    assert found is not None
    runs = client.search_runs([found.experiment_id])
    assert len(runs) == 1
    data = runs[0].data
    assert data.metrics["coverage/tuned"] == finished.sides["tuned"].metrics["coverage"].value
    assert data.metrics["coverage/tuned/low"] == finished.sides["tuned"].metrics["coverage"].low
    assert data.metrics["f1/difference"] == finished.differences["f1"].value
    assert data.metrics["calls"] == finished.usage.calls
    assert data.tags["simulated"] == "true"
    assert data.tags["verdict"] == finished.verdict
    assert data.tags["tuned_suite_hash"] == JudgeSuite.load(finished.run_dir / "programs" / "tuned").hash
    assert re.fullmatch("[0-9a-f]{16}", data.tags["code_hash"])
    assert data.params["search.0.optimizer"] == "gepa"
    # What the file does not give is there too.
    assert data.params["search.0.settings.minibatch"] == "12"
    assert data.params["validation.gates.primary"] == "f1"
    assert data.params["split_hash"] == SplitManifest.load(finished.run_dir / "split.json").hash
    assert data.params["model"] == finished.model
    assert data.params["data.simulated.traces"] == "120"
    assert runs[0].info.status == "FINISHED"
    artifacts = output / "mlartifacts" / runs[0].info.run_id / "artifacts"
    for name in ("report.html", "config.yaml", "split.json", "validation.json", "judgments/testset-seed.jsonl"):
        assert (artifacts / name).is_file(), name
    assert JudgeSuite.load(artifacts / "programs" / "tuned").hash == finished.provenance["tuned judges"]


def test_the_same_again_costs_nothing_and_says_the_same(finished: Result, tmp_path: Path) -> None:
    folder = tmp_path / finished.run_dir.name
    shutil.copytree(finished.run_dir, folder)
    before = calls_in(folder)
    again = run_experiment(experiment(tmp_path), quiet)
    assert again.run_dir == folder
    assert calls_in(folder) == before
    expected = finished.to_json()
    for name in ("run_dir", "provenance"):
        expected.pop(name)
    assert {name: value for name, value in again.to_json().items() if name in expected} == expected


def test_a_run_is_validated_wherever_it_lies(finished: Result, tmp_path: Path) -> None:
    folder = tmp_path / "moved"
    shutil.copytree(finished.run_dir, folder)
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("enabled: true\n  uri", "enabled: false\n  uri"))
    result = validate_run(folder, quiet)
    assert result.run_dir == folder
    assert {name: side.metrics for name, side in result.sides.items()} == {
        name: side.metrics for name, side in finished.sides.items()
    }
    assert result.usage.calls == finished.usage.calls
    assert not (tmp_path / "mlflow.db").exists()


def test_optimize_leaves_the_testset_alone(tmp_path: Path) -> None:
    run, suite, usage = optimize(cheap(tmp_path), quiet)
    assert usage.calls == 0
    assert suite.hash != run.suite.hash
    assert not (run.folder["judgments"]).exists()
    assert not (tmp_path / "test_uses.jsonl").exists()
    result = validate_run(run.folder.path, quiet)
    assert (tmp_path / "test_uses.jsonl").read_text().count("\n") == 1
    assert result.test_uses == 1


def test_a_used_up_budget_is_resumed_with_a_larger_one(finished: Result, tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(BudgetExhausted):
        run_experiment(experiment(tmp_path, budget={"calls": 300}), lines.append)
    (folder,) = tmp_path.glob("small-*")
    assert calls_in(folder) == 300
    assert any("the budget ends it at 300 calls" in line for line in lines)
    assert (folder / "trials.jsonl").is_file()
    with pytest.raises(PipelineError, match="tuning has not ended"):
        validate_run(folder, quiet)
    result = run_experiment(experiment(tmp_path), quiet)
    assert result.run_dir == folder
    assert result.provenance["tuned judges"] == finished.provenance["tuned judges"]
    assert result.usage == finished.usage


def test_a_budget_that_ends_on_the_testset_keeps_the_judgments(tmp_path: Path) -> None:
    with pytest.raises(BudgetExhausted, match="judgments were not made"):
        run_experiment(cheap(tmp_path, budget={"calls": 50}), quiet)
    (folder,) = tmp_path.glob("small-*")
    outcomes = [str(judgment.outcome) for judgment in load_judgments(folder / "judgments" / "testset-seed.jsonl")]
    assert outcomes.count("scored") == 50
    assert outcomes.count("not_run") == len(outcomes) - 50


def test_a_killed_run_ends_as_an_unbroken_one(finished: Result, tmp_path: Path) -> None:
    """kill -9 in the middle of the search, twice."""
    config = experiment(tmp_path)
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps(config.model_dump(mode="json")))
    command = [sys.executable, "-m", "pipeline.cli", "optimize", str(file)]
    for rows in (150, 500):
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_calls(tmp_path, rows, process)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    (folder,) = tmp_path.glob("small-*")
    assert 500 <= calls_in(folder) < finished.usage.calls
    result = run_experiment(config, quiet)
    assert result.provenance["tuned judges"] == finished.provenance["tuned judges"]
    cut_off = result.usage.calls - finished.usage.calls
    assert 0 <= cut_off <= 2 * config.judges.concurrency, "what a kill cut off counts, and is made again"
    assert result.sides == finished.sides


def wait_for_calls(output: Path, rows: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        for ledger in output.glob("small-*/ledger.sqlite"):
            with suppress(sqlite3.OperationalError):  # its tables are not there yet
                if calls_in(ledger.parent) >= rows:
                    return
        time.sleep(0.01)
    raise AssertionError(f"the run never got to {rows} calls")


def test_a_real_endpoint_with_a_price(
    tmp_path: Path, scripted_server: type[ScriptedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls, tokens and dollars are the server's; what cannot be used is counted apart and said."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    repaired = json.dumps({"rationale": "fine", "findings": [], "score": "3"})

    def script(body: dict[str, Any]) -> str:
        return "I cannot evaluate this." if "Judge: tool_calling" in body["messages"][-1]["content"] else repaired

    with scripted_server(script) as server:
        judges = {"model": "openai/any", "endpoint": server.endpoint, "dimensions": TWO, "holistic": False}
        config = cheap(
            tmp_path, data={"simulated": {"traces": 30}}, judges=judges, prices={"openai/any": [2, 10]}, matcher={}
        )
        result = run_experiment(config, quiet)
        sent = len(server.bodies)
    assert result.usage.calls == sent == result.traces * 2 * 2 * 2
    assert result.usage.tokens == sent * 120
    assert result.cost == pytest.approx(sent * (100 * 2 + 20 * 10) / 1e6)
    assert not result.simulated
    half = result.traces * 2
    assert result.sides["tuned"].outcomes == {"scored": half, "refused": half}
    assert f"tuned judges: {half} of {2 * half} judgments: {half} refused" in result.warnings
    assert f"tuned judges, replies that were repaired in reading: {half} x the score … is a string" in result.warnings
    assert "the score … is a string" in (result.run_dir / "report.html").read_text()
    assert result.sides["tuned"].metrics["scored_share"].value == 0.5
    assert result.verdict != "PASS"


def test_a_dear_run_needs_consent_and_a_no_is_not_in_the_way(
    tmp_path: Path, scripted_server: type[ScriptedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    clean = json.dumps({"rationale": "fine", "findings": [], "score": 3})
    with scripted_server(lambda _: clean) as server:
        judges = {"model": "openai/any", "endpoint": server.endpoint, "dimensions": TWO, "holistic": False}
        dear: dict[str, Any] = {
            "data": {"simulated": {"traces": 30}},
            "judges": judges,
            "prices": {"openai/any": [1e4, 1e4, 1e3]},
        }
        dear["rule"] = {"repeats": 1}
        config = cheap(tmp_path, **dear, tracking={"experiment": "asked"})
        with pytest.raises(PipelineError, match="no terminal to ask at, so nothing was spent: accepted are --yes"):
            optimize(config, quiet)
        assert server.bodies == []
        assert not (tmp_path / "mlflow.db").exists(), "no run of MLflow was begun"
        for agreed, more in ((True, {}), (False, {"ask_above": None})):
            run, _, usage = optimize(cheap(tmp_path, **dear, **more), quiet, agreed)
            assert run.folder.path == prepare(config, quiet).folder.path
            assert usage.calls == len(server.bodies) > 0


def test_reflection_has_the_judges_endpoint_unless_it_has_its_own(tmp_path: Path) -> None:
    judges = {"model": "openai/a", "endpoint": "http://127.0.0.1:1/v1", "dimensions": TWO, "holistic": False}
    (step,) = prepare(cheap(tmp_path, judges=judges), quiet).steps
    assert (step.reflection_model, step.reflection_endpoint) == ("openai/a", "http://127.0.0.1:1/v1")
    search = {"optimizer": "seed", "reflection_model": "openai/b"}
    (step,) = prepare(cheap(tmp_path, judges=judges, search=search), quiet).steps
    assert (step.reflection_model, step.reflection_endpoint) == ("openai/b", "")
    search["reflection_endpoint"] = "http://127.0.0.1:2/v1"
    (step,) = prepare(cheap(tmp_path, judges=judges, search=search), quiet).steps
    assert (step.reflection_model, step.reflection_endpoint) == ("openai/b", "http://127.0.0.1:2/v1")


def test_a_stopped_run_is_a_failed_one_in_mlflow(finished: Result, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    shutil.copy(finished.run_dir.parent / "mlflow.db", tmp_path / "mlflow.db")  # making its tables takes seconds
    tracking = {"experiment": "stopped"}
    with pytest.raises(BudgetExhausted):
        run_experiment(cheap(tmp_path, budget={"calls": 20}, tracking=tracking), quiet)
    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    found = client.get_experiment_by_name("stopped")
    assert found is not None
    (stopped,) = client.search_runs([found.experiment_id])
    assert stopped.info.status == "FAILED"
    assert (tmp_path / "mlartifacts" / stopped.info.run_id / "artifacts" / "judgments" / "testset-seed.jsonl").is_file()
    run_experiment(cheap(tmp_path, tracking=tracking), quiet)
    (resumed,) = client.search_runs([found.experiment_id])
    assert resumed.info.run_id == stopped.info.run_id
    assert resumed.info.status == "FINISHED"


def test_a_budget_that_ends_in_the_rules_readings(tmp_path: Path) -> None:
    with pytest.raises(BudgetExhausted, match="judgments were not made"):
        optimize(cheap(tmp_path, rule={"enabled": True}, budget={"calls": 20}), quiet)
    (folder,) = tmp_path.glob("small-*")
    outcomes = [str(row.outcome) for row in load_judgments(folder / "judgments" / "development-tuned.jsonl")]
    assert outcomes.count("scored") == 20


def test_a_damaged_summary_is_told(tmp_path: Path) -> None:
    run, _, _ = optimize(cheap(tmp_path), quiet)
    (run.folder["metrics.json"]).write_text("{")
    with pytest.raises(PipelineError, match="is damaged: start `gpa-judges optimize` again"):
        validate_run(run.folder.path, quiet)


def test_a_split_that_was_replaced_after_the_tuning_is_refused(tmp_path: Path) -> None:
    run, _, _ = optimize(cheap(tmp_path), quiet)
    make_split(run.dataset, 77).save(run.folder["split.json"])
    with pytest.raises(LeakageError, match="tuned on another split"):
        validate_run(run.folder.path, quiet)


def test_a_repeat_that_is_broken_off_leaves_no_tuned_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = cheap(tmp_path)
    run, _, _ = optimize(config, quiet)

    def broken_off(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipeline.tune.run_steps", broken_off)
    with pytest.raises(KeyboardInterrupt):
        optimize(config, quiet)
    with pytest.raises(PipelineError, match="tuning has not ended"):
        validate_run(run.folder.path, quiet)


@pytest.mark.parametrize("run", [optimize, run_experiment])
@pytest.mark.parametrize(
    ("settings", "traces", "said"),
    [
        ({"max_calls": 30}, 120, "max_calls 30 does not pay for one proposal: "),
        ({}, 16, "too few labels: "),
        (
            {"min_labels": 40},
            120,
            r"too few labels: \d+ traces of the trainset .* at least 40 are needed in .*\(min_labels\)",
        ),
    ],
)
def test_where_nothing_can_be_searched_nothing_is_spent(
    tmp_path: Path, run: Any, settings: dict[str, Any], traces: int, said: str
) -> None:
    lines: list[str] = []
    steps = [{"settings": settings}, {"optimizer": "evolution", "settings": settings}]
    config = experiment(tmp_path, search=steps, data={"simulated": {"traces": traces}})
    with pytest.raises(PipelineError, match="nothing can be searched, so nothing was spent") as error:
        run(config, lines.append)
    reasons = str(error.value).splitlines()[1:]
    assert [reason.split(":")[0].strip() for reason in reasons] == TWO
    assert all(re.search(said, reason) for reason in reasons), reasons
    (folder,) = tmp_path.glob("small-*")
    assert calls_in(folder) == 0
    assert not any("cost" in line for line in lines)


def test_one_dimension_that_can_be_searched_is_enough(tmp_path: Path) -> None:
    lines: list[str] = []
    judges = {"model": "simulated/default", "dimensions": ["goal_fulfillment", "logical_consistency"]}
    rule = {"finalists": 1, "repeats": 2}
    settings = {"max_calls": 300, "max_iterations": 1, "min_labels": 9, "val_traces": 20, "selection": rule}
    optimize(experiment(tmp_path, judges=judges, search={"settings": settings}, rule={"enabled": False}), lines.append)
    assert any("goal_fulfillment: too few labels: " in line for line in lines)
    assert any(line.strip().startswith("warning: max_calls 300 pays for") for line in lines)


def test_own_data_own_split_own_judges(finished: Result, tmp_path: Path) -> None:
    data = Dataset.load(finished.run_dir / "data.jsonl")
    data.save(tmp_path / "data.jsonl")
    manifest = SplitManifest.load(finished.run_dir / "split.json")
    manifest.save(tmp_path / "split.json")
    config = cheap(
        tmp_path,
        data={"path": "data.jsonl"},
        split={"manifest": "split.json"},
        judges={"dimensions": ["tool_calling"], "programs": str(finished.run_dir / "programs" / "tuned")},
    )
    run, suite, _ = optimize(config, quiet)
    assert run.manifest == manifest
    assert list(suite.programs) == ["tool_calling"]
    assert suite.rule == JudgeSuite.load(finished.run_dir / "programs" / "tuned").rule
    result = validate_run(run.folder.path, quiet)
    assert result.traces == len(manifest.testset)
    assert set(result.sides["holistic"].dimensions) == {"tool_calling"}


def test_data_that_changed_after_its_split(finished: Result, tmp_path: Path) -> None:
    rows = list(Dataset.load(finished.run_dir / "data.jsonl"))
    make_split(Dataset(rows), 7).save(tmp_path / "split.json")
    Dataset(rows[:-1]).save(tmp_path / "data.jsonl")
    config = cheap(tmp_path, data={"path": "data.jsonl"}, split={"manifest": "split.json"})
    with pytest.raises(TraceError, match="split again"):
        optimize(config, quiet)
    assert not list(tmp_path.glob("small-*/ledger.sqlite"))


def test_data_that_changed_after_the_tuning_is_not_split_anew(finished: Result, tmp_path: Path) -> None:
    """A new split of other rows would hold out traces that were tuned on."""
    rows = list(Dataset.load(finished.run_dir / "data.jsonl"))
    Dataset(rows).save(tmp_path / "data.jsonl")
    run, *_ = optimize(cheap(tmp_path, data={"path": "data.jsonl"}), quiet)
    split = (run.folder.path / "split.json").read_bytes()
    Dataset(rows[3:]).save(tmp_path / "data.jsonl")
    with pytest.raises(TraceError, match=r"put the data back as it was \(.*data.jsonl\)") as error:
        validate_run(run.folder.path, quiet)
    assert "split again" not in str(error.value)
    assert (run.folder.path / "split.json").read_bytes() == split


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"search": {"optimizer": "gepaa"}}, "did you mean `gepa`"),
        ({"search": {"settings": {"max_cals": 3}}}, "did you mean `max_calls`"),
        ({"validation": {"gates": {"primry": "f1"}}}, "primry"),
        ({"judges": {"programs": "nowhere"}}, "nowhere"),
        ({"data": {"path": "nothing.jsonl"}}, "nothing.jsonl"),
        (
            {"judges": {"model": "simulated/defalt"}},
            "no simulated model 'simulated/defalt': accepted are .*simulated/def",
        ),
        ({"judges": {"model": "opnai/gpt-5"}}, "no provider of the model 'opnai/gpt-5' is known"),
        ({"search": {"reflection_model": "gpt-fife"}}, "no provider of the model 'gpt-fife' is known"),
        ({"search": {"reflection_model": "openai/x"}, "budget": {"dollars": 1}}, "the price of openai/x is unknown"),
    ],
)
def test_bad_settings_are_told_before_anything_happens(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_experiment(experiment(tmp_path, **changes), quiet)
    assert list(tmp_path.iterdir()) == []


def test_own_data_is_not_read_by_a_simulated_model_that_nobody_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"judges.model is needed .* openai/gpt-5, or simulated/default to try"):
        optimize(cheap(tmp_path, data={"path": "data.jsonl"}, judges={"dimensions": TWO}), quiet)
    assert list(tmp_path.iterdir()) == []


def test_judges_that_the_folder_lacks(finished: Result, tmp_path: Path) -> None:
    judges = {"programs": str(finished.run_dir / "programs" / "tuned"), "dimensions": ["plan_quality", "tool_calling"]}
    with pytest.raises(PipelineError, match="holds no judge of plan_quality"):
        optimize(cheap(tmp_path, judges=judges), quiet)


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_a_folder_that_is_no_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(PipelineError, match="is not a run"):
        validate_run(tmp_path / name, quiet)


def test_what_it_may_cost_is_said_first(tmp_path: Path) -> None:
    lines: list[str] = []
    run_experiment(cheap(tmp_path), lines.append)
    cost = next(i for i, line in enumerate(lines) if line.startswith("cost: up to about"))
    testset = next(i for i, line in enumerate(lines) if line.startswith("testset:"))
    assert cost < testset
    assert "free: the model is simulated" in lines[cost]
    assert not any("resumed" in line for line in lines)
    again: list[str] = []
    result = run_experiment(cheap(tmp_path), again.append)
    assert f"resumed: {result.usage.calls:,} calls were made before and are not made again" in again


@pytest.mark.parametrize("seed", range(2))
def test_shuffled_labels_bring_no_gain(tmp_path: Path, seed: int) -> None:
    config = experiment(tmp_path, seed=seed, data={"simulated": {"traces": 80, "seed": seed, "shuffle_labels": True}})
    assert run_experiment(config, quiet).verdict != "PASS"


def test_what_tuning_announces_is_what_it_spends(tmp_path: Path) -> None:
    """No search, two readings by the rule: exact where every trace has a plan."""
    judges = {"holistic": False}
    said: list[str] = []
    run, _, usage = optimize(
        cheap(tmp_path, judges=judges, rule={"enabled": True}, data={"simulated": {"traces": 40}}), said.append
    )
    rows = len(run.development_rows)
    assert usage.calls == rows * (7 * 2 + 1)
    assert any(line.startswith(f"cost: up to about {usage.calls:,} calls") for line in said)


def test_a_resumed_run_counts_replies_not_failures(
    tmp_path: Path, scripted_server: type[ScriptedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    clean = json.dumps({"rationale": "fine", "findings": [], "score": 3})

    def script(body: dict[str, Any]) -> Any:
        # A few, so that they do not look like a provider that is down when nothing else is asked again.
        ill = crc32(body["messages"][-1]["content"].encode()) % 6 == 0
        return scripted_server.error(404, "no such model") if ill else clean

    with scripted_server(script) as server:
        config = cheap(
            tmp_path,
            data={"simulated": {"traces": 30}},
            judges={"model": "openai/any", "endpoint": server.endpoint, "dimensions": TWO, "holistic": False},
            rule={"enabled": True, "repeats": 1},
            search={"optimizer": "gepa", "settings": {"min_labels": 1}, "reflection_model": "openai/other"},
        )
        with pytest.raises(JudgeError, match="price of openai/any, openai/other is unknown"):
            optimize(config.model_copy(update={"budget": BudgetConfig(dollars=3)}), quiet)
        assert server.bodies == []
        config = config.model_copy(update={"search": cheap(tmp_path).search})
        _, _, usage = optimize(config, quiet)
        assert usage.dollars is None
        asked = len(server.bodies)
        said: list[str] = []
        optimize(config, said.append)
        failed = len(server.bodies) - asked
    assert 1 <= failed <= 7
    assert f"resumed: {asked - failed} calls were made before and are not made again" in said


def test_runs_share_a_ledger_and_not_their_budgets(tmp_path: Path) -> None:
    """The second run finds the generic judges' replies of the first; each pays for its own and resumes."""
    shared = tmp_path / "shared.sqlite"
    budget = {"calls": 5000}
    few = {"simulated": {"traces": 60}}
    configs = [
        cheap(tmp_path, data=few, ledger="shared.sqlite", budget=budget, validation={"repeats": repeats})
        for repeats in (1, 2)
    ]
    first, second = [run_experiment(config, quiet) for config in configs]
    alone = run_experiment(cheap(tmp_path / "alone", data=few, validation={"repeats": 2}), quiet)
    assert second.sides == alone.sides
    assert 0 < second.usage.calls < alone.usage.calls
    spent = {run["account"]["calls"] for run in stats(shared)["runs"].values()}
    assert spent == {first.usage.calls, second.usage.calls}
    assert run_experiment(configs[1], quiet).usage == second.usage
    folders = [path.parent for path in tmp_path.glob("small-*/config.yaml")]
    assert set(stats(shared)["runs"]) == {folder.name for folder in folders}
    assert not list(tmp_path.glob("small-*/ledger.sqlite"))
    # A moved folder keeps its account.
    moved = shutil.move(folders[0], tmp_path / "elsewhere" / folders[0].name)
    before = stats(shared)
    validate_run(Path(moved), quiet)
    assert stats(shared)["runs"] == before["runs"]
