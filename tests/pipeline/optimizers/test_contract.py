"""What every optimiser must do. A new one is tested by its line in OPTIMIZERS; small settings for it go into SMALL."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.lm import BudgetExhausted
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.sealed import Seal
from labeled_traces.split import Development, LeakageError, make_split
from labeled_traces.trace import Span, Trace
from pipeline.optimizers import OPTIMIZERS
from pipeline.optimizers.base import OptimizationResult, Optimizer, SearchContext
from pipeline.sealed_lm import SealedLM
from pipeline.settings import build_optimizer

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import FakeLM, World

SMALL: Mapping[str, Mapping[str, Any]] = {
    "dspy": {"max_calls": 500, "max_trials": 6, "candidates": 4, "val_traces": 12, "selection": {"repeats": 2}},
    "evolution": {
        "max_calls": 500,
        "max_candidates": 4,
        "islands": 2,
        "migrate_every": 1,
        "reread": 1,
        "train_traces": 12,
        "val_traces": 24,
        "selection": {"repeats": 2, "more_repeats": 1},
    },
    "gepa": {"max_calls": 500, "max_iterations": 4, "minibatch": 8, "val_traces": 12, "selection": {"repeats": 2}},
    "optuna": {
        "max_calls": 500,
        "trials": 8,
        "train_traces": 20,
        "val_traces": 12,
        "selection": {"repeats": 2, "more_repeats": 1},
    },
}


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture(params=list(OPTIMIZERS))
def optimizer(request: pytest.FixtureRequest) -> Optimizer:
    return build_optimizer(request.param, SMALL.get(request.param, {}))


def test_it_returns_a_program_of_the_same_dimension_and_says_why(
    optimizer: Optimizer, world: World, fake_lm: type[FakeLM]
) -> None:
    result = optimizer.optimize(world.program, world.development, world.context(fake_lm()))
    assert result.program.dimension == world.program.dimension
    for name in ("model", "endpoint", "max_tokens", "layout"):
        assert getattr(result.program.knobs, name) == getattr(world.program.knobs, name)
    assert result.optimizer == optimizer.name
    assert result.reason
    assert result.stop_reason
    assert result.improved == (result.program != world.program)
    if result.improved:
        assert result.program.hash in {trial.program.hash for trial in result.trials if trial.program}


def test_the_input_is_left_as_it_was(optimizer: Optimizer, world: World, fake_lm: type[FakeLM]) -> None:
    before = asdict(world.program)
    hashes = (world.development.trainset.hash, world.development.valset.hash)
    optimizer.optimize(world.program, world.development, world.context(fake_lm()))
    assert asdict(world.program) == before
    assert (world.development.trainset.hash, world.development.valset.hash) == hashes


def test_equal_seeds_give_equal_results_whatever_the_concurrency(
    optimizer: Optimizer, world: World, fake_lm: type[FakeLM]
) -> None:
    def run(seed: int, concurrency: int) -> OptimizationResult:
        return optimizer.optimize(
            world.program, world.development, world.context(fake_lm(), seed=seed, concurrency=concurrency)
        )

    first = run(3, 1)
    assert run(3, 8) == first
    assert run(3, 1) == first


def test_it_keeps_to_its_budget_and_counts_every_call(
    optimizer: Optimizer, world: World, fake_lm: type[FakeLM]
) -> None:
    lm = fake_lm()
    result = optimizer.optimize(world.program, world.development, world.context(lm))
    assert result.judge_calls == len(lm.judged)
    assert result.reflection_calls == len(lm.reflected)
    assert result.judge_calls <= 500


@pytest.mark.parametrize("calls", [0, 10, 30, 100])
def test_a_used_up_budget_ends_it_with_everything_so_far(
    optimizer: Optimizer, world: World, fake_lm: type[FakeLM], calls: int
) -> None:
    lm = fake_lm(fails=lambda number: BudgetExhausted("no more") if number >= calls else None)
    result = optimizer.optimize(world.program, world.development, world.context(lm))
    assert result.program == world.program
    assert not result.improved
    assert result.exhausted == (optimizer.name != "seed")
    assert len(lm.judged) + len(lm.reflected) <= calls
    if calls == 100 and optimizer.name != "seed":
        assert result.trials


def wrong_inputs() -> list[Callable[[World], object]]:
    return [
        lambda world: world.development.trainset,
        lambda world: (world.development.trainset, world.development.valset),
        lambda world: make_split(world.development.trainset, seed=0),
        lambda world: Development(world.development.trainset, world.development.trainset),
    ]


@pytest.mark.parametrize("wrong", wrong_inputs())
def test_anything_but_a_development_split_is_refused(
    optimizer: Optimizer, world: World, fake_lm: type[FakeLM], wrong: Callable[[World], object]
) -> None:
    lm = fake_lm()
    with pytest.raises(LeakageError):
        optimizer.optimize(world.program, wrong(world), world.context(lm))  # type: ignore[arg-type]
    assert not lm.judged


def test_a_held_out_trace_in_the_development_split_is_refused(
    optimizer: Optimizer, world: World, fake_lm: type[FakeLM]
) -> None:
    lm = fake_lm()
    context = world.context(lm, locked=frozenset({"val-3"}))
    with pytest.raises(LeakageError, match="val-3"):
        optimizer.optimize(world.program, world.development, context)
    assert not lm.judged


def test_a_copy_of_a_train_trace_in_val_is_refused(optimizer: Optimizer, world: World, fake_lm: type[FakeLM]) -> None:
    row = next(iter(world.development.trainset))
    copy = replace(row, trace=replace(row.trace, trace_id="other-id"), group="other")
    leaky = Development(world.development.trainset, Dataset([*world.development.valset, copy]))
    with pytest.raises(LeakageError, match="content"):
        optimizer.optimize(world.program, leaky, world.context(fake_lm()))


SECRET = "The customer of order W4817126 at 19122 Elm Avenue asked for a refund of the desk lamp that never came"


def sealed_off(world: World, lm: FakeLM, **fields: Any) -> SearchContext:
    held_out = LabeledTrace(Trace("held-out-7", (Span("a", None, "agent", inputs={"goal": SECRET, "zip": 19122}),)))
    seal = Seal.of(Dataset([held_out]), [*world.development.trainset, *world.development.valset])
    return replace(world.context(SealedLM(lm, seal)), seal=seal, locked=frozenset({"held-out-7"}), **fields)


@pytest.mark.parametrize("part", ["rubric", "architecture_notes", "examples", "output_template"])
def test_an_input_program_or_a_bank_that_quotes_a_held_out_trace_is_refused(
    optimizer: Optimizer, world: World, fake_lm: type[FakeLM], part: str
) -> None:
    example = {"excerpt": "zip: 19122, order: #W4817126", "findings": [], "score": 3, "trace_id": "train-0"}
    text = json.dumps(example) if part == "examples" else f"{world.program.parts[part]}\n{SECRET.upper()}"
    leaky = world.program.with_parts({part: text}, "somewhere else")
    for program, bank in ((leaky, ()), (world.program, (leaky,))):
        lm = fake_lm()
        with pytest.raises(LeakageError, match=f"tool_calling {part} holds.* held-out trace 'held-out-7'"):
            optimizer.optimize(program, world.development, sealed_off(world, lm, bank=bank))
        assert not lm.judged + lm.reflected


def test_a_reply_that_quotes_a_held_out_trace_becomes_no_candidate(
    optimizer: Optimizer, world: World, fake_lm: type[FakeLM]
) -> None:
    """Such as one of a ledger that other runs fill as well."""
    quoted = f"Look out. {SECRET}\n{world.program.rubric}"
    lm = fake_lm(
        reflects=lambda *_: f"<<<\n{quoted}\n>>>",
        proposes=lambda wanted, _: f"[[ ## {wanted} ## ]]\n{quoted}\n\n[[ ## completed ## ]]",
    )
    context = sealed_off(world, lm)
    if optimizer.name == "dspy":  # it says to the model what the model has said before
        with pytest.raises(LeakageError, match="what is sent to simulated/default holds 16 words in a row of the held"):
            optimizer.optimize(world.program, world.development, context)
    else:
        trials = optimizer.optimize(world.program, world.development, context).trials
        assert not lm.reflected or any("of the held-out trace 'held-out-7'" in trial.reason for trial in trials)
    assert not any("Elm Avenue" in message.content for request in lm.judged for message in request.messages)


def test_what_a_judge_says_of_a_held_out_trace_is_not_sent_to_the_reflection_model(
    optimizer: Optimizer, world: World, fake_lm: type[FakeLM]
) -> None:
    def remembers(_: str, reply: str) -> str:
        read = json.loads(reply)
        return json.dumps({**read, "findings": [{**finding, "explanation": SECRET} for finding in read["findings"]]})

    lm = fake_lm(replies=remembers, alarms=lambda _: 0.9)
    context = sealed_off(world, lm)
    if optimizer.name in ("gepa", "evolution"):
        with pytest.raises(LeakageError, match="what is sent to simulated/default holds 16 words in a row of the held"):
            optimizer.optimize(world.program, world.development, context)
    else:
        optimizer.optimize(world.program, world.development, context)
    assert not any("Elm Avenue" in message.content for request in lm.reflected for message in request.messages)


def test_a_killed_search_ends_as_an_unbroken_one_and_pays_no_call_twice(
    optimizer: Optimizer, world: World, fake_lm: type[FakeLM], tmp_path: Path
) -> None:
    unbroken = run_with_ledger(optimizer, world, fake_lm(), tmp_path / "a.db")
    calls = unbroken.judge_calls + unbroken.reflection_calls
    for stop_at in (5, calls // 2, calls - 1):
        path = tmp_path / f"{stop_at}.db"
        first = fake_lm(fails=killed_at(stop_at))
        if calls:
            with pytest.raises(Killed):
                run_with_ledger(optimizer, world, first, path)
        second = fake_lm()
        assert run_with_ledger(optimizer, world, second, path) == unbroken
        paid_twice = keys(first) & keys(second)
        assert not paid_twice
        assert run_with_ledger(optimizer, world, dead(fake_lm), path) == unbroken


def killed_at(calls: int) -> Callable[[int], BaseException | None]:
    return lambda number: Killed() if number >= calls else None


def run_with_ledger(optimizer: Optimizer, world: World, lm: FakeLM, path: Path) -> OptimizationResult:
    with LedgerLM(lm, Ledger(path), "run", None, "live", lambda *_: 0.0) as ledger_lm:
        return optimizer.optimize(world.program, world.development, world.context(ledger_lm))


def keys(lm: FakeLM) -> set[str]:
    return {request.key for request in (*lm.judged, *lm.reflected)}


def dead(fake_lm: type[FakeLM]) -> FakeLM:
    return fake_lm(fails=lambda _: AssertionError("a call that the ledger holds was made again"))


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_it_goes_by_its_own_name(name: str) -> None:
    assert OPTIMIZERS[name].name == name
