"""Tests of when a provider is taken for dead."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from judges.ledger.health import DOUBT_AFTER, GIVE_UP_AFTER, Health
from judges.ledger.store import Ledger
from judges.lm import BudgetExhausted, LMError, LMRequest, ProviderDown

JUDGE = LMRequest("openai/judge", (), endpoint="http://127.0.0.1:1/v1")
FAILED = LMError("provider_error", "openai/judge at http://127.0.0.1:1/v1: boom")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def fail(health: Health, times: int, request: LMRequest = JUDGE) -> None:
    for _ in range(times):
        health.failed(request, FAILED)


@pytest.mark.parametrize(("passing", "said"), [(True, ": start the same command again"), (False, "mend that")])
def test_it_says_whether_to_wait_or_to_mend(ledger: Ledger, passing: bool, said: str) -> None:
    health = Health(ledger)
    for _ in range(GIVE_UP_AFTER):
        health.failed(JUDGE, LMError("provider_error", "no", passing=passing))
    with pytest.raises(ProviderDown, match=said):
        health.check(JUDGE)


def test_a_model_that_never_answered_is_given_up(ledger: Ledger) -> None:
    health = Health(ledger)
    fail(health, GIVE_UP_AFTER - 1)
    health.check(JUDGE)
    fail(health, 1)
    with pytest.raises(ProviderDown, match=r"8 calls failed, none succeeded; the last one: .*boom; .*ledger\.sqlite"):
        health.check(JUDGE)


def test_other_models_and_endpoints_are_asked_still(ledger: Ledger) -> None:
    health = Health(ledger)
    fail(health, GIVE_UP_AFTER)
    health.check(replace(JUDGE, model="openai/reflection"))
    health.check(replace(JUDGE, endpoint=""))


def test_a_model_that_answered_gets_the_calls_in_flight_more(ledger: Ledger) -> None:
    """A disturbance of seconds fails all of these at once."""
    health = Health(ledger)
    health.answered(JUDGE)
    ledger.flights |= {str(number): Future() for number in range(5)}
    fail(health, GIVE_UP_AFTER + 4)
    health.check(JUDGE)
    fail(health, 1)
    with pytest.raises(ProviderDown, match="13 calls in a row failed"):
        health.check(JUDGE)


def test_an_answer_ends_the_row(ledger: Ledger) -> None:
    health = Health(ledger)
    for _ in range(5):
        fail(health, GIVE_UP_AFTER - 1)
        health.answered(JUDGE)
    health.check(JUDGE)


def test_prompts_that_are_too_long_say_nothing_of_the_provider(ledger: Ledger) -> None:
    health = Health(ledger)
    for _ in range(50):
        health.failed(JUDGE, LMError("too_long", "9000 tokens"))
    health.check(JUDGE)


def test_what_the_ledger_holds_does_not_end_the_row(ledger: Ledger) -> None:
    """A run that is resumed against a dead provider: replies of the ledger come in between."""
    health = Health(ledger)
    for _ in range(2 * GIVE_UP_AFTER):
        fail(health, 1)
        health.found(JUDGE)
        health.found(JUDGE)
    with pytest.raises(ProviderDown, match="calls in a row failed"):
        health.check(JUDGE)


def test_much_that_is_kept_before_makes_nothing_of_failures_after(ledger: Ledger) -> None:
    health = Health(ledger)
    for _ in range(1000):
        health.found(JUDGE)
    fail(health, GIVE_UP_AFTER)
    with pytest.raises(ProviderDown):
        health.check(JUDGE)


def test_a_few_calls_that_fail_for_ever_do_not_keep_a_run_from_going_on(ledger: Ledger) -> None:
    """One in twenty: whoever resumes the run sends these alone."""
    health = Health(ledger)
    for _ in range(100):
        for _ in range(19):
            health.found(JUDGE)
        fail(health, 1)
    health.check(JUDGE)


def ended(health: Health) -> BudgetExhausted | ProviderDown:
    return health.explain(JUDGE, BudgetExhausted("3 of 3 calls are used up"))


def test_a_budget_that_only_failures_used_up_is_not_the_news(ledger: Ledger) -> None:
    health = Health(ledger)
    assert str(ended(health)) == "3 of 3 calls are used up"
    fail(health, 1)
    assert isinstance(ended(health), ProviderDown)
    assert re.search(r"openai/judge answered no call.*3 of 3 calls.*the last failure: .*boom", str(ended(health)))
    health.answered(JUDGE)
    assert str(ended(health)) == "3 of 3 calls are used up"


@pytest.mark.parametrize(("failures", "kind"), [(1, BudgetExhausted), (GIVE_UP_AFTER, ProviderDown)])
def test_failures_before_the_end_of_the_budget_are_named(
    ledger: Ledger, failures: int, kind: type[BudgetExhausted | ProviderDown]
) -> None:
    """A model that has answered, and died while the budget was not yet used up."""
    health = Health(ledger)
    health.answered(JUDGE)
    fail(health, failures)
    assert type(ended(health)) is kind
    assert re.search(rf"openai/judge failed \({failures} in a row\).*3 of 3 calls.*boom", str(ended(health)))


def test_while_nothing_answers_few_calls_go_on_trying(ledger: Ledger) -> None:
    health, went = Health(ledger), list[str]()

    async def call(name: str) -> None:
        await health.turn(JUDGE, name)
        went.append(name)

    async def calls() -> None:
        for number in range(DOUBT_AFTER - 1):
            await call(f"before {number}")
        tasks = [asyncio.ensure_future(call(str(number))) for number in range(20)]
        await asyncio.sleep(0.02)
        assert went[DOUBT_AFTER - 1 :] == [str(number) for number in range(GIVE_UP_AFTER)]
        await call("0")
        health.left(JUDGE, "3")
        await asyncio.sleep(0.25)
        assert went[-1] == "8", "one that ends leaves its place to the next"
        health.answered(JUDGE)
        await asyncio.gather(*tasks)
        assert len(went) == DOUBT_AFTER - 1 + 20 + 1

    asyncio.run(calls())


def test_who_waits_for_others_to_try_is_told_that_the_provider_is_down(ledger: Ledger) -> None:
    health = Health(ledger)

    async def calls() -> None:
        names = [str(number) for number in range(DOUBT_AFTER + GIVE_UP_AFTER)]
        ends = [asyncio.ensure_future(health.turn(JUDGE, name)) for name in names]
        await asyncio.sleep(0.02)
        fail(health, GIVE_UP_AFTER)
        raised = await asyncio.gather(*ends, return_exceptions=True)
        held = [end for end in raised if end is not None]
        assert len(held) == 1, "of 24 the first 15 went before there was a doubt, and 8 are trying"
        assert all(isinstance(end, ProviderDown) for end in held)
        with pytest.raises(ProviderDown):
            await health.turn(JUDGE, "one more")

    asyncio.run(calls())
