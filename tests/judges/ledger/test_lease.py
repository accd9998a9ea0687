"""Tests of calls that were left pending: by the dead, the frozen, and those who come back."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.budget import Budget, Usage
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.ledger.steps import Complete, Drop, End, Reservation, Reserve
from judges.lm import BudgetExhausted, LMReply

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel

    Models = type[CountingModel]
    RunSql = Callable[..., list[Any]]
    LeavePending = Callable[..., None]

NO_PROCESS = 2**22 + 1  # above the largest process id of Linux


def process_of(number: int, start: str = "") -> str:
    return f"{socket.gethostname()}:{number}:{start}"


@pytest.mark.parametrize(
    ("process", "age"),
    [
        (process_of(NO_PROCESS), 0.0),
        (process_of(os.getpid(), "12"), 0.0),  # this id in an earlier life of a container
        ("elsewhere:1:x", 61.0),
        (process_of(1), 61.0),
        ("", 0.0),
    ],
    ids=["no process", "an earlier life", "another machine, expired", "alive, expired", "nobody"],
)
def test_a_call_of_the_dead_is_taken_over(
    ledger: Ledger, process: str, age: float, counting_model: Models, leave_pending: LeavePending
) -> None:
    leave_pending(ledger, counting_model.request(), process, age)
    assert ledger.spent("run") == Usage()
    lm = LedgerLM(counting_model(), ledger, "run", Budget(calls=2))
    assert counting_model.ask(lm, counting_model.request())[0].text == "reply 0"
    assert lm.spent() == Usage(2, 1015, 0.501), "nobody knows whether it was paid, so what it had reserved is charged"
    assert ledger.failed("run") == 1


def test_a_call_of_the_dead_is_charged_when_the_ledger_is_opened(
    place: Path | str, ledger: Ledger, counting_model: Models, leave_pending: LeavePending, run_sql: RunSql
) -> None:
    leave_pending(ledger, counting_model.request(), process_of(NO_PROCESS))
    with Ledger(place) as later:
        assert (later.spent("run"), later.failed("run")) == (Usage(1, 1000, 0.5), 1)
    assert run_sql(place, "SELECT worker FROM workers WHERE worker = 'theirs'") == []


@pytest.mark.parametrize("process", [process_of(1), "elsewhere:1:x"], ids=["alive", "another machine"])
def test_a_call_of_the_living_is_waited_for(
    place: Path | str, ledger: Ledger, process: str, counting_model: Models, run_sql: RunSql
) -> None:
    model, asked = counting_model(), counting_model.request()

    async def scene(other: Ledger) -> LMReply:
        assert await other.reserve(asked.key, asked, "run", Usage(1, 9, 0.1), Budget()) is Reservation.GRANTED
        run_sql(place, "UPDATE workers SET process = ?", process)
        call = asyncio.create_task(LedgerLM(model, ledger, "run").complete(asked))
        await asyncio.sleep(0.1)
        assert not call.done()
        await other.complete(asked.key, "run", LMReply("theirs", "stop", 1, 1), Usage(1, 2, 0.0))
        return await call

    with Ledger(place) as other:
        assert asyncio.run(scene(other)).text == "theirs"
    assert model.asked == []
    assert ledger.spent("run") == Usage(1, 2, 0.0)


@pytest.mark.parametrize("budget", [Budget(calls=1), Budget(tokens=1000), Budget(dollars=0.5)])
def test_what_the_dead_reserved_is_used_up(
    ledger: Ledger, counting_model: Models, budget: Budget, leave_pending: LeavePending
) -> None:
    """A kill, and the same command again, would else be a way around every cap."""
    leave_pending(ledger, counting_model.request(), process_of(NO_PROCESS))
    lm = LedgerLM(counting_model(), ledger, "run", budget, cost_of=lambda *_: 0.001)
    with pytest.raises(BudgetExhausted):
        counting_model.ask(lm, counting_model.request(1))


def test_a_lease_is_renewed_while_a_call_is_in_flight_and_ends_with_the_ledger(
    place: Path | str, counting_model: Models, run_sql: RunSql
) -> None:
    asked = counting_model.request()
    with Ledger(place, lease=0.4) as one, Ledger(place) as other:
        step = Reserve(asked.key, asked, "run", Usage(1, 9, 0.1), Budget())
        assert one.do(step).result() is Reservation.GRANTED
        ((first,),) = run_sql(place, "SELECT expires FROM workers")
        time.sleep(1.0)
        assert run_sql(place, "SELECT expires FROM workers")[0][0] > first + 0.5
        assert other.do(step).result() is Reservation.WAIT
        one.do(Drop(asked.key, End.UNSENT)).result()
        time.sleep(0.6)
        ((idle,),) = run_sql(place, "SELECT expires FROM workers")
        time.sleep(0.3)
        assert run_sql(place, "SELECT expires FROM workers") == [(idle,)], "nothing is in flight, nothing is written"
        assert one.do(step).result() is Reservation.GRANTED
        one.close()
        assert run_sql(place, "SELECT * FROM workers") == []
        assert other.do(step).result() is Reservation.GRANTED


@pytest.mark.parametrize("taken", [False, True], ids=["nobody asked", "made again"])
def test_a_late_reply_is_kept_and_charged(
    place: Path | str, counting_model: Models, run_sql: RunSql, taken: bool
) -> None:
    """A worker that was frozen for longer than its lease."""
    asked = counting_model.request()
    with Ledger(place, keep_requests=True) as late, Ledger(place) as other:
        late.do(Reserve(asked.key, asked, "run", Usage(1, 1000, 0.5), Budget(), keep=True)).result()
        run_sql(place, "UPDATE workers SET expires = 1.0")
        Ledger(place).close()
        assert late.spent("run") == Usage(1, 1000, 0.5), "it is charged what it had reserved"
        if taken:
            step = Reserve(asked.key, asked, "other", Usage(1, 10, 0.125), Budget())
            assert other.do(step).result() is Reservation.GRANTED
        late.do(Complete(asked.key, "run", LMReply("late", "stop", 1, 1, cost=0.25), Usage(1, 2, 0.25))).result()
        assert late.spent("run") == Usage(2, 1002, 0.75), "what was charged stays: this is a bound"
        reply = other.find(asked.key)
        assert reply is not None
        assert reply.text == "late"
        assert run_sql(place, "SELECT COUNT(*) FROM calls WHERE about LIKE ?", "%openai/m%") == [(1,)]
        if taken:
            assert other.spent("other") == Usage(1, 10, 0.125)
            other.do(Complete(asked.key, "other", LMReply("second", "stop", 1, 1), Usage(1, 2, 0.125))).result()
            assert other.find(asked.key) == reply
            assert (other.spent("other").cost, other.failed("other")) == (0.25, 1), "both were paid"
        else:
            assert other.request(asked.key) == asked


@pytest.mark.parametrize("end", End)
def test_who_has_lost_a_call_does_not_end_it_for_the_other(
    place: Path | str, counting_model: Models, run_sql: RunSql, end: End
) -> None:
    asked = counting_model.request()
    with Ledger(place) as late, Ledger(place) as other:
        step = Reserve(asked.key, asked, "run", Usage(1, 1000, 0.5), Budget())
        late.do(step).result()
        run_sql(place, "UPDATE workers SET expires = 1.0")
        assert other.do(step).result() is Reservation.GRANTED
        late.do(Drop(asked.key, end)).result()
        assert late.do(step).result() is Reservation.WAIT
        other.do(Complete(asked.key, "run", LMReply("theirs", "stop", 1, 1), Usage(1, 2, 0.0))).result()
        assert (other.spent("run"), other.failed("run")) == (Usage(2, 1002, 0.5), 1)


def test_the_first_reply_wins_and_all_are_charged(ledger: Ledger, counting_model: Models) -> None:
    asked = counting_model.request()
    ledger.do(Reserve(asked.key, asked, "run", Usage(1, 1000, 0.5), Budget())).result()
    for text in ("first", "second"):
        ledger.do(Complete(asked.key, "run", LMReply(text, "stop", 1, 1), Usage(1, 2, 0.5))).result()
    reply = ledger.find(asked.key)
    assert reply is not None
    assert reply.text == "first"
    assert ledger.spent("run") == Usage(2, 4, 1.0)


def test_who_comes_late_gets_the_reply_that_is_kept(place: Path | str, counting_model: Models, run_sql: RunSql) -> None:
    """So a run that is started again goes on from the replies that it had."""
    asked = counting_model.request()
    slow = counting_model(lambda _: LMReply("late", "stop", 10, 5, cost=0.5), delay=0.3)
    with LedgerLM(slow, Ledger(place), "run") as late, LedgerLM(counting_model(), Ledger(place), "run") as other:

        async def scene() -> tuple[LMReply, LMReply]:
            call = asyncio.create_task(late.complete(asked))
            while not slow.asked:
                await asyncio.sleep(0.01)
            run_sql(place, "UPDATE workers SET expires = 1.0")
            return await other.complete(asked), await call

        first, second = asyncio.run(scene())
        assert first.text == second.text == "reply 0"
        assert not second.replayed, "it was paid"
        assert late.spent().cost == 0.501
