from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.judge import judge_request
from judges.judgment import HOLISTIC
from judges.lm import LMRequest
from judges.program import JudgeProgram, seed_program
from judges.render import render
from labeled_traces.dataset import Dataset
from labeled_traces.split import Development
from pipeline.config import PipelineError
from pipeline.optimizers.base import OptimizationResult
from pipeline.optimizers.optuna_search import OptunaOptimizer, OptunaSettings
from pipeline.optimizers.selection import SelectionRule
from pipeline.settings import build_optimizer

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import FakeLM, World

FIRST, SECOND = "Look for values that are marked as BAD.", "The executor writes BAD where a lookup failed."


class Killed(BaseException):
    """The process ends here."""


def search(
    world: World, lm: Any, *bank: JudgeProgram, seed: int = 0, program: JudgeProgram | None = None, **settings: Any
) -> OptimizationResult:
    small = {"trials": 14, "train_traces": 20, "val_traces": 16, "fresh_examples": 2, **settings}
    context = world.context(lm, seed=seed, bank=bank)
    return OptunaOptimizer(OptunaSettings(**small)).optimize(program or world.program, world.development, context)


def child(program: JudgeProgram, **lines: str) -> JudgeProgram:
    """The program with a line more in some parts."""
    return program.with_parts({part: f"{program.parts[part]}\n{line}" for part, line in lines.items()}, "test")


def two_halves(world: World) -> tuple[JudgeProgram, JudgeProgram]:
    """Two programs of which each has one of two lessons, in different parts."""
    return child(world.program, rubric=FIRST), child(world.program, architecture_notes=SECOND)


def both_needed(tail: str) -> float:
    return 0.2 + 0.2 * (FIRST in tail) + 0.2 * (SECOND in tail) + 0.35 * (FIRST in tail and SECOND in tail)


