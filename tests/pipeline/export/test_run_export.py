from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judges.decision import DecisionRule
from judges.lm import JudgeError
from judges.program import JudgeSuite, Knobs, seed_suite
from pipeline.config import PipelineError
from pipeline.export.exported import Provenance, suite_of
from pipeline.export.folder import export_to_folder
from pipeline.export.registry import Registry
from pipeline.export.run_export import MlflowExport, Target, TunedRun, export_to_mlflow
from pipeline.run_folder import open_judges

MakeRun = Callable[..., Path]
NAMES = ("plan_quality", "tool_calling")


def suite(**knobs: Any) -> JudgeSuite:
    return seed_suite(Knobs(**{"model": "openai/m", "layout": "mlflow", **knobs}), NAMES)


@pytest.fixture
def export(mlflow_database: str, request: pytest.FixtureRequest) -> Callable[..., MlflowExport]:
    def exported(path: Path, **target: Any) -> MlflowExport:
        name = re.sub(r"[^\w.-]", ".", request.node.name)
        where = Target(mlflow_database, name, f"{name}-", **target)
        return export_to_mlflow(TunedRun.open(path), where, lambda _: None)

    return exported


def test_a_pass_makes_champions(make_run: MakeRun, mlflow_server: str) -> None:
    """Over HTTP, as users do it."""
    run = TunedRun.open(make_run(suite(), "PASS"))
    target = Target(mlflow_server, "passed", "passed_")
    said: list[str] = []
    done = export_to_mlflow(run, target, said.append)
    assert said == [
        f"experiment passed of MLflow at {mlflow_server}",
        *(f"prompts:/passed_{name}/1 is registered" for name in NAMES),
        *(f"prompts:/passed_{name}/1 is champion" for name in NAMES),
    ]
    assert (done.alias, done.verdict, done.notes) == ("champion", "PASS", ())
    registry = Registry(mlflow_server, "passed", "passed_")
    assert registry.champions() == done.judges
    assert registry.challengers() == {}
    judge = done.judges["tool_calling"]
    assert (judge.scorer, judge.verdict, judge.tags["run"]) == ("passed_tool_calling", "PASS", "a-run-1a2b3c4d")
    assert judge.program == run.suite.programs["tool_calling"]
    assert export_to_mlflow(run, target, said.append) == done
    assert done.to_json()["judges"]["tool_calling"] == {
        "prompt": "prompts:/passed_tool_calling/1",
        "scorer": "passed_tool_calling",
        "scorer_version": 1,
        "program": judge.program.hash,
        "model": "openai/m",
    }


def passed(make_run: MakeRun, name: str, rubric: str = "Look.") -> Path:
    plans = suite().programs["plan_quality"].with_parts({"rubric": rubric}, "test")
    path = make_run(suite().with_program(plans), "PASS")
    return path.rename(path.with_name(name))


def test_the_same_export_again_undoes_no_promotion_and_no_rollback(
    make_run: MakeRun, export: Callable[..., MlflowExport]
) -> None:
    first, second = passed(make_run, "one-1a2b3c4d"), passed(make_run, "two-1a2b3c4d", "Look twice.")
    old, new = export(first), export(second)
    registry = Registry(old.uri, old.experiment, f"{old.experiment}-")

    def champions() -> list[int]:
        return [judge.version for judge in registry.champions().values()]

    def refused(path: Path, was: str, now: str) -> None:
        before = champions(), registry.challengers(), [registry.versions(name) for name in NAMES]
        with pytest.raises(PipelineError, match=f"plan_quality/{was} of run {path.name} was champion.*quality/{now}"):
            export(path)
        assert before == (champions(), registry.challengers(), [registry.versions(name) for name in NAMES])

    assert champions() == [2, 1]
    refused(first, was="1", now="2")
    assert export(second).judges == new.judges
    registry.rollback()
    assert champions() == [1, 1]
    refused(second, was="2", now="1")
    assert export(second, again=True).alias == "champion"
    assert champions() == [2, 1]
    assert export(second).alias == "champion"
    refused(first, was="1", now="2")


