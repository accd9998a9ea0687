from __future__ import annotations

import pytest

from judges.budget import Budget, Price
from judges.connect import Models
from judges.judge import estimate_call
from judges.program import Knobs, seed_suite
from labeled_traces.simulated import simulate
from pipeline.cost import Cost, suite_cost

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
    assert f"at most {cost.dollars:.2f} dollars" in cost.in_words(Budget())


def test_unknown_stays_unknown_in_a_sum() -> None:
    known, unknown = Cost(1, 2, 3, 0.5, False), Cost(10, 20, 30, None, True)
    assert known + unknown == Cost(11, 22, 33, None, False)
    assert known + known == Cost(2, 4, 6, 1.0, False)
    assert "unknown price" in (known + unknown).in_words(Budget())


def test_it_says_what_ends_it() -> None:
    text = Cost(20_000, 1_500_000, 2_000, 1.0, False).in_words(Budget(calls=1000, dollars=2.5))
    assert "about 20,000 calls, up to 1.5 million prompt and 2 thousand reply tokens" in text
    assert text.endswith("the budget ends it at 1,000 calls or 2.5 dollars")


def test_no_rows_cost_nothing() -> None:
    assert suite_cost(seed_suite(dimensions=NAMES), [], 3, Models({}, 60)) == Cost(0, 0, 0, 0.0, True)