def test_parts_of_two_programs_are_put_together(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(finds=both_needed, alarms=lambda _: 0.02)
    result = search(world, lm, *two_halves(world))
    assert result.improved
    assert FIRST in result.program.rubric
    assert SECOND in result.program.architecture_notes
    assert result.program.parent == world.program.hash
    assert result.program.origin == f"optuna {result.versions['optuna']}"
    assert result.gain is not None
    assert (result.gain.low or 0) > 0
    assert result.reflection_calls == 0
    assert result.judge_calls == len(lm.judged)


def test_the_bank_is_tried_first_as_it_is(world: World, fake_lm: type[FakeLM]) -> None:
    halves = two_halves(world)
    result = search(world, fake_lm(), *halves)
    tried = [trial.program.parts for trial in result.trials[:3] if trial.program]
    assert tried == [program.parts for program in (world.program, *halves)]
    assert [trial.number for trial in result.trials] == list(range(len(result.trials)))
    assert result.trials[0].reason == "the input program"
    assert (result.trials[0].accepted, result.trials[0].gain) == (True, 0.0)
    assert all(trial.parent == world.program.hash for trial in result.trials[1:])


def test_no_program_is_read_twice(world: World, fake_lm: type[FakeLM]) -> None:
    result = search(world, fake_lm(), *two_halves(world), trials=40, max_calls=5000)
    programs = [trial.program.hash for trial in result.trials if trial.program]
    assert len(set(programs)) == len(programs) < 40
    assert result.stop_reason == f"40 points were tried (trials), {40 - len(programs)} of them again"


def test_a_space_of_one_point_costs_one_reading(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm()
    result = search(world, lm, fresh_examples=0, temperatures=(), trace_limits=())
    assert len(lm.judged) == result.judge_calls == result.trials[0].calls == 20
    assert not result.improved
    assert result.reason.startswith("no gain found")
    assert any("no step before this one left texts" in warning for warning in result.warnings)


def test_nothing_is_gained_where_nothing_helps(world: World, fake_lm: type[FakeLM]) -> None:
    """Pure noise: at a level of 0.9 one of ten searches may believe in it. (Of 60 seeds, 6 do.)"""
    improved = 0
    for seed in range(12):
        lm = fake_lm(finds=lambda _: 0.5, alarms=lambda _: 0.3)
        improved += search(world, lm, *two_halves(world), seed=seed).improved
    assert improved <= 3


def test_what_makes_prompts_too_long_is_not_read(world: World, fake_lm: type[FakeLM]) -> None:
    long = child(world.program, rubric=FIRST + " Mind every detail of it." * 100)
    lm = fake_lm()
    result = search(world, lm, long, more_tokens=0.1)
    refused = [trial for trial in result.trials if "prompt tokens" in trial.reason]
    assert refused
    assert all((trial.calls, trial.accepted, trial.gain) == (0, False, None) for trial in refused)
    assert not any("Mind every detail" in request.messages[-1].content for request in lm.judged)
    assert FIRST not in result.program.rubric
    assert search(world, fake_lm(), long, more_tokens=10.0).improved


def test_a_program_is_not_read_on_the_traces_that_it_shows(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm()
    result = search(world, lm, fresh_examples=6, train_traces=24, trials=20)
    shown = [trial for trial in result.trials if trial.program and trial.program.shown_examples and trial.calls]
    assert shown
    any_trace = next(iter(world.development.trainset)).trace
    for trial in shown:
        assert trial.program is not None
        own = {example["trace_id"] for example in trial.program.shown_examples}
        assert trial.calls == 24 - len(own)
        tail = own_texts(judge_request(trial.program, render(any_trace, 24_000), None, 0, None))
        read = [request.messages[-1].content for request in lm.judged if own_texts(request) == tail]
        assert len(read) >= trial.calls
        assert not any(f"@span {trace_id}/root " in prompt for prompt in read for trace_id in own)


def own_texts(request: LMRequest) -> str:
    """What stands below the trace."""
    return request.messages[-1].content.rpartition("===== TRACE")[2].partition("\n")[2]


def test_only_knobs_that_change_something_are_searched(world: World, fake_lm: type[FakeLM]) -> None:
    result = search(world, fake_lm(), trials=30, max_calls=5000, temperatures=(0.1,), trace_limits=(0.5, 2.0))
    knobs = [trial.program.knobs for trial in result.trials if trial.program]
    assert {knob.temperature for knob in knobs} == {world.program.knobs.temperature, 0.1}
    assert {knob.trace_tokens for knob in knobs} == {world.program.knobs.trace_tokens}  # no trace is ever cut
    assert {knob.plan_extraction for knob in knobs} == {True}  # another dimension's knob


def test_a_used_up_budget_is_told(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm()
    none = search(world, lm, max_calls=20)
    assert not lm.judged
    assert none.reason.startswith("max_calls 20 does not pay for one program beside the input: ")
    few = search(world, lm, *two_halves(world), max_calls=300)
    assert few.judge_calls <= 300
    assert few.stop_reason == "the next program might pass 300 judge calls (max_calls)"
    assert any(
        "pays for 4 programs beside the input: 5 programs need at least 312" in warning for warning in few.warnings
    )


def test_too_few_labels_are_a_result(world: World, fake_lm: type[FakeLM]) -> None:
    clean = Dataset(row for row in world.development.valset if not row.errors)
    lm = fake_lm()
    context = world.context(lm)
    result = OptunaOptimizer().optimize(world.program, Development(world.development.trainset, clean), context)
    assert result.reason.startswith("too few labels: 0 traces of the valset")
    assert not lm.judged


def test_the_holistic_judge_is_not_searched(world: World, fake_lm: type[FakeLM]) -> None:
    with pytest.raises(PipelineError, match="optuna searches the judge of one dimension"):
        search(world, fake_lm(), program=seed_program(HOLISTIC))


def test_a_candidate_without_usable_replies_is_no_gain(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(replies=lambda tail, reply: "I cannot" if FIRST in tail else reply)
    result = search(world, lm, child(world.program, rubric=FIRST))
    lost = [trial for trial in result.trials if trial.program and FIRST in trial.program.rubric]
    assert lost
    assert all("0% of its judgments can be used" in trial.reason and not trial.accepted for trial in lost)
    assert FIRST not in result.program.rubric


def test_an_input_without_usable_replies_ends_it(world: World, fake_lm: type[FakeLM]) -> None:
    result = search(world, fake_lm(replies=lambda *_: "I cannot"), *two_halves(world))
    assert not result.improved
    assert "0% of 20 tool_calling judgments can be used" in result.stop_reason
    assert not result.exhausted


# -- a study in a storage ----------------------------------------------------------------------------------------


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


@pytest.mark.parametrize("killed_at", [5, 30, 90, 150])
def test_a_killed_study_is_continued(world: World, fake_lm: type[FakeLM], storage: str, killed_at: int) -> None:
    """Without a ledger: what was read and stored is not read again, but for the input."""
    settings: dict[str, Any] = {"trials": 8, "storage": storage}
    whole = fake_lm()
    unbroken = search(world, whole, *two_halves(world), trials=8)
    first = fake_lm(fails=lambda number: Killed() if number >= killed_at else None)
    with pytest.raises(Killed):
        search(world, first, *two_halves(world), **settings)
    second = fake_lm()
    assert search(world, second, *two_halves(world), **settings) == unbroken
    assert {request.key for request in second.judged} <= {request.key for request in whole.judged}
    finished = (killed_at - 20) // 20
    if finished > 1:
        assert len(second.judged) <= len(whole.judged) - 20 * (finished - 1)


def test_more_trials_continue_where_the_study_ended(world: World, fake_lm: type[FakeLM], storage: str) -> None:
    few = search(world, fake_lm(), *two_halves(world), trials=4, storage=storage)
    lm = fake_lm()
    more = search(world, lm, *two_halves(world), trials=8, storage=storage)
    assert more.trials[: len(few.trials)] == few.trials
    at_once = search(world, fake_lm(), *two_halves(world), trials=8)
    assert more.trials == at_once.trials
    assert len(lm.judged) < at_once.judge_calls


def test_a_bank_that_grows_changes_no_point(world: World, fake_lm: type[FakeLM], storage: str) -> None:
    first, second = two_halves(world)
    few = search(world, fake_lm(), second, trials=5, storage=storage)
    more = search(world, fake_lm(), first, second, trials=12, storage=storage)
    assert more.trials[: len(few.trials)] == few.trials
    assert any(trial.program and FIRST in trial.program.rubric for trial in more.trials)


def test_a_bank_that_lost_texts_is_refused(world: World, fake_lm: type[FakeLM], storage: str) -> None:
    search(world, fake_lm(), *two_halves(world), trials=4, storage=storage)
    lm = fake_lm()
    with pytest.raises(PipelineError, match="made with 1 variants of architecture_notes that the bank lacks now"):
        search(world, lm, two_halves(world)[0], trials=4, storage=storage)
    assert not lm.judged


def test_another_program_has_a_study_of_its_own(world: World, fake_lm: type[FakeLM], storage: str) -> None:
    first = search(world, fake_lm(), trials=4, storage=storage)
    other = search(world, fake_lm(), trials=4, storage=storage, program=two_halves(world)[0])
    assert other == search(world, fake_lm(), trials=4, program=two_halves(world)[0])
    assert first == search(world, fake_lm(), trials=4)


def test_the_storage_may_name_environment_variables(
    world: World, fake_lm: type[FakeLM], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIES", str(tmp_path))
    search(world, fake_lm(), trials=2, storage="sqlite:///$STUDIES/here.db")
    assert (tmp_path / "here.db").is_file()


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////nowhere/at/all.db", "unknown://host/db"])
def test_a_storage_that_refuses_is_told_before_any_call(world: World, fake_lm: type[FakeLM], url: str) -> None:
    lm = fake_lm()
    with pytest.raises(PipelineError, match=r"optuna storage .*accepted is a database URL"):
        search(world, lm, storage=url)
    assert not lm.judged


# -- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"trials": 0}, "trials is 0: accepted is 1 or more"),
        ({"train_traces": 1}, "train_traces is 1: accepted is 2 or more"),
        ({"more_tokens": -0.1}, "more_tokens is -0.1: accepted is 0 or more"),
        ({"temperatures": [3.0]}, "temperatures is .*0 to 2"),
        ({"temperatures": "hot"}, r"temperatures: accepted is a list \(given: 'hot'\)"),
        ({"selection": {"finalist": 1}}, "did you mean `finalists`"),
    ],
)
def test_settings_that_are_not_accepted(values: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        build_optimizer("optuna", values)


def test_settings_from_a_file() -> None:
    optimizer = build_optimizer(
        "optuna", {"temperatures": [0.5], "storage": "sqlite:///x.db", "selection": {"repeats": 3}}
    )
    assert isinstance(optimizer, OptunaOptimizer)
    assert list(optimizer.settings.temperatures) == [0.5]
    assert optimizer.settings.selection == SelectionRule(repeats=3, more_repeats=2)
