from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.ledger_lm import Ledger, LedgerLM, NotInLedger
from judges.lm import LMError, ProviderDown
from judges.program import seed_program
from labeled_traces.dataset import Dataset
from labeled_traces.split import Development
from pipeline.config import PipelineError
from pipeline.optimizers.base import OptimizationResult
from pipeline.optimizers.dspy_search import DspyOptimizer, DspySettings
from pipeline.optimizers.selection import SelectionRule
from pipeline.settings import build_optimizer

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import FakeLM, World

ROOT = Path(__file__).parents[3]
LESSON = "Look for values that are marked as BAD."
SMALL: dict[str, Any] = {"max_trials": 8, "candidates": 4, "val_traces": 16}
READING = 16 * 2
"""Judge calls of one reading of a candidate in SMALL."""
SELECTION = 3 * 4 * 16


def search(world: World, lm: Any, seed: int = 0, **settings: Any) -> OptimizationResult:
    return DspyOptimizer(DspySettings(**{**SMALL, **settings})).optimize(
        world.program, world.development, world.context(lm, seed=seed)
    )


def instruction(text: str) -> str:
    return f"[[ ## proposed_instruction ## ]]\n{text}\n\n[[ ## completed ## ]]"


def test_a_better_instruction_is_found_and_proved(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm()
    result = search(world, lm)
    assert result.improved
    assert LESSON in result.program.rubric
    assert result.program.origin == f"MIPROv2 of dspy {result.versions['dspy']}"
    assert set(result.versions) == {"dspy", "optuna"}
    assert result.gain is not None
    assert result.gain.low is not None
    assert result.gain.low > 0
    assert result.stop_reason == "8 trials were made (max_trials)"


def test_the_trials_tell_every_reading(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm()
    result = search(world, lm)
    first, *others = result.trials
    assert (first.program, first.accepted, first.number, first.gain) == (world.program, True, 0, None)
    assert set(first.scores) == {"score", "coverage", "localization", "precision"}
    assert [trial.number for trial in result.trials] == list(range(len(result.trials)))
    programs = [trial.program for trial in others if trial.program]
    assert len({program.hash for program in programs}) == len(programs)
    assert all(trial.parent == world.program.hash for trial in others)
    assert all(program.parent == world.program.hash for program in programs)
    # The input program, and eight trials.
    assert sum(trial.calls for trial in result.trials) == 9 * READING
    assert all(trial.accepted == (trial.gain is not None and trial.gain > 0) for trial in others)
    assert result.judge_calls in (9 * READING + SELECTION, 9 * READING + SELECTION * 2 // 3)
    # Each call was a new one.
    assert len({request.key for request in lm.judged}) == len(lm.judged) == result.judge_calls


def test_candidates_are_pairs_of_an_instruction_and_a_set_of_examples(world: World, fake_lm: type[FakeLM]) -> None:
    result = search(world, fake_lm(), max_trials=24)
    programs = [trial.program for trial in result.trials if trial.program]
    assert len({program.rubric for program in programs}) == 2
    assert len({program.examples for program in programs}) == 4
    assert {(program.architecture_notes, program.output_template) for program in programs} == {
        (world.program.architecture_notes, world.program.output_template)
    }
    train = set(world.development.trainset.ids)
    for program in programs:
        for example in program.shown_examples:
            assert set(example) == {"excerpt", "findings", "score", "trace_id"}
            assert example["trace_id"] in train


def test_examples_that_help_are_found(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(finds=lambda tail: 0.95 if 'Reply: {"findings": [{' in tail else 0.2)
    result = search(world, lm)
    assert result.improved
    assert any(example["findings"] for example in result.program.shown_examples)


@pytest.mark.parametrize("part", ["architecture_notes", "output_template"])
def test_another_part_can_be_the_instructions(world: World, fake_lm: type[FakeLM], part: str) -> None:
    result = search(world, fake_lm(), part=part)
    assert result.improved
    assert LESSON in result.program.parts[part]
    assert result.program.rubric == world.program.rubric


def test_the_proposer_sees_the_trainset_as_examples_and_nothing_of_the_valset(
    world: World, fake_lm: type[FakeLM]
) -> None:
    lm = fake_lm()
    search(world, lm)
    asked = "\n".join(message.content for request in lm.reflected for message in request.messages)
    assert "figure 4 of train" in asked
    assert "of val" not in asked
    assert "val-" not in asked
    # Three batches of observations, a summary, and four instructions, the first of which dspy drops.
    assert len(lm.reflected) == 3 + 1 + 4


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("[[ ## proposed_instruction ## ]]\n\n[[ ## completed ## ]]", "the text is empty"),
        ("no field", "the text is empty"),
        ("", "the text is empty"),
        (instruction("RUBRIC\nGive a score from 0 to 10."), "another score scale"),
        (instruction("RUBRIC\nthe lookup of train-4/tool asked for another value"), "copies a run of words"),
        (instruction("Look at the calls."), "no longer says what these scores mean"),
    ],
)
def test_a_bad_instruction_is_refused_before_it_costs_a_judge_call(
    world: World, fake_lm: type[FakeLM], reply: str, why: str
) -> None:
    filled = reply.replace("RUBRIC", world.program.rubric)
    lm = fake_lm(proposes=lambda wanted, _: filled if wanted == "proposed_instruction" else "")
    result = search(world, lm)
    refused = [trial for trial in result.trials if trial.program is None]
    assert len(refused) == 3
    assert all(why in trial.reason for trial in refused)
    assert not any(trial.accepted or trial.calls for trial in refused)
    programs = [trial.program for trial in result.trials if trial.program]
    assert {program.rubric for program in programs} == {world.program.rubric}
    assert len({program.examples for program in programs}) > 1


def test_where_nothing_is_left_to_choose_no_judge_call_is_made(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(proposes=lambda *_: "nothing")
    program = world.program.with_knobs(max_examples=0)
    result = DspyOptimizer(DspySettings(**SMALL)).optimize(program, world.development, world.context(lm))
    assert result.program is program
    assert result.stop_reason.startswith("there is nothing to choose from: rubric: the text is empty")
    assert not lm.judged


def test_instructions_are_searched_where_no_example_is_shown(world: World, fake_lm: type[FakeLM]) -> None:
    program = world.program.with_knobs(max_examples=0)
    result = DspyOptimizer(DspySettings(**SMALL)).optimize(program, world.development, world.context(fake_lm()))
    assert result.improved
    assert (LESSON in result.program.rubric, result.program.examples) == (True, "")


def test_a_candidate_whose_replies_cannot_be_used_is_missing_and_not_zero(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(replies=lambda tail, reply: "broken" if LESSON in tail else reply)
    result = search(world, lm)
    broken = [trial for trial in result.trials if trial.program and LESSON in trial.program.rubric]
    assert broken
    for trial in broken:
        assert "only 0% of its judgments can be used" in trial.reason
        assert (trial.accepted, trial.gain, trial.scores) == (False, None, {})
    assert LESSON not in result.program.rubric


def test_an_input_whose_replies_cannot_be_used_stops_the_search(world: World, fake_lm: type[FakeLM]) -> None:
    result = search(world, fake_lm(replies=lambda *_: "broken"))
    assert not result.improved
    assert not result.exhausted
    assert "0% of 32 tool_calling judgments can be used" in result.stop_reason
    assert result.judge_calls == READING


def test_a_dead_reflection_model_leaves_the_examples_to_choose_from(world: World, fake_lm: type[FakeLM]) -> None:
    class Dead(fake_lm):  # type: ignore[valid-type,misc]
        async def complete(self, request: Any) -> Any:
            if "===== TRACE" not in request.messages[-1].content:
                raise LMError("timeout", "gone")
            return await super().complete(request)

    result = search(world, Dead())
    assert "8 replies of the reflection model are missing, the first one: no reply (gone)" in result.warnings
    programs = [trial.program for trial in result.trials if trial.program]
    assert {program.rubric for program in programs} == {world.program.rubric}


def test_a_dead_endpoint_is_raised(world: World, fake_lm: type[FakeLM]) -> None:
    class Dead(fake_lm):  # type: ignore[valid-type,misc]
        async def complete(self, request: Any) -> Any:
            if "===== TRACE" in request.messages[-1].content:
                raise ProviderDown("401")
            return await super().complete(request)

    with pytest.raises(ProviderDown, match="401"):
        search(world, Dead())


def test_an_error_in_our_own_work_is_raised_and_not_swallowed(world: World, fake_lm: type[FakeLM]) -> None:
    def broken(wanted: str, prompt: str) -> str:
        raise ZeroDivisionError(f"{wanted} {len(prompt)}")

    with pytest.raises(ZeroDivisionError, match="observations"):
        search(world, fake_lm(proposes=broken))


def test_a_replay_that_lacks_a_reply_is_raised(world: World, fake_lm: type[FakeLM], tmp_path: Path) -> None:
    def run(mode: Any, lm: FakeLM, **settings: Any) -> OptimizationResult:
        with LedgerLM(lm, Ledger(tmp_path / "l.db"), "run", None, mode, lambda *_: 0.0) as ledger_lm:
            return search(world, ledger_lm, **settings)

    short = run("live", fake_lm(), max_trials=2)
    assert run("replay", fake_lm(), max_trials=2) == short
    with pytest.raises(NotInLedger):
        run("replay", fake_lm(), candidates=5)


def test_changes_without_effect_are_seldom_taken(world: World, fake_lm: type[FakeLM]) -> None:
    """Pure noise: the best of eight lucky readings must not survive fresh repeats more often than the level says."""
    numbers = itertools.count()

    def remark(wanted: str, _: str) -> str:
        return instruction(f"{world.program.rubric}\nRemark {next(numbers)}.") if "instruction" in wanted else ""

    improved = 0
    for seed in range(8):
        lm = fake_lm(finds=lambda _: 0.5, alarms=lambda _: 0.3, proposes=remark)
        improved += search(world, lm, seed=seed).improved
    assert improved <= 2


def test_it_works_where_an_event_loop_runs(world: World, fake_lm: type[FakeLM]) -> None:
    async def notebook() -> OptimizationResult:
        return search(world, fake_lm(), max_trials=2)

    assert asyncio.run(notebook()) == search(world, fake_lm(), max_trials=2)


@pytest.mark.parametrize("empty", ["trainset", "valset"])
def test_too_few_labels_is_a_result(world: World, fake_lm: type[FakeLM], empty: str) -> None:
    parts = {name: getattr(world.development, name) for name in ("trainset", "valset")}
    bad = [row for row in parts[empty] if row.errors]
    parts[empty] = Dataset([*bad[:3], *(row for row in parts[empty] if not row.errors)])
    lm = fake_lm()
    result = DspyOptimizer().optimize(world.program, Development(**parts), world.context(lm))
    assert result.program is world.program
    assert f"too few labels: 3 traces of the {empty}" in result.reason
    assert not lm.judged
    assert not lm.reflected


def test_the_calls_that_are_allowed_decide_how_many_trials_there_are(world: World, fake_lm: type[FakeLM]) -> None:
    # 20 calls for the input program, 40 for the choice, 20 for each trial.
    rule = SelectionRule(finalists=1, repeats=2)
    for calls, affordable in ((79, 0), (80, 1), (99, 1), (120, 3)):
        lm = fake_lm()
        result = search(world, lm, val_traces=10, selection=rule, max_calls=calls)
        assert bool(lm.judged) == bool(affordable)
        assert sum(trial.calls for trial in result.trials) == 20 * (affordable + bool(affordable))
        assert len(lm.judged) <= calls
        if affordable:
            assert f"{affordable} trials are all drawn at random" in result.warnings[0]
        else:
            assert result.reason == "max_calls 79 does not pay for one trial: 80 judge calls for each dimension do"
    assert search(world, fake_lm(), val_traces=4, max_trials=11, selection=rule).warnings == ()


def test_the_holistic_judge_is_not_searched(world: World, fake_lm: type[FakeLM]) -> None:
    with pytest.raises(PipelineError, match="holistic"):
        DspyOptimizer().optimize(seed_program("holistic"), world.development, world.context(fake_lm()))


@pytest.mark.parametrize("library", ["dspy", "optuna"])
def test_without_the_library_it_fails_and_says_what_to_install(
    world: World, fake_lm: type[FakeLM], monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(PipelineError, match="pip install"):
        search(world, fake_lm())


def test_another_form_of_the_library_is_refused(
    world: World, fake_lm: type[FakeLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dspy.teleprompt import MIPROv2

    monkeypatch.delattr(MIPROv2, "_propose_instructions")
    lm = fake_lm()
    with pytest.raises(PipelineError, match="_propose_instructions"):
        search(world, lm)
    assert not lm.judged


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_callz": 3}, "max_callz"),
        ({"max_calls": 0}, "1 or more"),
        ({"candidates": 1}, "2 or more"),
        ({"part": "examples"}, "output_template"),
        ({"selection": {"level": 2}}, "level 2"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        build_optimizer("dspy", options)


def test_it_leaves_no_file_prints_nothing_and_imports_no_other_client(tmp_path: Path) -> None:
    """In a process of its own, with a home of its own; the result does not depend on the process either."""
    code = (
        "import json, sys\nfrom tests.pipeline.optimizers.conftest import FakeLM, make_world\n"
        "from pipeline.optimizers.dspy_search import DspyOptimizer, DspySettings\n"
        "world = make_world()\n"
        "settings = DspySettings(max_trials=4, candidates=3, val_traces=16)\n"
        "result = DspyOptimizer(settings).optimize(world.program, world.development, world.context(FakeLM()))\n"
        "print(json.dumps([[repr(trial) for trial in result.trials], result.program.hash, "
        "[name for name in ('litellm', 'openai', 'mlflow') if name in sys.modules]]))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": os.defpath},
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        for seed in ("1", "2")
    ]
    first, second = [json.loads(run.stdout) for run in runs]
    assert first == second
    assert first[2] == []
    assert [run.stderr for run in runs] == ["", ""]
    assert list(tmp_path.iterdir()) == []
