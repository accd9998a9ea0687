from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from judges.lm import BudgetExhausted, LMReply, LMRequest
from judges.program import JudgeProgram
from judges.simulated_lm import SimulatedLM
from judges.simulated_lm.profiles import PROFILES
from pipeline.chain import STAGE_REPEATS, StepResult
from pipeline.config_file import parse_config
from pipeline.evaluate import load_judgments
from pipeline.metrics.estimate import Estimate
from pipeline.optimizers.base import OptimizationResult
from pipeline.optimizers.objective import Margins, Objective, consistency_objective
from pipeline.prepare import Run, prepare
from pipeline.results import STEP_METRICS, StepReport
from pipeline.step_selection import objective_of, select_steps, selection_calls

TWO = ["logical_consistency", "tool_calling"]
DEFAULT = PROFILES["default"]
SKILLS = {
    "SHARP": replace(
        DEFAULT, skill=20.0, aim=0.98, slip=0.0, leak=0.0, alarm_rate=0.0, severity_noise=0.0, score_noise=0.0
    ),
    "BLIND": replace(DEFAULT, skill=0.0, alarm_rate=0.0, leak=0.0),
    "WILD": replace(DEFAULT, alarm_rate=0.2),
}


@dataclass
class Reader:
    """The simulated model, whose skill a word in the rubric decides. It keeps what it was asked."""

    fails: Callable[[int], BaseException | None] = lambda _: None
    asked: list[LMRequest] = field(default_factory=list)
    model: SimulatedLM = field(default_factory=lambda: SimulatedLM({f"simulated/{k}": p for k, p in SKILLS.items()}))

    async def complete(self, request: LMRequest) -> LMReply:
        if error := self.fails(len(self.asked)):
            raise error
        self.asked.append(request)
        skill = next((name for name in SKILLS if name in request.messages[-1].content), None)
        return await self.model.complete(request if skill is None else replace(request, model=f"simulated/{skill}"))


class Changed:
    """Stands for an optimizer that changed the rubrics of some dimensions by adding a word."""

    name = "changed"

    def __init__(self, word: str, dimensions: list[str] = TWO) -> None:
        self.word = word
        self.dimensions = dimensions

    def optimize(self, *_: object) -> OptimizationResult:
        raise AssertionError("the selection searches nothing")

    def result(self, program: JudgeProgram) -> OptimizationResult:
        improved = program.dimension in self.dimensions
        new = program.with_parts({"rubric": f"{program.rubric}\n{self.word}"}, "x") if improved else program
        return OptimizationResult(new, improved, "so", "done", self.name, judge_calls=5, reflection_calls=2)


class Calmed(Changed):
    """One that raises consistency."""

    objective = consistency_objective(Margins())


def done(tmp_path: Path, *optimizers: Changed, **selection: Any) -> tuple[Run, list[StepResult]]:
    values = {
        "name": "selection",
        "output": str(tmp_path),
        "data": {"simulated": {"traces": 120, "rater": False}},
        "judges": {"dimensions": TWO, "holistic": False, "model": "simulated/default"},
        "matcher": {"kind": "text"},
        "search": [{"optimizer": "seed"} for _ in optimizers],
        "selection": selection,
        "tracking": {"enabled": False},
    }
    run = prepare(parse_config(values, "test", tmp_path), quiet)
    suite, steps = run.suite, []
    for optimizer in optimizers:
        results = {name: optimizer.result(program) for name, program in suite.programs.items()}
        suite = replace(suite, programs={name: result.program for name, result in results.items()})
        steps.append(StepResult(replace(run.steps[0], optimizer=optimizer), suite, results, seconds=1.5))
    return replace(run, steps=tuple(step.step for step in steps)), steps


def quiet(_: str) -> None: ...


def test_a_better_program_is_kept_and_one_without_effect_is_not(tmp_path: Path) -> None:
    run, steps = done(tmp_path, Changed("SHARP", TWO[:1]), Changed("Mind the gap."), Changed("SHARP", TWO[1:]))
    said: list[str] = []
    suite, reports = select_steps(run, steps, Reader(), said.append)
    assert [report.changed for report in reports] == [(TWO[0],), tuple(TWO), (TWO[1],)]
    assert [report.kept for report in reports] == [(TWO[0],), (), (TWO[1],)]
    assert suite.programs[TWO[0]] == steps[0].suite.programs[TWO[0]]
    assert suite.programs[TWO[1]] == steps[2].suite.programs[TWO[1]]
    assert [line.split(":")[0] for line in said] == [
        f"selection {TWO[0]} (changed)",
        f"selection {TWO[0]} (changed)",
        f"selection {TWO[1]} (changed)",
        f"selection {TWO[1]} (changed)",
    ]
    assert said[0].startswith(f"selection {TWO[0]} (changed): kept, gain +")
    assert ": not kept, gain " in said[1]


