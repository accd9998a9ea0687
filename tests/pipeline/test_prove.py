"""The held-out proof: what it follows from, what it costs, and how often the testset was used for it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judges.lm import BudgetExhausted, JudgeError
from judges.program import JudgeSuite, seed_suite
from labeled_traces.dataset import Dataset
from labeled_traces.held_out_use import read_uses
from labeled_traces.split import LeakageError, make_split
from labeled_traces.trace import Trace, TraceError
from pipeline.config import ExperimentConfig, PipelineError, SimulatedData
from pipeline.config_file import parse_config
from pipeline.measure import Measurement, measure
from pipeline.prepare import simulated_data
from pipeline.run import optimize, run_experiment, validate_run
from pipeline.run_folder import RunFolder

pytestmark = pytest.mark.usefixtures("by_hand")


def quiet(_: str) -> None: ...


def cheap(output: Path, **changes: Any) -> ExperimentConfig:
    """Two judges, few traces, no search to speak of."""
    values: dict[str, Any] = {
        "name": "small",
        "output": str(output),
        "data": {"simulated": {"traces": 20}},
        "judges": {
            "model": "simulated/default",
            "dimensions": ["logical_consistency", "tool_calling"],
            "holistic": False,
        },
        "matcher": {"kind": "text"},
        "search": {"optimizer": "by_hand"},
        "rule": {"enabled": False},
        "validation": {"repeats": 2},
        "tracking": {"enabled": False},
    }
    return parse_config({**values, **changes}, "test", output)


def calls_in(folder: RunFolder) -> int:
    if not folder.ledger.is_file():
        return 0
    with closing(sqlite3.connect(folder.ledger)) as db:
        count: int = db.execute("SELECT count(*) FROM calls").fetchone()[0]
    return count


def test_where_nothing_was_changed_the_testset_is_not_read(tmp_path: Path) -> None:
    run, suite, _ = optimize(cheap(tmp_path, search={"optimizer": "seed"}), quiet)
    assert suite.hash == run.suite.hash
    result = validate_run(run.folder.path, quiet)
    assert result.verdict == "INCONCLUSIVE"
    assert result.reasons == ("nothing to validate: the tuned judges are the generic ones (the testset was not read)",)
    assert (result.usage.calls, result.test_uses, result.traces, result.sides) == (0, 0, len(run.manifest.testset), {})
    assert run.folder.read_sealed("validation.json") == result.to_json()
    assert not list(tmp_path.rglob("test_uses.jsonl"))


def test_each_use_of_a_testset_is_counted_once(tmp_path: Path) -> None:
    first = run_experiment(cheap(tmp_path), quiet)
    assert run_experiment(cheap(tmp_path), quiet).test_uses == 1
    judges = {"dimensions": ["tool_calling"], "trace_tokens": 9000, "holistic": False}
    other = run_experiment(cheap(tmp_path, judges=judges), quiet)
    assert other.run_dir != first.run_dir
    assert other.test_uses == 2


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("config.yaml", "gates: {}", "gates: {primary: coverage}"),
        ("config.yaml", "repeats: 2\n  gates", "repeats: 3\n  gates"),
        ("config.yaml", "threshold: null", "threshold: 0.2"),
        ("config.yaml", "seed: 0\nmatcher", "seed: 1\nmatcher"),
        ("programs/seed/tool_calling/rubric.md", "tool", "spoon"),
        ("programs/tuned/tool_calling/rubric.md", "Look twice", "Look thrice"),
        ("programs/tuned/decision_rule.yaml", "min_confidence: 0", "min_confidence: 50"),
    ],
)
def test_a_proof_that_was_changed_is_a_further_use(tmp_path: Path, file: str, old: str, new: str) -> None:
    """The judgments may all be in the ledger: to see the verdict under other terms is to look once more."""
    run, _, _ = optimize(cheap(tmp_path), quiet)
    first = validate_run(run.folder.path, quiet)
    edited(run.folder[file], old, new)
    lines: list[str] = []
    second = validate_run(run.folder.path, lines.append)
    assert (first.test_uses, second.test_uses) == (1, 2)
    assert first.provenance["proof"] != second.provenance["proof"]
    assert any(line.startswith("warning: use 2 of this testset") for line in lines)
    assert json.loads((run.folder.path / "validation.json").read_text())["test_uses"] == 2
    edited(run.folder[file], new, old)
    assert validate_run(run.folder.path, quiet).test_uses == 1


def test_a_testset_that_is_read_anew_is_a_further_use(tmp_path: Path) -> None:
    """Another ledger, another draw of judgments: who looks twice may choose."""
    config = cheap(tmp_path, rule={"enabled": True})
    run, _, _ = optimize(config, quiet)
    assert [validate_run(run.folder.path, quiet).test_uses for _ in range(2)] == [1, 1]
    for use in (2, 3, 4):
        run.folder.ledger.unlink()
        assert [validate_run(run.folder.path, quiet).test_uses for _ in range(2)] == [use, use]


def test_what_changes_no_result_is_no_further_use(tmp_path: Path) -> None:
    run, _, _ = optimize(cheap(tmp_path), quiet)
    validate_run(run.folder.path, quiet)
    edited(run.folder["config.yaml"], "calls: null", "calls: 10000")
    edited(run.folder["config.yaml"], "concurrency: 8", "concurrency: 2")
    assert validate_run(run.folder.path, quiet).test_uses == 1


def own_data(folder: Path, traces: int = 20) -> Path:
    dataset = simulated_data(SimulatedData(traces=traces))
    dataset.save(folder / "data.jsonl")
    return folder / "data.jsonl"


def test_a_testset_is_one_for_all_output_folders_and_for_data_that_shares_its_traces(tmp_path: Path) -> None:
    path = own_data(tmp_path)
    uses = [run_experiment(cheap(tmp_path / name, data={"path": str(path)}), quiet).test_uses for name in "ab"]
    rows = list(Dataset.load(path))
    Dataset(rows[1:]).save(tmp_path / "fewer.jsonl")
    uses.append(run_experiment(cheap(tmp_path / "a", data={"path": str(tmp_path / "fewer.jsonl")}), quiet).test_uses)
    assert uses == [1, 2, 3]
    assert len(read_uses(tmp_path / "test_uses.jsonl")) == 3


def test_a_run_that_was_moved_brings_its_uses_along(tmp_path: Path) -> None:
    path = own_data(tmp_path)
    run, _, _ = optimize(cheap(tmp_path, data={"path": str(path)}), quiet)
    validate_run(run.folder.path, quiet)
    (tmp_path / "test_uses.jsonl").unlink()
    edited(run.folder["config.yaml"], "gates: {}", "gates: {primary: coverage}")
    assert validate_run(run.folder.path, quiet).test_uses == 2


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    path = own_data(tmp_path)
    run, _, _ = optimize(cheap(tmp_path, data={"path": str(path)}), quiet)
    (tmp_path / "test_uses.jsonl").symlink_to(tmp_path / "nowhere" / "else" / "test_uses.jsonl")
    (tmp_path / "nowhere").write_text("")
    lines: list[str] = []
    assert validate_run(run.folder.path, lines.append).test_uses == 1
    assert any("test_uses.jsonl cannot be written" in line and "recorded in" in line for line in lines)
    assert len(read_uses(run.folder["test_uses.jsonl"])) == 1


@pytest.mark.parametrize("text", ["{", "3", "[]", "{}", '{"use": 1, "uses": 1}', '{"traces": ["a"]}'])
@pytest.mark.parametrize("beside_the_data", [True, False])
def test_a_damaged_record_is_told_before_anything_is_asked(tmp_path: Path, text: str, beside_the_data: bool) -> None:
    run, _, _ = optimize(cheap(tmp_path), quiet)
    record = (tmp_path if beside_the_data else run.folder.path) / "test_uses.jsonl"
    record.write_text(f"{text}\n")
    with pytest.raises(TraceError, match=r"test_uses\.jsonl, line 1"):
        validate_run(run.folder.path, quiet)
    assert calls_in(run.folder) == 0
    assert record.read_text() == f"{text}\n"


@pytest.mark.parametrize("kind", ["seed", "tuned"])
@pytest.mark.parametrize("file", ["tool_calling", "decision_rule.yaml", "tool_calling/rubric.md"])
@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_judges_that_cannot_be_proved_are_told_before_the_testset_is_read(
    tmp_path: Path, kind: str, file: str, damage: str
) -> None:
    run, _, _ = optimize(cheap(tmp_path), quiet)
    path = run.folder.programs(kind) / file
    if damage == "damaged" and path.is_dir():
        path = path / "knobs.yaml"
    if damage == "damaged":
        path.write_bytes(b"\xff{")
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    with pytest.raises((PipelineError, JudgeError, TraceError), match=f"programs/{kind}"):
        validate_run(run.folder.path, quiet)
    assert calls_in(run.folder) == 0
    assert not list(tmp_path.rglob("test_uses.jsonl"))


@pytest.mark.parametrize("steps", ["[{}]", "[1]", '"x"', '[{"optimizer": "seed"}]'])
def test_a_damaged_summary_is_told_before_the_testset_is_read(tmp_path: Path, steps: str) -> None:
    run, _, _ = optimize(cheap(tmp_path), quiet)
    summary = run.folder.read_json("metrics.json")
    run.folder.write_json("metrics.json", {**summary, "steps": json.loads(steps)})
    with pytest.raises(PipelineError, match=r"metrics\.json is damaged"):
        validate_run(run.folder.path, quiet)
    assert not list(tmp_path.rglob("test_uses.jsonl"))


def test_judges_of_the_user_that_quote_the_testset_cost_nothing(tmp_path: Path) -> None:
    path = own_data(tmp_path)
    dataset = Dataset.load(path)
    held_out = dataset[make_split(dataset, 0).testset[0]]
    program = seed_suite(dimensions=("tool_calling",)).programs["tool_calling"]
    example = {"excerpt": "nothing", "findings": [], "score": 3, "trace_id": held_out.trace_id}
    leaky = program.with_parts({"examples": json.dumps(example)}, "by hand")
    JudgeSuite({"tool_calling": leaky}).save(tmp_path / "judges")
    judges = {"dimensions": ["tool_calling"], "programs": str(tmp_path / "judges"), "holistic": False}
    with pytest.raises(LeakageError, match="tool_calling examples holds an example of the held-out trace"):
        optimize(cheap(tmp_path / "runs", data={"path": str(path)}, judges=judges), quiet)
    assert not (tmp_path / "runs").exists()


def test_a_budget_is_raised_for_the_validation_alone(tmp_path: Path) -> None:
    run, _, _ = optimize(cheap(tmp_path, budget={"calls": 5}), quiet)
    with pytest.raises(BudgetExhausted):
        validate_run(run.folder.path, quiet)
    result = validate_run(run.folder.path, quiet, {"calls": 10_000})
    assert result.test_uses == 1
    assert result.usage.calls == result.traces * 2 * 2 * 2


def test_a_text_of_the_testset_in_a_prompt_is_refused(tmp_path: Path) -> None:
    run, suite, _ = optimize(cheap(tmp_path), quiet)
    held_out = next(row for row in run.manifest.testset_of(run.dataset) if row.errors_of("tool_calling"))
    program = suite.programs["tool_calling"]
    leaky = program.with_parts({"rubric": f"{program.rubric}\n{held_out.errors[0].description}"}, "by hand")
    suite.with_program(leaky).save(run.folder.programs("tuned"))
    with pytest.raises(LeakageError, match="tool_calling rubric holds 8 words in a row of the held-out trace"):
        validate_run(run.folder.path, quiet)
    assert not (tmp_path / "test_uses.jsonl").exists()


def test_copies_of_a_testset_under_other_ids_are_the_same_testset(tmp_path: Path) -> None:
    """Imported again, into another file: with other ids, in another order, without the last step."""
    path = own_data(tmp_path)
    assert run_experiment(cheap(tmp_path / "runs", data={"path": str(path)}), quiet).test_uses == 1
    copies = [
        replace(row, errors=(), trace=Trace(f"mine-{number}", row.trace.spans[:-1]))
        for number, row in enumerate(reversed(list(Dataset.load(path))))
    ]
    Dataset(copies).save(tmp_path / "again.jsonl")
    said: list[str] = []
    assert measure(Measurement(tmp_path / "again.jsonl", out=tmp_path / "measured"), said.append).test_uses == 2
    assert any("use 2 of this testset" in line for line in said)
