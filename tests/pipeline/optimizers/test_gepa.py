from __future__ import annotations

import asyncio
import itertools
import json
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
from pipeline.optimizers.gepa import GepaOptimizer
from pipeline.optimizers.selection import SelectionRule
from pipeline.optimizers.settings import GepaSettings
from pipeline.settings import build_optimizer

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import FakeLM, World

ROOT = Path(__file__).parents[3]
LESSON = "Look for values that are marked as BAD."


def search(world: World, lm: Any, seed: int = 0, **settings: Any) -> OptimizationResult:
    small = {"max_iterations": 4, "minibatch": 8, "val_traces": 16, **settings}
    return GepaOptimizer(GepaSettings(**small)).optimize(world.program, world.development, world.context(lm, seed=seed))


def test_a_better_rubric_is_found_and_proved(world: World, fake_lm: type[FakeLM]) -> None:
    result = search(world, fake_lm())
    assert result.improved
    assert LESSON in result.program.rubric
    assert result.program.origin.startswith("gepa ")
    assert result.gain is not None
    assert result.gain.low is not None
    assert result.gain.low > 0
    assert result.versions["gepa"].startswith("0.")
    assert result.stop_reason == "4 proposals were made (max_iterations)"
    first = result.trials[0]
    assert (first.program, first.accepted, first.number) == (world.program, True, 0)
    assert set(first.scores) == {"score", "coverage", "localization", "precision"}
    assert [trial.number for trial in result.trials] == list(range(len(result.trials)))
    programs = {trial.program.hash for trial in result.trials if trial.program}
    assert all(trial.parent in programs for trial in result.trials[1:])
    assert all(trial.program.parent == trial.parent for trial in result.trials if trial.program)


def test_it_works_where_an_event_loop_runs(world: World, fake_lm: type[FakeLM]) -> None:
    async def notebook() -> OptimizationResult:
        return search(world, fake_lm())

    assert asyncio.run(notebook()) == search(world, fake_lm())


def test_a_change_without_effect_is_accepted_far_less_than_half_of_the_time(
    world: World, fake_lm: type[FakeLM]
) -> None:
    """Pure noise: whatever the prompt says, the judge finds and cries wolf by luck. At a level of 0.2 the share of
    accepted proposals is below 0.25 here, and nothing of it survives the final test at its level of 0.9."""
    numbers = itertools.count()

    def remark(part: str, _: str) -> str:
        return f"<<<\n{world.program.parts[part]}\nRemark {next(numbers)}.\n>>>"

    tried = accepted = improved = 0
    for seed in range(8):
        lm = fake_lm(finds=lambda _: 0.5, alarms=lambda _: 0.3, reflects=remark)
        result = search(world, lm, seed=seed, max_iterations=8, max_calls=3000)
        judged = [trial for trial in result.trials[1:] if trial.program]
        tried += len(judged)
        accepted += sum(trial.accepted for trial in judged)
        improved += result.improved
    assert tried == 64
    assert accepted / tried < 0.25
    assert improved <= 2


def test_a_reflection_model_that_dies_ends_the_search_soon(world: World, fake_lm: type[FakeLM]) -> None:
    class Dying(fake_lm):  # type: ignore[valid-type,misc]
        answers = 1

        async def complete(self, request: Any) -> Any:
            if request.messages[-1].content.startswith("# Improve"):
                if self.answers == 0:
                    raise LMError("timeout", "gone")
                self.answers -= 1
            return await super().complete(request)

    result = search(world, Dying(), max_iterations=20, max_failures=3)
    assert "proposals in a row failed" in result.stop_reason
    assert "gone" in result.stop_reason
    assert len(result.trials) <= 5


def test_a_reflection_model_that_never_answers_is_an_error(world: World, fake_lm: type[FakeLM]) -> None:
    class Dead(fake_lm):  # type: ignore[valid-type,misc]
        async def complete(self, request: Any) -> Any:
            if request.messages[-1].content.startswith("# Improve"):
                raise LMError("provider_error", "no credentials")
            return await super().complete(request)

    with pytest.raises(LMError, match=r"the reflection model .* gave no reply: no credentials"):
        search(world, Dead(), max_iterations=20, max_failures=3)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("<<<\n\n>>>", "the text is empty"),
        ("no text", "the reflection reply holds no text"),
        ("<<<\nGive a score from 0 to 10.\n>>>", "another score scale"),
        ("<<<\nthe lookup of train-4/tool asked for another value\n>>>", "copies a run of words"),
    ],
)
def test_a_bad_proposal_is_refused_before_it_costs_a_judge_call(
    world: World, fake_lm: type[FakeLM], reply: str, why: str
) -> None:
    lm = fake_lm(reflects=lambda *_: reply, finds=lambda _: 1.0, alarms=lambda _: 0.0)
    result = search(world, lm, max_failures=2)
    refused = [trial for trial in result.trials if trial.program is None]
    assert len(refused) == 2
    assert all(why in trial.reason and not trial.accepted for trial in refused)
    assert result.judge_calls == 16 * 2 + 2 * 8 * 2
    assert result.program == world.program


