"""Tests of caps, prices and the size of a reservation."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judges.ledger.budget import Budget, Price, Usage, reserved_tokens
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.lm import BudgetExhausted, JudgeError, LMError, LMReply, LMRequest, Message

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel

    Models = type[CountingModel]


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
    assert Price.parse({"openai/x": [1, 2, 0.5], "b": [1, 2, 0.5, 3]}) == {
        "openai/x": Price(1, 2, cached=0.5),
        "b": Price(1, 2, cached=0.5, written=3),
    }


@pytest.mark.parametrize(
    "pair", [[1], [1, 2, 3, 4, 5], [1, 2, -3], "12", 3, [-1, 2], [math.nan, 1], [None, 1], ["1", "2"]]
)
def test_a_price_that_cannot_be(pair: Any) -> None:
    with pytest.raises(JudgeError, match="accepted is"):
        Price.parse({"openai/x": pair})


@pytest.mark.parametrize("special", ["cached", "written", "reasoning"])
def test_the_most_covers_every_rate(special: str) -> None:
    rates: dict[str, float] = {special: 5}
    price = Price(1, 2, **rates)
    assert price.most(1000, 1000) >= price.cost(1000, 1000, **{special: 1000})


@pytest.mark.parametrize("value", [10_001, 1e12, 1e300, 10**400])
def test_dollars_that_the_ledger_cannot_add_up(value: float) -> None:
    for rates in ([value, 1], [1, value], [1, 1, value]):
        with pytest.raises(JudgeError, match="accepted is a number from 0 to 10,000 in dollars per million tokens"):
            Price.parse({"openai/x": rates})
    with pytest.raises(JudgeError, match=r"budget dollars is .*: accepted is a number from 0 to 1,000,000"):
        Budget(dollars=100 * value)
    assert Budget(calls=10**9, tokens=10**15, dollars=10**6)


@given(st.text(), st.text())
def test_the_reservation_covers_every_byte_of_the_prompt(system: str, user: str) -> None:
    request = LMRequest("m", (Message("system", system), Message("user", user)), max_tokens=99)
    prompt, completion = reserved_tokens(request)
    assert prompt >= len((system + user).encode("utf-8", "surrogatepass"))
    assert completion == 99


def test_the_reservation_counts_the_schema() -> None:
    plain = LMRequest("m", (Message("user", "x"),))
    bound = LMRequest("m", (Message("user", "x"),), schema={"enum": ["span"] * 100})
    assert reserved_tokens(bound)[0] >= reserved_tokens(plain)[0] + 300


def test_a_lone_surrogate_can_be_reserved() -> None:
    assert reserved_tokens(LMRequest("m", (Message("user", "\ud83d"),)))[0] > 0


# In front of a model


@pytest.mark.parametrize(("dollars", "calls"), [(1.0, 10), (0.95, 9), (0.3, 3), (0.05, 0), (0.0, 0)])
def test_64_workers_never_pass_the_cap(place: Path | str, dollars: float, calls: int, counting_model: Models) -> None:
    """P30 of the field: workers that check before they send, and pay after, overshoot."""
    model = counting_model(lambda _: LMReply("x", "stop", 10, 5, 0, 0.1), delay=0.005)

    async def worker(lm: LedgerLM, number: int) -> int:
        for i in range(5):
            try:
                await lm.complete(counting_model.request(number * 100 + i))
            except BudgetExhausted:
                return 1
        return 0

    async def workers(lms: list[LedgerLM]) -> int:
        return sum(await asyncio.gather(*(worker(lms[number % 4], number) for number in range(64))))

    with ExitStack() as stack:
        ledgers = [stack.enter_context(Ledger(place)) for _ in range(4)]
        lms = [LedgerLM(model, ledger, "run", Budget(dollars=dollars), cost_of=lambda *_: 0.1) for ledger in ledgers]
        assert asyncio.run(workers(lms)) == 64
        for lm in lms:
            assert len(model.asked) == lm.spent().calls == calls
            assert lm.spent().cost == pytest.approx(calls * 0.1)
            assert lm.spent().cost <= dollars


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), max_size=20),
    st.integers(0, 8),
    st.integers(0, 1500),
    st.floats(0, 0.02),
)
def test_no_cap_is_ever_passed(
    tmp_path_factory: pytest.TempPathFactory,
    counting_model: Models,
    used: list[tuple[int, int]],
    calls: int,
    tokens: int,
    dollars: float,
) -> None:
    def price(_: LMRequest, prompt: int, completion: int) -> float:
        return (prompt * 3 + completion * 7) * 1e-6

    model = counting_model(lambda request: LMReply("x", "stop", *used[request.repeat]))
    budget = Budget(calls, tokens, dollars)
    with Ledger(tmp_path_factory.mktemp("budget") / "ledger.sqlite") as ledger:
        lm = LedgerLM(model, ledger, "run", budget, cost_of=price)
        ends = counting_model.ask_at_once(lm, *(counting_model.request(repeat=i) for i in range(len(used))))
        spent = lm.spent()
    assert (spent.calls <= calls, spent.tokens <= tokens, round(spent.cost - dollars, 12) <= 0) == (True, True, True)
    assert len(model.asked) == spent.calls == sum(isinstance(end, LMReply) for end in ends)


def test_calls_in_flight_are_waited_for_before_the_budget_is_called_exhausted(
    ledger: Ledger, counting_model: Models
) -> None:
    """Reservations are many times what calls take: who is refused for them would stop far too early."""
    model = counting_model(delay=0.02)
    lm = LedgerLM(model, ledger, "run", Budget(tokens=300))
    replies = counting_model.ask_at_once(lm, *(counting_model.request(i) for i in range(8)))
    assert all(isinstance(reply, LMReply) for reply in replies)
    assert lm.spent() == Usage(8, 120, 0.008)


def test_what_is_replayed_costs_nothing_even_when_the_budget_is_used_up(ledger: Ledger, counting_model: Models) -> None:
    lm = LedgerLM(counting_model(), ledger, "run", Budget(calls=2))
    counting_model.ask(lm, counting_model.request(0), counting_model.request(1))
    with pytest.raises(BudgetExhausted, match=r"^2 of 2 calls"):
        counting_model.ask(lm, counting_model.request(2))
    assert [
        reply.replayed for reply in counting_model.ask(lm, counting_model.request(0), counting_model.request(1))
    ] == [True, True]
    assert lm.spent().calls == 2


def test_runs_pay_for_themselves(ledger: Ledger, counting_model: Models) -> None:
    counting_model.ask(LedgerLM(counting_model(), ledger, "first", Budget(calls=1)), counting_model.request(0))
    second = LedgerLM(counting_model(), ledger, "second", Budget(calls=1))
    counting_model.ask(second, counting_model.request(0), counting_model.request(1))
    assert (ledger.spent("first").calls, ledger.spent("second").calls, ledger.spent("third")) == (1, 1, Usage())


def test_a_model_without_a_price_is_refused_under_a_cap_in_dollars(ledger: Ledger, counting_model: Models) -> None:
    model = counting_model()
    with pytest.raises(JudgeError, match=r"price of openai/m is unknown.*give its price"):
        counting_model.ask(LedgerLM(model, ledger, "run", Budget(dollars=1.0)), counting_model.request())
    assert model.asked == []
    assert counting_model.ask(
        LedgerLM(model, ledger, "run", Budget(dollars=0.0), cost_of=lambda *_: 0.0), counting_model.request()
    )


def test_missing_usage_counts_what_was_reserved(ledger: Ledger, counting_model: Models) -> None:
    lm = LedgerLM(counting_model(lambda _: LMReply("x")), ledger, "run", Budget(dollars=1.0), cost_of=lambda *_: 0.25)
    (reply,) = counting_model.ask(lm, counting_model.request())
    assert reply.cost is None, "unknown is not zero, and no estimate either"
    assert lm.spent().dollars == 0.25
    assert lm.spent().tokens > 100


@pytest.mark.parametrize("told", [(0, 5), (10, 0)])
def test_a_half_of_the_usage_that_is_not_told_counts_as_reserved(
    ledger: Ledger, counting_model: Models, told: tuple[int, int]
) -> None:
    lm = LedgerLM(
        counting_model(lambda _: LMReply("x", "stop", *told)),
        ledger,
        "run",
        Budget(dollars=1.0),
        cost_of=lambda _, prompt, reply: (prompt * 3 + reply * 7) * 1e-6,
    )
    (reply,) = counting_model.ask(lm, counting_model.request())
    most = reserved_tokens(counting_model.request())
    prompt, completion = (told[i] or most[i] for i in (0, 1))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cost) == (*told, None)
    spent = lm.spent()
    assert (spent.calls, spent.tokens, spent.unpriced) == (1, prompt + completion, False)
    assert spent.dollars == pytest.approx((prompt * 3 + completion * 7) * 1e-6)


def test_a_call_that_was_dearer_than_reserved_is_charged_in_truth_and_is_the_last(
    ledger: Ledger, counting_model: Models
) -> None:
    model = counting_model(lambda _: LMReply("x", "stop", 10, 90_000))
    lm = LedgerLM(model, ledger, "run", Budget(tokens=10_000))
    counting_model.ask(lm, counting_model.request(0))
    assert lm.spent().tokens == 90_010
    with pytest.raises(BudgetExhausted, match="90,010 of 10,000 tokens are used up"):
        counting_model.ask(lm, counting_model.request(1))
    assert len(model.asked) == 1


@pytest.mark.parametrize("reply", [LMReply("x", "stop", 10, 5), LMReply("x")])
def test_unknown_dollars_stay_unknown(tmp_path: Path, counting_model: Models, reply: LMReply) -> None:
    path = tmp_path / "ledger.sqlite"
    with LedgerLM(counting_model(lambda _: reply), Ledger(path), "run") as lm:
        counting_model.ask(lm, counting_model.request())
        assert lm.spent().dollars is None
        assert LedgerLM(counting_model(), lm.ledger, "other").spent().dollars == 0.0
    with LedgerLM(counting_model(), Ledger(path), "run") as lm:
        assert lm.spent().dollars is None, "and when the run goes on"


def test_failures_of_a_model_without_a_price_have_no_known_cost(ledger: Ledger, counting_model: Models) -> None:
    def fail(_: LMRequest) -> LMReply:
        raise LMError("timeout", "no reply")

    lm = LedgerLM(counting_model(fail), ledger, "run")
    with pytest.raises(LMError):
        counting_model.ask(lm, counting_model.request())
    assert lm.spent().dollars is None


def test_a_reply_without_a_cost_is_priced(ledger: Ledger, counting_model: Models) -> None:
    lm = LedgerLM(
        counting_model(lambda _: LMReply("x", "stop", 10, 5)),
        ledger,
        "run",
        cost_of=lambda _, prompt, reply: prompt + reply,
    )
    assert counting_model.ask(lm, counting_model.request())[0].cost == 15
    assert lm.spent() == Usage(1, 15, 15.0)


@pytest.mark.parametrize(
    ("budget", "most"),
    [(Budget(dollars=1.0), 10), (Budget(calls=7), 7), (Budget(tokens=4000), 40)],
    ids=["dollars", "calls", "tokens"],
)
def test_64_workers_never_pass_a_cap_and_keep_all_that_was_paid(
    ledger: Ledger, counting_model: Models, budget: Budget, most: int
) -> None:
    """Each call costs 0.10 dollars and 100 tokens; there is work for 640."""
    model = counting_model(lambda request: LMReply(f"reply {request.repeat}", "stop", 90, 10, cost=0.1), delay=0.002)
    ends: list[LMReply | BaseException] = []

    def work(share: range) -> None:
        with suppress(BudgetExhausted):
            for i in share:
                lm = LedgerLM(model, ledger, "run", budget, cost_of=lambda *_: 0.1)
                ends.extend(counting_model.ask(lm, counting_model.request(repeat=i)))

    with ThreadPoolExecutor(64) as workers:
        list(workers.map(work, [range(10 * i, 10 * i + 10) for i in range(64)]))
    spent = ledger.spent("run")
    assert len(model.asked) == len(ends) == spent.calls <= most
    assert spent.calls >= most - 1, "what is left of the cap is used"
    assert round(spent.cost, 12) == round(0.1 * spent.calls, 12) <= (budget.dollars or 10**9)
    assert spent.tokens == 100 * spent.calls <= (budget.tokens or 10**9)
    # All that was paid for is there, and costs nothing any more.
    again = LedgerLM(model, ledger, "run", budget, cost_of=lambda *_: 0.1)
    for request in model.asked:
        (reply,) = counting_model.ask(again, request)
        assert (reply.text, reply.replayed) == (f"reply {request.repeat}", True)
    assert ledger.spent("run") == spent