def test_another_run_that_comes_to_a_judge_that_was_replaced_may_bring_it_back(
    make_run: MakeRun, export: Callable[..., MlflowExport]
) -> None:
    export(passed(make_run, "one-1a2b3c4d"))
    export(passed(make_run, "two-1a2b3c4d", "Look twice."))
    done = export(passed(make_run, "three-1a2b3c4d"))
    assert [judge.version for judge in done.judges.values()] == [1, 1]
    assert done.alias == "champion"


def test_a_challenger_that_shares_a_judge_does_not_let_an_older_export_undo_a_promotion(
    make_run: MakeRun, export: Callable[..., MlflowExport]
) -> None:
    first = passed(make_run, "one-1a2b3c4d")
    done = export(first)
    registry = Registry(done.uri, done.experiment, f"{done.experiment}-")
    plans, calls = (suite().programs[name].with_parts({"rubric": "Look twice."}, "test") for name in NAMES)
    better = suite().with_program(calls)
    registry.promote([registry.register(better, Provenance("recalibration", verdict="PASS"))["tool_calling"]])
    export(make_run(suite().with_program(plans), "INCONCLUSIVE"))
    with pytest.raises(PipelineError, match="tool_calling/1 of run one-1a2b3c4d was champion and is not any more"):
        export(first)


def test_champions_with_two_decision_rules_are_refused(make_run: MakeRun, export: Callable[..., MlflowExport]) -> None:
    """Nothing could be scored with them."""

    def run(name: str, judges: JudgeSuite, verdict: str = "PASS") -> Path:
        path = make_run(judges, verdict)
        return path.rename(path.with_name(name))

    done = export(run("both", suite()))
    registry = Registry(done.uri, done.experiment, f"{done.experiment}-")
    plans = suite().programs["plan_quality"]
    one = replace(suite(), programs={"plan_quality": plans})
    other = replace(one, rule=DecisionRule(max_per_trace=1))
    refused = run("other", other)
    with pytest.raises(
        PipelineError, match=r"plan_quality alone.*tool_calling/1\).*are all of plan_quality, tool_calling"
    ):
        export(refused)
    with pytest.raises(PipelineError, match="scoring needs one rule"):
        export(refused, again=True)
    assert [len(registry.versions(name)) for name in NAMES] == [1, 1]
    assert export(run("challenger", other, "FAIL")).alias == "challenger"
    better = one.with_program(plans.with_parts({"rubric": "Look twice."}, "test"))
    for name, fitting in (("better", better), ("whole", replace(suite(), rule=other.rule))):
        assert export(run(name, fitting)).alias == "champion"
        suite_of(registry.champions())


@pytest.mark.parametrize("verdict", ["FAIL", "INCONCLUSIVE", None])
def test_without_a_pass_they_are_challengers(
    make_run: MakeRun, export: Callable[..., MlflowExport], verdict: str | None
) -> None:
    done = export(make_run(suite(), verdict))
    assert (done.alias, done.verdict) == ("challenger", verdict or "")
    assert [judge.verdict for judge in done.judges.values()] == [verdict or "none"] * 2
    (note,) = done.notes
    assert note.startswith(f"validated with {verdict}: the held-out" if verdict else "not validated: nothing shows")
    assert done.to_json()["verdict"] == verdict


@pytest.mark.parametrize(
    ("knobs", "target", "changed"),
    [
        ({"layout": "shared_prefix"}, {}, "layout"),
        ({}, {"model": "openai/other"}, "model"),
        ({"layout": "shared_prefix"}, {"model": "openai/other"}, "layout and model"),
        ({"endpoint": "http://127.0.0.1:1/v1"}, {"endpoint": ""}, "endpoint"),
    ],
)
def test_a_verdict_on_other_judges_is_none(
    make_run: MakeRun,
    export: Callable[..., MlflowExport],
    knobs: dict[str, Any],
    target: dict[str, Any],
    changed: str,
) -> None:
    done = export(make_run(suite(**knobs), "PASS"), **target)
    assert (done.alias, done.verdict) == ("challenger", "")
    assert done.notes[0].startswith(
        f"the run's verdict (PASS) is of judges with another {changed}, so it is not of these"
    )
    assert {judge.program.knobs.layout for judge in done.judges.values()} == {"mlflow"}