def test_a_candidate_whose_replies_cannot_be_used_is_rejected(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(replies=lambda tail, reply: "broken" if LESSON in tail else reply)
    result = search(world, lm, max_iterations=2)
    assert not result.improved
    assert "0% of its judgments can be used" in result.trials[1].reason


def test_an_input_whose_replies_cannot_be_used_stops_the_search(world: World, fake_lm: type[FakeLM]) -> None:
    result = search(world, fake_lm(replies=lambda *_: "broken"))
    assert not result.improved
    assert not result.exhausted
    assert "0% of 32 tool_calling judgments can be used" in result.stop_reason


def test_a_dead_endpoint_is_raised(world: World, fake_lm: type[FakeLM]) -> None:
    with pytest.raises(ProviderDown):
        search(world, fake_lm(fails=lambda _: ProviderDown("401")))


def test_an_error_in_a_proposal_is_raised_and_not_swallowed(world: World, fake_lm: type[FakeLM]) -> None:
    def broken(part: str, prompt: str) -> str:
        raise ZeroDivisionError(f"{part} {len(prompt)}")

    lm = fake_lm(reflects=broken)
    with pytest.raises(ZeroDivisionError, match="rubric"):
        search(world, lm)
    assert len(lm.reflected) == 1


def test_a_replay_that_lacks_a_reflection_is_raised(world: World, fake_lm: type[FakeLM], tmp_path: Path) -> None:
    def run(mode: Any, lm: FakeLM, **settings: Any) -> OptimizationResult:
        with LedgerLM(lm, Ledger(tmp_path / "l.db"), "run", None, mode, lambda *_: 0.0) as ledger_lm:
            return search(world, ledger_lm, **settings)

    short = run("live", fake_lm(), max_iterations=1)
    assert run("replay", fake_lm(), max_iterations=1) == short
    with pytest.raises(NotInLedger):
        run("replay", fake_lm(), max_iterations=2)


@pytest.mark.parametrize("empty", ["trainset", "valset"])
def test_too_few_labels_is_a_result(world: World, fake_lm: type[FakeLM], empty: str) -> None:
    parts = {name: getattr(world.development, name) for name in ("trainset", "valset")}
    bad = [row for row in parts[empty] if row.errors]
    parts[empty] = Dataset([*bad[:3], *(row for row in parts[empty] if not row.errors)])
    lm = fake_lm()
    result = GepaOptimizer().optimize(world.program, Development(**parts), world.context(lm))
    assert result.program is world.program
    assert f"too few labels: 3 traces of the {empty}" in result.reason
    assert not lm.judged


def test_a_small_budget_is_warned_of_before_it_is_spent(world: World, fake_lm: type[FakeLM]) -> None:
    settings = GepaSettings(val_traces=10, minibatch=8, selection=SelectionRule(finalists=1, repeats=2))
    # 20 calls for the seed on val, 40 for the choice, 32 + 20 for each proposal.
    for calls, affordable in ((111, 0), (112, 1), (163, 1), (164, 2), (215, 2)):
        lm = fake_lm()
        budget = GepaSettings(**{**vars(settings), "max_calls": calls})
        result = GepaOptimizer(budget).optimize(world.program, world.development, world.context(lm))
        if affordable:
            assert f"pays for {affordable} proposals, so the search has not converged" in result.warnings[0]
            assert "3 proposals need at least 216 judge calls" in result.warnings[0]
        else:
            assert result.reason == "max_calls 111 does not pay for one proposal: 112 judge calls for each dimension do"
        assert len(lm.judged) <= calls
        assert bool(lm.judged) == bool(affordable)
    enough = GepaSettings(**{**vars(settings), "max_calls": 216})
    assert GepaOptimizer(enough).optimize(world.program, world.development, world.context(fake_lm())).warnings == ()


def test_parts_one_after_the_other(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm()
    search(world, lm, parts="round_robin", max_iterations=2)
    assert len(lm.reflected) <= 2


def test_a_choice_on_train_leaves_out_the_traces_that_are_shown(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm()
    result = search(world, lm, select_on_train=True, max_iterations=2)
    assert result.improved
    assert result.gain is not None
    shown = {example["trace_id"] for example in result.program.shown_examples}
    assert shown
    assert 16 < result.gain.n <= 16 + 24 - len(shown)
    assert result.judge_calls == len(lm.judged)


def test_the_holistic_judge_is_not_searched(world: World, fake_lm: type[FakeLM]) -> None:
    with pytest.raises(PipelineError, match="holistic"):
        GepaOptimizer().optimize(seed_program("holistic"), world.development, world.context(fake_lm()))


def test_without_the_library_it_fails_and_says_what_to_install(
    world: World, fake_lm: type[FakeLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gepa", None)
    with pytest.raises(PipelineError, match="pip install"):
        search(world, fake_lm())


def test_nothing_is_printed(world: World, fake_lm: type[FakeLM], capsys: pytest.CaptureFixture[str]) -> None:
    search(world, fake_lm(), max_iterations=1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"max_callz": 3}, "max_callz"),
        ({"max_calls": 0}, "1 or more"),
        ({"minibatch": 1}, "2 or more"),
        ({"alpha": 1.0}, "between 0 and 1"),
        ({"parts": "some"}, "round_robin"),
        ({"selection": {"finalist": 1}}, "finalist"),
        ({"selection": {"level": 2}}, "level 2"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        build_optimizer("gepa", options)


def test_settings_are_read_from_plain_values() -> None:
    optimizer = build_optimizer("gepa", {"max_calls": 70, "selection": {"finalists": 3}})
    assert isinstance(optimizer, GepaOptimizer)
    assert optimizer.settings == GepaSettings(max_calls=70, selection=SelectionRule(finalists=3))


def test_the_result_does_not_depend_on_the_process() -> None:
    """Sets of strings have another order in every process: none may decide anything."""
    code = (
        "import json\nfrom tests.pipeline.optimizers.conftest import FakeLM, make_world\n"
        "from pipeline.optimizers.gepa import GepaOptimizer\nfrom pipeline.optimizers.settings import GepaSettings\n"
        "world = make_world()\n"
        "settings = GepaSettings(max_iterations=5, minibatch=8, val_traces=16)\n"
        "result = GepaOptimizer(settings).optimize(world.program, world.development, world.context(FakeLM()))\n"
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
