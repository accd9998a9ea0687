"""A chain of all three searches: what it hands on, what it may see, and that it can be stopped anywhere."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judges.lm import LM, BudgetExhausted, LMReply, LMRequest
from judges.program import JudgeProgram, JudgeSuite, seed_program
from judges.simulated_lm import SimulatedLM
from labeled_traces.dataset import LabeledTrace
from labeled_traces.split import Development
from pipeline.chain import STAGE_REPEATS, bank, outcome, run_steps
from pipeline.config import ExperimentConfig, PipelineError
from pipeline.config_file import parse_config
from pipeline.metrics.estimate import Estimate
from pipeline.optimizers.base import NOT_SEARCHED, OptimizationResult, SearchContext, Trial
from pipeline.prepare import Run, prepare
from pipeline.run import optimize, tuning_cost, validate_run
from pipeline.run_folder import RunFolder
from pipeline.tune import load_steps, tune

TWO = ["logical_consistency", "tool_calling"]
STEPS = [
    {"optimizer": "gepa", "settings": {"max_calls": 500, "max_iterations": 3, "val_traces": 16}},
    {"optimizer": "evolution", "settings": {"max_calls": 900, "max_candidates": 2, "islands": 2, "val_traces": 30}},
    {"optimizer": "optuna", "settings": {"max_calls": 400, "trials": 6, "train_traces": 30, "val_traces": 20}},
]


def quiet(_: str) -> None: ...


def experiment(output: Path, **changes: Any) -> ExperimentConfig:
    values: dict[str, Any] = {
        "name": "chain",
        "output": str(output),
        "data": {"simulated": {"traces": 120}},
        "judges": {"dimensions": TWO, "holistic": False},
        "matcher": {"kind": "text"},
        "search": STEPS,
        "tracking": {"enabled": False},
    }
    return parse_config({**values, **changes}, "test", output)


class Recorder:
    """A way to a model that keeps all that was sent. `most`: how many calls are let through."""

    def __init__(self, inner: LM, most: int | None = None) -> None:
        self.inner = inner
        self.most = most
        self.requests: list[LMRequest] = []

    async def complete(self, request: LMRequest) -> LMReply:
        if self.most is not None and len(self.requests) >= self.most:
            raise BudgetExhausted("no more")
        self.requests.append(request)
        return await self.inner.complete(request)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Recorder, list[str]]:
    """A tuned run, all that its model was sent, and all that people were told."""
    run = prepare(experiment(tmp_path_factory.mktemp("chain")), quiet)
    lm, said = Recorder(SimulatedLM()), list[str]()
    tune(run, lm, said.append)
    return run, lm, said


# -- what it sees --------------------------------------------------------------------------------------------------


def telling(row: LabeledTrace) -> Iterator[str]:
    """Texts that are this trace's alone: its spans' ids, its task, and what people wrote of it."""
    yield from (span.span_id for span in row.trace.spans)
    yield from (str(span.inputs) for span in row.trace.spans if span.parent_id is None)
    yield from (error.description for error in row.errors)


def test_no_stage_of_tuning_sees_a_held_out_trace(whole: tuple[Run, Recorder, list[str]]) -> None:
    """Every prompt of the three searches, of the selection and of the decision rule."""
    run, lm, _ = whole
    prompts = "\n".join({message.content for request in lm.requests for message in request.messages})
    seen = [row for row in run.development_rows if any(span.span_id in prompts for span in row.trace.spans)]
    assert len(seen) == len(run.development_rows)  # the rule reads them all: the test does find what was sent
    development = {text for row in run.development_rows for text in telling(row)}
    held_out = {text for row in run.manifest.testset_of(run.dataset) for text in telling(row)} - development
    assert len(held_out) > 400
    assert [text for text in held_out if text in prompts] == []


def test_no_file_of_tuning_tells_of_a_held_out_trace(whole: tuple[Run, Recorder, list[str]]) -> None:
    run, _, said = whole
    files = [run.folder["trials.jsonl"], run.folder["metrics.json"], *run.folder["programs"].rglob("*.*")]
    files += run.folder["judgments"].glob("*")
    text = "\n".join([*(file.read_text() for file in files), *said])
    assert [name for name in run.manifest.testset if f'"{name}"' in text] == []
    assert run.manifest.trainset[0] in text


# -- what is handed on ---------------------------------------------------------------------------------------------


class Scripted:
    """An optimizer that returns what it is told, and keeps what it was given."""

    name = "scripted"

    def __init__(self, rubric: str | None, exhausted: bool = False) -> None:
        self.rubric = rubric
        self.exhausted = exhausted
        self.given: list[tuple[JudgeProgram, SearchContext]] = []

    def optimize(self, program: JudgeProgram, development: Development, context: SearchContext) -> OptimizationResult:
        assert isinstance(development, Development)
        self.given.append((program, context))
        better = program if self.rubric is None else program.with_parts({"rubric": self.rubric}, "scripted")
        trials = tuple(
            Trial(number, one, program.hash, number == 0, "tried")
            for number, one in enumerate((better, program.with_parts({"rubric": f"worse than {self.rubric}"}, "x")))
        )
        return OptimizationResult(
            better, self.rubric is not None, "so", "done", self.name, trials, judge_calls=7, exhausted=self.exhausted
        )


def scripted_run(tmp_path: Path, *optimizers: Scripted) -> Run:
    run = prepare(experiment(tmp_path, search={"optimizer": "seed"}), quiet)
    return replace(run, steps=tuple(replace(run.steps[0], optimizer=optimizer) for optimizer in optimizers))


def test_each_step_starts_where_the_one_before_ended(tmp_path: Path) -> None:
    steps = Scripted("A"), Scripted(None), Scripted("C")
    run = scripted_run(tmp_path, *steps)
    done = run_steps(run, SimulatedLM(), "tuned", quiet)
    starts = [[program.rubric for program, _ in step.given] for step in steps]
    seeds = [program.rubric for program in run.suite.programs.values()]
    assert starts == [seeds, ["A", "A"], ["A", "A"]]
    assert [step.suite.programs["tool_calling"].rubric for step in done] == ["A", "A", "C"]
    assert [step.calls for step in done] == [14, 14, 14]


def test_each_step_has_fresh_repeats_and_the_bank_of_those_before(tmp_path: Path) -> None:
    steps = Scripted("A"), Scripted(None), Scripted("C")
    run = scripted_run(tmp_path, *steps)
    run_steps(run, SimulatedLM(), "tuned", quiet)
    contexts = [step.given[1][1] for step in steps]
    assert [context.evaluate.first_repeat for context in contexts] == [0, STAGE_REPEATS, 2 * STAGE_REPEATS]
    assert all(context.locked == set(run.manifest.testset) for context in contexts)
    texts = [[program.rubric for program in context.bank] for context in contexts]
    assert texts == [[], ["A", "worse than A"], ["A", "worse than None", "worse than A"]]
    assert {program.dimension for context in contexts for program in context.bank} == {steps[0].given[1][0].dimension}


def test_the_bank_has_accepted_ones_first_then_later_ones_then_better_ones() -> None:
    seed = seed_program("tool_calling")

    def trial(text: str, accepted: bool, score: float | None, gain: float | None = None) -> Trial:
        program = seed.with_parts({"rubric": text}, "x")
        return Trial(0, program, None, accepted, "", {} if score is None else {"score": score}, gain)

    first = OptimizationResult(
        seed,
        False,
        "",
        "",
        "x",
        (trial("a", True, 0.5), trial("b", True, 0.9), trial("c", False, None, -0.2), trial("d", False, None, 0.1)),
    )
    refused = Trial(1, None, None, False, "refused")
    second = replace(first, trials=(refused, trial("e", True, 0.1), trial("a", False, None, 0.3)))
    assert [program.rubric for program in bank([first, second])] == ["e", "b", "a", "d", "c"]


def test_every_trial_is_written_with_its_step(whole: tuple[Run, Recorder, list[str]]) -> None:
    run, _, said = whole
    trials = [json.loads(line) for line in run.folder["trials.jsonl"].read_text().splitlines()]
    order = [(trial["step"], trial["optimizer"]) for trial in trials]
    assert list(dict.fromkeys(order)) == [(1, "gepa"), (2, "evolution"), (3, "optuna")]
    assert order == sorted(order)
    assert {trial["dimension"] for trial in trials} == set(TWO)
    for step in (1, 2, 3):
        numbers = [t["number"] for t in trials if t["step"] == step and t["dimension"] == "tool_calling"]
        assert numbers == list(range(len(numbers)))
    assert any(line.startswith("search of tool_calling (3/3, optuna): ") for line in said)


@pytest.mark.parametrize(
    ("gain", "improved", "stop", "said"),
    [
        (Estimate(0.138, 0.075, None, 10), True, "16 proposals", "gain +0.138, lower bound +0.075; 16 proposals"),
        (Estimate(0.1, -0.05, None, 9), False, "done", "no gain found: best +0.100, lower bound -0.050; done"),
        (
            Estimate(0.1, 0.05, None, 9),
            False,
            "done",
            "no gain found: best +0.100, lower bound +0.050, but what it must keep may be worse; done",
        ),
        (None, False, "done", "a long reason; done"),
        (None, False, NOT_SEARCHED, "a long reason"),
    ],
)
def test_a_search_is_told_in_one_line(gain: Estimate | None, improved: bool, stop: str, said: str) -> None:
    program = seed_program("plan_quality")
    assert outcome(OptimizationResult(program, improved, "a long reason", stop, "x", gain=gain)) == said


def test_what_hinders_every_step_is_told_once(tmp_path: Path) -> None:
    """Each further step names all of these dimensions in one line."""
    steps = [{"optimizer": name, "settings": {"min_labels": 1000}} for name in ("gepa", "optuna")]
    said: list[str] = []
    run = prepare(experiment(tmp_path, search=[*steps, {"optimizer": "seed"}]), quiet)
    run_steps(run, SimulatedLM(), "tuned", said.append)
    assert [line.partition(":")[0] for line in said[:2]] == [f"search of {name} (1/3, gepa)" for name in TWO]
    assert all("too few labels" in line for line in said[:2])
    assert said[2] == f"search (2/3, optuna): as before, not of {', '.join(TWO)}"
    assert len(said) == 5  # and what the step that changes nothing says


def test_the_searches_read_with_repeats_of_their_own(whole: tuple[Run, Recorder, list[str]]) -> None:
    """Judge calls alone: an extracted plan, and a reflection, are numbered by themselves."""
    _, lm, _ = whole
    stages = {request.repeat // STAGE_REPEATS for request in lm.requests if "# Task\n\nJudge:" in str(request.messages)}
    told = {request.repeat // STAGE_REPEATS for request in lm.requests}
    assert told == {0, 1, 2, 3, 4}  # three searches, the selection, the rule
    assert stages <= told


# -- stopping ------------------------------------------------------------------------------------------------------


def test_a_budget_that_ends_a_step_keeps_the_steps_before(tmp_path: Path) -> None:
    run = scripted_run(tmp_path, Scripted("A"), Scripted("B", exhausted=True))
    with pytest.raises(BudgetExhausted, match="in the search of logical_consistency"):
        tune(run, SimulatedLM(), quiet)
    trials = [json.loads(line) for line in run.folder["trials.jsonl"].read_text().splitlines()]
    assert [(trial["step"], trial["dimension"]) for trial in trials] == [
        *[(1, "logical_consistency")] * 2,
        *[(1, "tool_calling")] * 2,
        *[(2, "logical_consistency")] * 2,
    ]
    with pytest.raises(PipelineError, match="tuning has not ended"):
        validate_run(run.folder.path, quiet)


def test_a_chain_that_a_budget_stopped_goes_on_to_the_same_end(
    whole: tuple[Run, Recorder, list[str]], tmp_path: Path
) -> None:
    """Stopped in the selection among the steps."""
    run, lm, _ = whole
    before = {request.key for request in lm.requests if request.repeat < len(STEPS) * STAGE_REPEATS}
    with pytest.raises(BudgetExhausted):
        optimize(experiment(tmp_path, budget={"calls": len(before) + 20}), quiet)
    (stopped,) = tmp_path.glob("chain-*")
    assert (stopped / "judgments" / "selection.jsonl").is_file()
    assert not (stopped / "metrics.json").exists()
    again, suite, usage = optimize(experiment(tmp_path), quiet)
    assert usage.calls == len({request.key for request in lm.requests})
    assert suite.hash == JudgeSuite.load(run.folder.programs("tuned")).hash
    assert_equal_ends(again.folder.path, run.folder.path)


def test_a_chain_that_was_killed_goes_on_to_the_same_end(
    whole: tuple[Run, Recorder, list[str]], tmp_path: Path
) -> None:
    run, lm, _ = whole
    config = experiment(tmp_path)
    file = tmp_path / "experiment.yaml"
    file.write_text(json.dumps(config.model_dump(mode="json")))
    for calls in (700, 1900):
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline.cli", "optimize", str(file)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for_calls(tmp_path, calls, process)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    again, _, usage = optimize(config, quiet)
    cut_off = usage.calls - len({request.key for request in lm.requests})
    assert 0 <= cut_off <= 2 * config.judges.concurrency, "what a kill cut off counts, and is made again"
    assert_equal_ends(again.folder.path, run.folder.path)


def wait_for_calls(output: Path, calls: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        for ledger in output.glob("chain-*/ledger.sqlite"):
            with suppress(sqlite3.OperationalError), closing(sqlite3.connect(ledger)) as db:
                if db.execute("SELECT count(*) FROM calls WHERE status = 'done'").fetchone()[0] >= calls:
                    return
        time.sleep(0.02)
    raise AssertionError(f"the run never got to {calls} calls")


def assert_equal_ends(ours: Path, theirs: Path) -> None:
    for name in ("metrics.json", "trials.jsonl"):
        assert without_seconds((ours / name).read_text()) == without_seconds((theirs / name).read_text())


def without_seconds(text: str) -> list[str]:
    return [line for line in text.splitlines() if '"seconds"' not in line]


def test_the_time_of_a_search_is_that_of_all_attempts(tmp_path: Path) -> None:
    class Slow(Scripted):
        def optimize(self, *given: Any) -> OptimizationResult:
            time.sleep(0.2)
            return super().optimize(*given)

    with pytest.raises(BudgetExhausted):
        run_steps(scripted_run(tmp_path, Slow("A", exhausted=True)), SimulatedLM(), "tuned", quiet)
    first = run_steps(scripted_run(tmp_path, Slow("A")), SimulatedLM(), "tuned", quiet)
    again = run_steps(scripted_run(tmp_path, Scripted("A")), SimulatedLM(), "tuned", quiet)
    assert first[0].seconds is not None
    assert again[0].seconds == first[0].seconds >= 0.6


def test_the_steps_are_read_back(whole: tuple[Run, Recorder, list[str]], tmp_path: Path) -> None:
    assert [step.optimizer for step in load_steps(whole[0].folder)] == ["gepa", "evolution", "optuna"]
    folder = RunFolder(tmp_path)
    assert load_steps(folder) == ()
    folder.write_json("metrics.json", {"dimensions": {}})  # a run of an earlier version
    assert load_steps(folder) == ()


# -- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ([{"optimizer": "gepa"}, {"optimizer": "optunna"}], r"search\.1\.optimizer.*did you mean `optuna`"),
        ([{"optimizer": "gepa"}, {"settings": {"max_cals": 1}}], r"search\.1\.settings: .*did you mean `max_calls`"),
        ({"optimizer": "optunna"}, r"search\.optimizer.*did you mean `optuna`"),
        ([{"optimizer": "gepa", "setings": {}}], r"unknown key `search\.0\.setings` \(did you mean `settings`"),
        ({"optimizer": "gepa", "setings": {}}, r"unknown key `search\.setings` \(did you mean `settings`"),
        ([], "`search`: accepted is one step"),
        ("gepa", "`search`: accepted is one step"),
    ],
)
def test_a_step_that_is_not_accepted_is_named(tmp_path: Path, search: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        prepare(experiment(tmp_path, search=search), quiet)


def test_a_plain_mapping_is_one_step(tmp_path: Path) -> None:
    one = experiment(tmp_path, search={"optimizer": "seed"})
    assert one == experiment(tmp_path, search=[{"optimizer": "seed"}])
    assert [step.optimizer.name for step in prepare(one, quiet).steps] == ["seed"]


def test_the_cost_of_all_steps_and_of_the_selection_is_announced(tmp_path: Path) -> None:
    run = prepare(experiment(tmp_path, rule={"enabled": False}), quiet)
    val = len(run.manifest.valset)
    assert tuning_cost(run).calls == pytest.approx(2 * (500 + 900 + 400 + val * 2 * 4), abs=4)
    single = prepare(experiment(tmp_path, rule={"enabled": False}, search=STEPS[0]), quiet)
    assert tuning_cost(single).calls == pytest.approx(2 * 500, abs=4)