@pytest.mark.parametrize("own", [False, True])
def test_judges_that_are_those_the_search_began_with(
    make_run: MakeRun, export: Callable[..., MlflowExport], tmp_path: Path, own: bool
) -> None:
    path = make_run(suite(), **({"judges": {"programs": "mine"}} if own else {}))
    suite().save(path / "programs" / "seed")
    done = export(path)
    assert done.to_json()["unchanged"] is True
    assert done.notes[0].startswith("nothing was changed: the search found no better judges, so these are")
    assert done.notes[0].endswith("those of judges.programs" if own else "the generic ones, as shipped")
    manifest = export_to_folder(TunedRun.open(path), tmp_path / "out")
    assert (manifest["unchanged"], manifest["notes"]) == (True, list(done.notes))
    text = (tmp_path / "out" / "README.md").read_text()
    assert "Nothing was changed" in text
    assert "Not validated: nothing shows" in text


def test_judges_that_were_changed_after_the_validation_have_no_verdict(make_run: MakeRun) -> None:
    path = make_run(suite(), "PASS")
    rubric = path / "programs" / "tuned" / "plan_quality" / "rubric.md"
    rubric.write_text("By hand.")
    assert TunedRun.open(path).verdict == ""


def test_another_model_runs_at_its_own_endpoint(make_run: MakeRun, export: Callable[..., MlflowExport]) -> None:
    local = "http://127.0.0.1:1/v1"
    path = make_run(suite(endpoint=local))
    kept = export(path)
    assert kept.judges["tool_calling"].program.knobs.endpoint == local
    assert f"must name {local}" in kept.notes[-1]
    assert export(path, model="openai/m").judges["tool_calling"].program.knobs.endpoint == local
    assert export(path, model="openai/other").judges["tool_calling"].program.knobs.endpoint == ""
    moved = export(path, model="openai/other", endpoint="http://127.0.0.1:2/v1").judges["tool_calling"]
    assert moved.program.knobs.endpoint == "http://127.0.0.1:2/v1"


def test_simulated_judges_need_a_model_by_name(make_run: MakeRun, export: Callable[..., MlflowExport]) -> None:
    path = make_run(suite(model="simulated/default"), "PASS", data={"simulated": {}})
    with pytest.raises(PipelineError, match=r"tuned on a simulated model.*accepted are --model NAME.*--to folder"):
        export(path)
    real = export(path, model="openai/m")
    assert (real.alias, real.to_json()["simulated"]) == ("challenger", True)
    named = export(path, model="simulated/default")
    assert (named.alias, named.to_json()["simulated"]) == ("champion", True)
    assert named.notes == ("simulated: MLflow cannot run these judges, gpa-judges can",)


