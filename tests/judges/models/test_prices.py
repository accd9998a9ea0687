"""Tests of what calls cost, against published prices as LiteLLM's table holds them."""

from __future__ import annotations

from typing import Any

import pytest

from judges.ledger.budget import Price
from judges.models.prices import Prices

MINE = Prices({"openai/mine": Price(2.0, 10.0), "openai/cheap": Price(2.0, 10.0, 0.5, 4.0)})


def usage(cached: int | None = None, written: int | None = None, reasoning: int | None = None) -> dict[str, Any]:
    return {
        "prompt_tokens_details": {"cached_tokens": cached, "cache_creation_tokens": written},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def test_cached_tokens_cost_what_the_user_said() -> None:
    assert MINE.of("openai/mine", 1000, 100, cached=800) == pytest.approx(3000e-6)
    assert MINE.of("openai/cheap", 1000, 100, cached=800) == pytest.approx((200 * 2 + 800 * 0.5 + 1000) / 1e6)
    assert MINE.of("openai/cheap", 1000, 100, 300, 200) == pytest.approx((500 * 2 + 300 * 0.5 + 200 * 4 + 1000) / 1e6)


@pytest.mark.parametrize(
    ("model", "cached", "written", "input_cost"),
    [
        ("openai/gpt-5-mini", 0, 0, 2500),
        ("openai/gpt-5-mini", 8000, 0, 2000 * 0.25 + 8000 * 0.025),
        ("anthropic/claude-sonnet-4-5", 4000, 5000, 1000 * 3 + 4000 * 0.3 + 5000 * 3.75),
    ],
)
def test_cached_tokens_cost_what_the_table_says(model: str, cached: int, written: int, input_cost: float) -> None:
    output = {"openai/gpt-5-mini": 2.0, "anthropic/claude-sonnet-4-5": 15.0}[model]
    found = Prices().of(model, 10_000, 1000, cached, written)
    assert found == pytest.approx((input_cost + 1000 * output) / 1e6)
    assert Prices().of_reply(model, 10_000, 1000, usage(cached, written)) == found


def test_reasoning_is_billed_once_as_part_of_the_completion() -> None:
    for model in ("openai/gpt-5-mini", "gemini/gemini-2.5-flash", "openai/mine"):
        plain = MINE.of(model, 1000, 1000)
        assert plain is not None
        assert MINE.of(model, 1000, 1000, reasoning=900) == pytest.approx(plain)
        assert MINE.of_reply(model, 1000, 1000, usage(reasoning=900)) == pytest.approx(plain)
    dear = Prices().of("dashscope/qwen-plus-2025-04-28", 1000, 1000, reasoning=500)
    assert dear == pytest.approx((1000 * 0.4 + 500 * 1.2 + 500 * 4) / 1e6), "it has a rate for reasoning"


def test_a_usage_that_cannot_be_changes_no_cost() -> None:
    plain = MINE.of("openai/cheap", 1000, 100)
    for told in (
        {},
        {"prompt_tokens_details": None},
        usage(-5),
        usage(2000),
        usage(600, 600),
        usage(None, None, 10**9),
    ):
        assert MINE.of_reply("openai/cheap", 1000, 100, told) == plain


@pytest.mark.parametrize(
    "model",
    ["openai/mine", "openai/cheap", "openai/gpt-5-mini", "anthropic/claude-sonnet-4-5", "deepseek/deepseek-chat"],
)
def test_nothing_costs_more_than_the_most(model: str) -> None:
    most = MINE.most(model, 10_100, 700)
    assert most is not None
    for parts in ((0, 0, 0), (9000, 0, 0), (0, 10_100, 0), (5000, 5000, 700)):
        cost = MINE.of(model, 10_100, 700, *parts)
        assert cost is not None
        assert cost <= most * (1 + 1e-9)
    assert MINE.of(model, 10_100, 700, 0, 10_100 if "sonnet" in model or "cheap" in model else 0) == pytest.approx(most)


def test_long_prompts_have_a_rate_of_their_own() -> None:
    most = Prices().most("gemini/gemini-2.5-pro", 250_000, 10)
    assert most == pytest.approx(250_000 * 2.5e-6 + 10 * 15e-6)


@pytest.mark.parametrize("model", ["openai/any-model", "ollama/llama3", ""])
def test_an_unknown_price_is_none(model: str) -> None:
    prices = Prices()
    assert prices.of(model, 1000, 100) is prices.most(model, 1000, 100) is prices.of(model, 1000, 100, 5) is None