def test_each_report_goes_on_where_the_one_before_ended(tmp_path: Path) -> None:
    run, steps = done(tmp_path, Changed("SHARP", TWO[:1]), Changed("Mind the gap."), Changed("SHARP", TWO[1:]))
    _, reports = select_steps(run, steps, Reader(), quiet)
    first, second, third = reports
    assert first.after == second.before == second.after == third.before
    assert set(first.before) == set(first.after) == set(first.gain) == set(STEP_METRICS)
    for report in (first, third):
        assert value(report.gain["f1"]) > 0.03
        assert report.gain["f1"].value == pytest.approx(value(report.after["f1"]) - value(report.before["f1"]))
    assert second.gain["f1"].value == 0
    assert (first.judge_calls, first.reflection_calls, first.calls, first.seconds) == (10, 4, 14, 1.5)
    assert first.traces == len(run.manifest.valset)
    assert StepReport.from_json(first.to_json()) == first


def value(estimate: Estimate) -> float:
    assert estimate.value is not None
    return estimate.value


def test_a_worse_program_is_not_kept(tmp_path: Path) -> None:
    run, steps = done(tmp_path, Changed("BLIND"), Changed("WILD"))
    suite, reports = select_steps(run, steps, Reader(), quiet)
    assert suite == run.suite
    assert [report.kept for report in reports] == [(), ()]


def test_a_program_is_compared_with_what_is_kept_and_not_with_its_parent(tmp_path: Path) -> None:
    """The second step only repairs what the first one broke: against the input nothing is gained."""
    run, steps = done(tmp_path, Changed("BLIND"), Changed("x"))
    repaired = {name: replace(p, rubric=p.rubric.replace("BLIND", "")) for name, p in steps[1].suite.programs.items()}
    steps[1].suite = replace(steps[1].suite, programs=repaired)
    suite, reports = select_steps(run, steps, Reader(), quiet)
    assert suite == run.suite
    assert [report.kept for report in reports] == [(), ()]


def test_a_step_is_judged_by_what_it_was_to_raise(tmp_path: Path) -> None:
    """A silent judge says the same each time, and finds nothing: more consistent, but no better."""
    run, steps = done(tmp_path, Calmed("SHARP"), Calmed("BLIND"))
    blind = {name: Changed("BLIND").result(program).program for name, program in run.suite.programs.items()}
    steps[1].suite = replace(run.suite, programs=blind)
    said: list[str] = []
    _, reports = select_steps(run, steps, Reader(), said.append)
    assert [report.kept for report in reports] == [tuple(TWO), ()]
    refused = [line for line in said if "not kept" in line]
    assert len(refused) == 2
    assert all("coverage" in line and "it may have got worse" in line for line in refused)
    assert value(reports[0].gain["alpha"]) > 0.1


def test_the_objective_is_the_score_where_an_optimizer_names_none() -> None:
    assert objective_of(Changed("x")).name == "score"
    assert objective_of(Calmed("x")).name == "consistency"
    assert isinstance(objective_of(Calmed("x")), Objective)


def test_a_single_step_is_not_read_again(tmp_path: Path) -> None:
    run, steps = done(tmp_path, Changed("SHARP", TWO[:1]))
    lm = Reader()
    suite, (report,) = select_steps(run, steps, lm, quiet)
    assert not lm.asked
    assert suite == steps[0].suite
    assert (report.changed, report.kept, report.before, report.gain) == ((TWO[0],), (TWO[0],), {}, {})
    assert selection_calls(run) == 0


def test_each_program_is_read_once_with_repeats_of_the_selection(tmp_path: Path) -> None:
    run, steps = done(tmp_path, Changed("one", TWO[:1]), Changed("two", TWO[:1]), repeats=3)
    lm = Reader()
    select_steps(run, steps, lm, quiet)
    val = len(run.manifest.valset)
    assert len(lm.asked) == 4 * val * 3  # two input programs, and two of one dimension
    assert len(lm.asked) < 2 * selection_calls(run) == 2 * 3 * val * 3
    assert Counter(request.repeat for request in lm.asked) == {2 * STAGE_REPEATS + n: 4 * val for n in range(3)}


def test_at_most_so_many_validation_traces_are_read(tmp_path: Path) -> None:
    run, steps = done(tmp_path, Changed("one"), Changed("two"), traces=10)
    _, reports = select_steps(run, steps, Reader(), quiet)
    read = {judgment.trace_id for judgment in load_judgments(run.folder.judgments("selection"))}
    assert len(read) == 10
    assert read <= set(run.manifest.valset)
    assert [report.traces for report in reports] == [10, 10]


def test_a_budget_that_ends_keeps_the_readings(tmp_path: Path) -> None:
    run, steps = done(tmp_path, Changed("one"), Changed("two"))
    calls = len(run.manifest.valset) * 2 * 2 + 10
    lm = Reader(fails=lambda number: BudgetExhausted("no more") if number >= calls else None)
    with pytest.raises(BudgetExhausted, match="judgments were not made"):
        select_steps(run, steps, lm, quiet)
    outcomes = Counter(str(judgment.outcome) for judgment in load_judgments(run.folder.judgments("selection")))
    assert outcomes["scored"] + outcomes["not_applicable"] == calls
    assert outcomes["not_run"] == calls - 20