def test_the_target_is_where_the_run_was_tracked(make_run: MakeRun, mlflow_database: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(mlflow_database)
    found = client.get_experiment_by_name("tracked")
    experiment = found.experiment_id if found else client.create_experiment("tracked")
    run_id = client.create_run(experiment).info.run_id
    path = make_run(suite(), tracking={"uri": mlflow_database, "experiment": "tracked"})
    saved = {"uri": mlflow_database, "experiment": "tracked", "run_id": run_id}
    (path / "mlflow.json").write_text(json.dumps(saved))
    done = export_to_mlflow(TunedRun.open(path), Target(prefix="tracked_"), lambda _: None)
    assert (done.uri, done.experiment) == (mlflow_database, "tracked")
    assert {judge.tags["run_id"] for judge in done.judges.values()} == {run_id}
    assert "tracked_plan_quality" in client.get_run(run_id).data.tags["mlflow.linkedPrompts"]
    for other in ({**saved, "uri": "sqlite:////elsewhere.db"}, "no mapping"):
        (path / "mlflow.json").write_text(json.dumps(other))
        done = export_to_mlflow(TunedRun.open(path), Target(prefix="tracked_"), lambda _: None)
        assert {judge.tags["run_id"] for judge in done.judges.values()} == {""}


def test_a_run_that_is_not_tuned_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(suite())
    (path / "metrics.json").unlink()
    with pytest.raises(PipelineError, match="tuning has not ended"):
        TunedRun.open(path)
    with pytest.raises(PipelineError, match="is not a run"):
        TunedRun.open(tmp_path)


def test_a_folder_stands_alone(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(suite(layout="shared_prefix"), "PASS")
    out = tmp_path / "out"
    manifest = export_to_folder(TunedRun.open(path), out)
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    assert export_to_folder(TunedRun.open(path), out) == manifest
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before
    tuned = JudgeSuite.load(path / "programs" / "tuned")
    shutil.rmtree(path)
    assert json.loads((out / "manifest.json").read_text()) == manifest
    assert (manifest["verdict"], manifest["simulated"], manifest["suite"]) == ("PASS", False, tuned.hash)
    assert manifest["judges"]["tool_calling"] == {
        "folder": "judges/tool_calling",
        "program": tuned.programs["tool_calling"].hash,
        "model": "openai/m",
        "endpoint": "",
        "layout": "shared_prefix",
    }
    assert open_judges(out) == JudgeSuite.load(out / "judges") == tuned
    text = (out / "README.md").read_text()
    assert "Verdict on held-out traces: PASS." in text
    assert "simulated" not in text


def test_a_folder_of_simulated_judges_says_so(make_run: MakeRun, tmp_path: Path) -> None:
    path = make_run(suite(model="simulated/default"))
    manifest = export_to_folder(TunedRun.open(path), tmp_path / "out")
    assert (manifest["verdict"], manifest["simulated"]) == (None, True)
    text = (tmp_path / "out" / "README.md").read_text()
    assert "not validated" in text
    assert "were simulated" in text


def test_a_folder_with_other_judges_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    seed_suite(dimensions=("goal_fulfillment",)).save(tmp_path / "out" / "judges")
    with pytest.raises(JudgeError, match="holds files that no export wrote"):
        export_to_folder(TunedRun.open(make_run(suite())), tmp_path / "out")


@pytest.mark.parametrize("manifest", [None, "", "[]", '{"name": "an app"}'])
def test_files_of_others_are_not_written_over(make_run: MakeRun, tmp_path: Path, manifest: str | None) -> None:
    (readme := tmp_path / "README.md").write_text("Of a project.")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    run = TunedRun.open(make_run(suite()))
    with pytest.raises(JudgeError, match="holds files that no export wrote"):
        export_to_folder(run, tmp_path)
    assert readme.read_text() == "Of a project."
    with pytest.raises(JudgeError, match="holds files that no export wrote"):
        export_to_folder(run, readme)


def test_judges_of_another_run_are_not_written_over(make_run: MakeRun, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = TunedRun.open(passed(make_run, "one-1a2b3c4d"))
    export_to_folder(first, out)
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    with pytest.raises(JudgeError, match="holds the judges of one-1a2b3c4d: accepted is a new folder"):
        export_to_folder(TunedRun.open(passed(make_run, "two-1a2b3c4d", "Look twice.")), out)
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before
    assert export_to_folder(TunedRun.open(passed(make_run, "renamed")), out)["run"] == "renamed"


def test_a_stopped_export_is_ended_by_the_same_again(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TunedRun.open(make_run(suite()))

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(JudgeSuite, "save", stopped)
        with pytest.raises(KeyboardInterrupt):
            export_to_folder(run, tmp_path / "out")
    export_to_folder(run, tmp_path / "out")
    assert open_judges(tmp_path / "out") == run.suite
