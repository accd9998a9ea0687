from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.lm import LMError, ProviderDown
from judges.program import JudgeSuite, Knobs, seed_program
from judges.simulated_lm import SimulatedLM
from labeled_traces.dataset import Dataset
from labeled_traces.simulated import FaultRates, simulate
from labeled_traces.split import Development, make_split
from pipeline.config import PipelineError
from pipeline.evaluate import EvaluateSettings, evaluate
from pipeline.matching import build_matcher
from pipeline.metrics.suite import suite_metrics
from pipeline.metrics.table import match_judgments
from pipeline.optimizers.base import OptimizationResult, SearchContext
from pipeline.optimizers.evolution import EvolutionOptimizer, EvolutionSettings
from pipeline.optimizers.objective import Margins
from pipeline.optimizers.selection import SelectionRule
from pipeline.settings import build_optimizer

if TYPE_CHECKING:
    from judges.program import JudgeProgram
    from tests.pipeline.optimizers.conftest import FakeLM, World

ROOT = Path(__file__).parents[3]
LESSON = "Look for values that are marked as BAD."
PROOF = SelectionRule(finalists=1, repeats=3)


def search(world: World, lm: Any, seed: int = 0, **settings: Any) -> OptimizationResult:
    small = {"max_candidates": 6, "islands": 2, "train_traces": 16, "selection": PROOF, **settings}
    optimizer = EvolutionOptimizer(EvolutionSettings(**small))
    return optimizer.optimize(world.program, world.development, world.context(lm, seed=seed))


