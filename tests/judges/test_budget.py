"""Tests of caps, prices and the size of a reservation."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.budget import Budget, Price, Usage, reserved_tokens
from judges.lm import JudgeError, LMRequest, Message


def test_no_cap_is_never_passed() -> None:
    assert Budget().excess(Usage(10**9, 10**12, 1e9), Usage(1, 10**6, 1e3)) is None


@pytest.mark.parametrize(
    ("budget", "spent", "call", "said"),
    [
        (Budget(calls=3), Usage(2), Usage(1), None),
        (Budget(calls=3), Usage(3), Usage(1), "3 of 3 calls are used up, and the next call could take 1"),
        (Budget(calls=0), Usage(), Usage(1), "0 of 0 calls"),
        (Budget(tokens=1000), Usage(tokens=900), Usage(tokens=100), None),
        (Budget(tokens=1000), Usage(tokens=900), Usage(tokens=101), "900 of 1,000 tokens"),
        (Budget(dollars=1.0), Usage(cost=0.9), Usage(cost=0.1), None),
        (Budget(dollars=0.3), Usage(cost=0.1 + 0.1), Usage(cost=0.1), None),
        (Budget(dollars=1.0), Usage(cost=0.9), Usage(cost=0.100001), "0.9 of 1 dollars"),
        (Budget(calls=5, dollars=1.0), Usage(1, 0, 1.0), Usage(1, 0, 0.01), "1 of 1 dollars"),
        (Budget(dollars=1.0), Usage(cost=1.0), Usage(1, 10, 0.0), None),
    ],
)
def test_caps(budget: Budget, spent: Usage, call: Usage, said: str | None) -> None:
    reason = budget.excess(spent, call)
    assert reason is None if said is None else said in str(reason)


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "10"])
@pytest.mark.parametrize("name", ["calls", "tokens", "dollars"])
def test_a_cap_that_cannot_be(name: str, value: Any) -> None:
    with pytest.raises(JudgeError, match=f"budget {name} is .*accepted is a number from 0"):
        Budget(**{name: value})


def test_price_is_per_million_tokens() -> None:
    assert Price(input=2.5, output=10.0).cost(1_000_000, 100_000) == pytest.approx(3.5)
    assert Price.parse({"openai/x": [1, 2]}) == {"openai/x": Price(1, 2)}


@pytest.mark.parametrize("pair", [[1], [1, 2, 3], "12", 3, [-1, 2], [math.nan, 1], [None, 1], ["1", "2"]])
def test_a_price_that_cannot_be(pair: Any) -> None:
    with pytest.raises(JudgeError, match="accepted is"):
        Price.parse({"openai/x": pair})


@given(st.text(), st.text())
def test_the_reservation_covers_two_bytes_a_token(system: str, user: str) -> None:
    request = LMRequest("m", (Message("system", system), Message("user", user)), max_tokens=99)
    prompt, completion = reserved_tokens(request)
    assert prompt >= len((system + user).encode("utf-8", "surrogatepass")) / 2
    assert completion == 99


def test_the_reservation_counts_the_schema() -> None:
    plain = LMRequest("m", (Message("user", "x"),))
    bound = LMRequest("m", (Message("user", "x"),), schema={"enum": ["span"] * 100})
    assert reserved_tokens(bound)[0] >= reserved_tokens(plain)[0] + 300


def test_a_lone_surrogate_can_be_reserved() -> None:
    assert reserved_tokens(LMRequest("m", (Message("user", "\ud83d"),)))[0] > 0
