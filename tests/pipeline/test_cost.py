from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from judges.judge import estimate_call
from judges.ledger.budget import Budget, Price
from judges.lm import JudgeError
from judges.models.connect import Models, open_lm
from judges.program import Knobs, seed_suite
from labeled_traces.simulated import simulate
from pipeline.cost import Cost, announce, suite_cost, uncounted_cost
from pipeline.evaluate import EvaluateSettings, evaluate

ROWS = simulate(6, 0)
NAMES = ("goal_fulfillment", "tool_calling")


def test_a_simulated_model_is_free() -> None:
    cost = suite_cost(seed_suite(dimensions=NAMES), ROWS, 3, Models({}, 60))
    assert cost.calls == 2 * 6 * 3
    assert cost.dollars == 0
    assert cost.simulated
    assert "free: the model is simulated" in cost.in_words(Budget())


def test_few_rows_are_counted_exactly() -> None:
    suite = seed_suite(dimensions=NAMES)
    cost = suite_cost(suite, ROWS, 2, Models({}, 60))
    estimates = [estimate_call(program, row.trace) for program in suite.programs.values() for row in ROWS]
    assert cost.prompt_tokens == 2 * sum(prompt for prompt, _ in estimates)
    assert cost.completion_tokens == 2 * sum(completion for _, completion in estimates)


def test_many_rows_are_estimated_from_a_sample() -> None:
    rows = simulate(120, 0)
    suite = seed_suite(dimensions=NAMES)
    cost = suite_cost(suite, rows, 1, Models({}, 60))
    exact = sum(estimate_call(program, row.trace)[0] for program in suite.programs.values() for row in rows)
    assert cost.calls == 240
    assert cost.prompt_tokens == pytest.approx(exact, rel=0.1)


def test_a_given_price_counts() -> None:
    suite = seed_suite(Knobs(model="openai/mine"), NAMES)
    cost = suite_cost(suite, ROWS, 1, Models({"openai/mine": Price(2.0, 10.0)}, 60))
    assert cost.dollars == pytest.approx((2 * cost.prompt_tokens + 10 * cost.completion_tokens) / 1e6)
    assert not cost.simulated
    assert f"about {cost.dollars:.2f} dollars" in cost.in_words(Budget())


KNOWN = Cost(1, 2, 3, 0.5, paid=frozenset({"openai/mine"}))


def test_unknown_stays_unknown_in_a_sum() -> None:
    unknown = Cost(10, 20, 30, paid=frozenset({"openai/x"}), unpriced=frozenset({"openai/x"}))
    both = KNOWN + unknown
    assert (both.calls, both.prompt_tokens, both.completion_tokens, both.dollars) == (11, 22, 33, None)
    assert (KNOWN + KNOWN).dollars == 1.0
    assert "unknown price" in both.in_words(Budget())


def test_what_is_paid_is_never_called_free() -> None:
    """The judges are simulated, the reflection model is not."""
    free = suite_cost(seed_suite(dimensions=NAMES), ROWS, 1, Models({}, 60))
    for model, money in (("openai/x", "unknown price"), ("openai/mine", "about 0.00 dollars")):
        total = free + uncounted_cost(model, Models({"openai/mine": Price(2.0, 10.0)}, 60))
        assert not total.simulated
        assert total.in_words(Budget()).endswith(f"{money}; what {model} takes to write proposals comes on top")
    assert free + uncounted_cost("simulated/default", Models({}, 60)) == free


def test_an_unknown_price_under_a_cap_is_refused_before_anything_is_spent() -> None:
    cost = KNOWN + uncounted_cost("openai/x", Models({}, 60))
    with pytest.raises(JudgeError, match="the price of openai/x is unknown"):
        announce(cost, Budget(dollars=5), lambda _: None)
    said: list[str] = []
    announce(cost, Budget(calls=5), said.append)
    announce(KNOWN, Budget(dollars=5), said.append)
    assert len(said) == 2


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("extraction", [True, False])
def test_what_is_announced_is_what_is_spent(tmp_path: Path, repeats: int, extraction: bool) -> None:
    """From a cold ledger, where every trace has a plan: equal calls, and prompts that differ by 3 % at most."""
    suite = seed_suite(Knobs(plan_extraction=extraction))
    cost = suite_cost(suite, ROWS, repeats, Models({}, 60))
    with open_lm(tmp_path / "ledger.sqlite", "run") as lm:
        judgments = evaluate(suite, ROWS, lm, EvaluateSettings(repeats=repeats))
        spent = lm.spent()
    assert cost.calls == spent.calls == len(ROWS) * (7 * repeats + extraction)
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as db:
        prompts, replies = db.execute("SELECT SUM(prompt_tokens), SUM(completion_tokens) FROM calls").fetchone()
    assert cost.prompt_tokens == pytest.approx(prompts, rel=0.03)
    assert cost.completion_tokens >= replies
    assert {str(judgment.outcome) for judgment in judgments} == {"scored"}


def test_it_says_what_ends_it() -> None:
    text = Cost(20_000, 1_500_000, 2_000, 1.0, frozenset({"openai/mine"})).in_words(Budget(calls=1000, dollars=2.5))
    assert "cost: up to about 20,000 calls, 1.5 million tokens of prompts and at most 2 thousand of replies" in text
    assert text.endswith("the budget ends it at 1,000 calls or 2.5 dollars")


def test_no_rows_cost_nothing() -> None:
    assert suite_cost(seed_suite(dimensions=NAMES), [], 3, Models({}, 60)) == Cost()