def text_of(prompt: str) -> str:
    found = re.search(r"^<<<\n(.*?)\n?>>>", prompt, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def writes(rubric: str) -> Any:
    """A reflection model that adds one line to the rubric, and leaves the other parts."""

    def reply(part: str, prompt: str) -> str:
        text = text_of(prompt)
        return f"<<<\n{text}\n{rubric}\n>>>" if part == "rubric" and rubric not in text else f"<<<\n{text}\n>>>"

    return reply


# -- a gain ------------------------------------------------------------------------------------------------------


def test_a_more_consistent_judge_is_found_and_proved(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(alarms=lambda _: 0.02)
    result = search(world, lm)
    assert result.improved
    assert LESSON in result.program.rubric
    assert result.program.origin == "evolution"
    assert result.gain is not None
    assert result.gain.low is not None
    assert result.gain.low > 0
    assert "gain" in result.reason
    assert all(name in result.reason for name in ("coverage", "localization", "false_alarms", "locked_in"))
    first = result.trials[0]
    assert (first.program, first.accepted, first.number) == (world.program, True, 0)
    assert set(first.scores) == {"score", "coverage", "localization", "precision", "consistency"}
    assert [trial.number for trial in result.trials] == list(range(len(result.trials)))
    programs = {trial.program.hash for trial in result.trials if trial.program}
    assert all(trial.parent in programs for trial in result.trials[1:])
    assert all(trial.program.parent == trial.parent for trial in result.trials if trial.program)
    assert result.judge_calls == len(lm.judged)


def simulated_world(dimension: str) -> tuple[JudgeProgram, Development, Dataset]:
    data = Dataset(simulate(240, 5, FaultRates().scaled(2.0)))
    manifest = make_split(data, 0)
    return seed_program(dimension, Knobs()), manifest.development(data), manifest.testset_of(data)


def test_alpha_rises_on_held_out_traces_of_the_simulated_world() -> None:
    program, development, testset = simulated_world("tool_calling")
    lm, matcher = SimulatedLM(), build_matcher("text", [*development.trainset, *development.valset])
    context = SearchContext(lm, matcher, locked=frozenset(testset.ids))
    settings = EvolutionSettings(max_candidates=6, val_traces=80)
    result = EvolutionOptimizer(settings).optimize(program, development, context)
    assert result.improved
    fresh = EvaluateSettings(repeats=3, first_repeat=10_000)
    rows = list(testset)
    before, after = (
        suite_metrics(match_judgments(rows, evaluate(JudgeSuite({p.dimension: p}), rows, lm, fresh), matcher))
        for p in (program, result.program)
    )

    def change(name: str) -> float:
        old, new = before[name].value, after[name].value
        assert old is not None
        assert new is not None
        return new - old

    assert change("alpha") > 0.1
    assert change("std") < -0.1
    assert change("coverage") > -0.02
    assert change("false_alarms") < 0.02


# -- consistency that is none ------------------------------------------------------------------------------------

SILENT = "Report nothing."
ALWAYS = "Always report an error."


@pytest.mark.parametrize(
    ("line", "finds", "alarms", "guard"),
    [(SILENT, 0.0, 0.0, "coverage"), (ALWAYS, 1.0, 1.0, "false_alarms")],
)
def test_a_judge_that_goes_silent_or_always_reports_never_wins(
    world: World, fake_lm: type[FakeLM], line: str, finds: float, alarms: float, guard: str
) -> None:
    for seed in range(4):
        lm = fake_lm(
            finds=lambda tail: finds if line in tail else 0.6,
            alarms=lambda tail: alarms if line in tail else 0.2,
            reflects=writes(line),
        )
        result = search(world, lm, seed=seed, part_rate=1.0)
        assert not result.improved
        spoiled = [trial for trial in result.trials if trial.program and line in trial.program.rubric]
        assert spoiled
        assert not any(trial.accepted for trial in spoiled)
        assert all(trial.scores["consistency"] > 0.95 for trial in spoiled)
        assert all(f"cannot stay: {guard} got worse" in trial.reason for trial in spoiled)


@pytest.mark.parametrize(("finds", "margin"), [(0.0, 0.05), (0.5, 0.9)])
def test_where_coverage_can_fall_to_nothing_nothing_is_searched(
    world: World, fake_lm: type[FakeLM], finds: float, margin: float
) -> None:
    """The guard could not tell a silent judge from this input."""
    lm = fake_lm(finds=lambda tail: 0.0 if SILENT in tail else finds, alarms=lambda _: 0.2, reflects=writes(SILENT))
    result = search(world, lm, margins=Margins(coverage=margin))
    assert not result.improved
    assert "a silent judge would pass" in result.stop_reason
    assert len(result.trials) == 1
    assert len(lm.judged) == 16 * 6
    assert not lm.reflected


# -- noise -------------------------------------------------------------------------------------------------------


def test_in_pure_noise_nothing_is_taken(world: World, fake_lm: type[FakeLM]) -> None:
    """Whatever the prompt says, the judge finds and cries wolf by luck. The last test has a level of 0.9, so that one
    of ten searches could err at most, were there no guards."""
    numbers = itertools.count()

    def remark(part: str, _: str) -> str:
        return f"<<<\n{world.program.parts[part]}\nRemark {next(numbers)}.\n>>>"

    tried = accepted = improved = 0
    for seed in range(8):
        lm = fake_lm(finds=lambda _: 0.5, alarms=lambda _: 0.3, reflects=remark)
        result = search(world, lm, seed=seed, max_candidates=8)
        judged = [trial for trial in result.trials[1:] if trial.program]
        tried += len(judged)
        accepted += sum(trial.accepted for trial in judged)
        improved += result.improved
    assert tried > 50
    assert accepted / tried < 0.2
    assert improved == 0


def test_an_input_that_always_says_the_same_is_left_alone(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(finds=lambda _: 1.0, alarms=lambda _: 0.0)
    result = search(world, lm)
    assert not result.improved
    assert result.stop_reason == "the input says the same in every repeat on all 16 traces"
    assert len(lm.judged) == 16 * 6
    assert not lm.reflected


# -- what it reads -----------------------------------------------------------------------------------------------


def test_no_candidate_shows_a_trace_that_it_is_read_on(world: World, fake_lm: type[FakeLM]) -> None:
    """Neither in the search nor in the proof. (Here it is the examples that help.)"""
    lm = fake_lm(
        finds=lambda tail: 0.95 if "## Examples" in tail else 0.3,
        alarms=lambda _: 0.0,
        reflects=lambda _, prompt: f"<<<\n{text_of(prompt)}\n>>>",
    )
    result = search(world, lm, part_rate=1.0)
    assert result.improved
    shown = {
        example["trace_id"] for trial in result.trials if trial.program for example in trial.program.shown_examples
    }
    assert shown
    last = max(request.repeat for request in lm.judged)
    proof = {trace_of(request) for request in lm.judged if request.repeat > last - 6}
    searched = {trace_of(request) for request in lm.judged} - proof
    assert not searched & shown
    assert len(searched) == 16
    assert {f"val-{number}" for number in range(24)} <= proof
    kept = {example["trace_id"] for example in result.program.shown_examples}
    assert kept
    assert not proof & kept


def trace_of(request: Any) -> str:
    found = re.search(r"^@span (\S+)/root ", request.messages[-1].content, re.MULTILINE)
    assert found is not None
    return found[1]


def test_what_the_input_shows_is_not_read(world: World, fake_lm: type[FakeLM]) -> None:
    shown = ("train-0", "train-1", "train-2")
    lines = [json.dumps({"excerpt": "x", "findings": [], "score": 3, "trace_id": trace_id}) for trace_id in shown]
    lm = fake_lm()
    search(replace(world, program=world.program.with_parts({"examples": "\n".join(lines)}, "test")), lm)
    read = {trace_of(request) for request in lm.judged}
    assert len(read) > 30
    assert not read & set(shown)


# -- how it ends -------------------------------------------------------------------------------------------------


def test_a_reflection_model_that_never_answers_is_an_error(world: World, fake_lm: type[FakeLM]) -> None:
    class Dead(fake_lm):  # type: ignore[valid-type,misc]
        async def complete(self, request: Any) -> Any:
            if request.messages[-1].content.startswith("# Improve"):
                raise LMError("timeout", "gone")
            return await super().complete(request)

    with pytest.raises(LMError, match="gave no reply: gone"):
        search(world, Dead(), max_candidates=20, max_failures=3, part_rate=1.0, crossover=0.0)


def test_a_bad_proposal_costs_no_judge_call(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(reflects=lambda *_: "<<<\nGive a score from 0 to 10.\n>>>", finds=lambda _: 1.0)
    result = search(world, lm, max_failures=2, crossover=0.0)
    refused = [trial for trial in result.trials if trial.program is None]
    assert refused
    assert all("another score scale" in trial.reason and not trial.accepted for trial in refused)
    assert all(trial.calls == 0 for trial in refused)


def test_a_dead_endpoint_is_raised(world: World, fake_lm: type[FakeLM]) -> None:
    with pytest.raises(ProviderDown):
        search(world, fake_lm(fails=lambda _: ProviderDown("401")))


def test_an_input_whose_replies_cannot_be_used_stops_the_search(world: World, fake_lm: type[FakeLM]) -> None:
    result = search(world, fake_lm(replies=lambda *_: "broken"))
    assert not result.improved
    assert not result.exhausted
    assert "0% of 96 tool_calling judgments can be used" in result.stop_reason


def test_a_candidate_whose_replies_cannot_be_used_does_not_stay(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(replies=lambda tail, reply: "broken" if LESSON in tail else reply)
    result = search(world, lm, part_rate=1.0)
    assert not result.improved
    assert any("only 0% of its judgments can be used" in trial.reason for trial in result.trials)


def test_too_few_labels_is_a_result(world: World, fake_lm: type[FakeLM]) -> None:
    bad = [row for row in world.development.trainset if row.errors][:4]
    clean = [row for row in world.development.trainset if not row.errors]
    lm = fake_lm()
    few = replace(world, development=Development(Dataset([*bad, *clean]), world.development.valset))
    result = search(few, lm)
    assert "too few labels: 3 traces of the trainset" in result.reason
    assert not lm.judged


def test_a_small_budget_is_warned_of_before_it_is_spent(world: World, fake_lm: type[FakeLM]) -> None:
    # 16 traces x 3: twice for the input, once for each candidate, once more for the best; 30 x 2 x 3 for the proof.
    small = {"islands": 2, "reread": 1, "val_traces": 30}
    for calls, affordable in ((371, 0), (372, 1), (419, 1), (420, 2)):
        lm = fake_lm()
        result = search(world, lm, max_calls=calls, **small)
        if affordable:
            assert f"pays for {affordable} candidates on 2 islands" in result.warnings[0]
            assert "4 candidates need at least 516 judge calls" in result.warnings[0]
        else:
            assert (
                result.reason == "max_calls 371 does not pay for one candidate: 372 judge calls for each dimension do"
            )
        assert len(lm.judged) <= calls
        assert bool(lm.judged) == bool(affordable)
    assert search(world, fake_lm(), max_calls=516, **small).warnings == ()


def test_the_holistic_judge_is_not_searched(world: World, fake_lm: type[FakeLM]) -> None:
    with pytest.raises(PipelineError, match="evolution searches the judge of one dimension"):
        search(replace(world, program=seed_program("holistic")), fake_lm())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_callz": 3}, "max_callz"),
        ({"islands": 0}, "1 or more"),
        ({"repeats": 1}, "2 or more"),
        ({"crossover": 1.5}, "0 to 1"),
        ({"alpha": 0}, "between 0 and 1"),
        ({"clean_each": 0.5}, "1 or more"),
        ({"margins": {"coverage": 2}}, "0 to 1"),
        ({"margins": {"precision": 0.1}}, "precision"),
        ({"selection": {"repeats": 1}}, "nothing to agree with"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        build_optimizer("evolution", options)


def test_settings_are_read_from_plain_values() -> None:
    optimizer = build_optimizer("evolution", {"islands": 2, "margins": {"coverage": 0.1}})
    assert isinstance(optimizer, EvolutionOptimizer)
    assert optimizer.settings == EvolutionSettings(islands=2, margins=Margins(coverage=0.1))
    assert [guard.margin for guard in optimizer.objective.guards] == [0.1, 0.1, 0.05, 0.05]


def test_the_result_does_not_depend_on_the_process() -> None:
    """Sets of strings have another order in every process: none may decide anything."""
    code = (
        "import json\nfrom tests.pipeline.optimizers.conftest import FakeLM, make_world\n"
        "from pipeline.optimizers.evolution import EvolutionOptimizer, EvolutionSettings\n"
        "world = make_world()\n"
        "settings = EvolutionSettings(max_candidates=6, islands=2, migrate_every=1, train_traces=16)\n"
        "result = EvolutionOptimizer(settings).optimize(world.program, world.development, world.context(FakeLM()))\n"
        "print(json.dumps([repr(trial) for trial in result.trials] + [result.program.hash]))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
        for seed in ("1", "2")
    ]
    assert json.loads(runs[0]) == json.loads(runs[1])
    assert len(json.loads(runs[0])) > 5
