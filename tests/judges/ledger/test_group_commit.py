"""Tests of how calls share transactions: how many there are, what is flushed, and what becomes of the cancelled."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.budget import Budget, Usage
from judges.ledger.file import APPLICATION_ID
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.ledger.steps import Answer, Reserve
from judges.ledger.writer import LedgerWriter
from judges.lm import JudgeError, LMReply

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel

    Models = type[CountingModel]
    RunSql = Callable[..., list[Any]]


@pytest.fixture
def file_ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def writing_connection(ledger: Ledger) -> Any:
    """Of the thread that writes, which uses it when it is given something to write."""
    assert ledger._group is not None
    writer = ledger._group._writer
    assert isinstance(writer, LedgerWriter)
    return writer._db.raw


def listen(ledger: Ledger) -> list[str]:
    """The statements of the connection that writes, from now on."""
    heard: list[str] = []
    writing_connection(ledger).set_trace_callback(heard.append)
    return heard


def commits(heard: list[str]) -> int:
    return sum(statement == "COMMIT" for statement in heard)


def test_calls_in_flight_share_transactions(file_ledger: Ledger, counting_model: Models) -> None:
    heard = listen(file_ledger)
    requests = [counting_model.request(number) for number in range(128)]
    counting_model.ask_at_once(LedgerLM(counting_model(), file_ledger, "run"), *requests)
    assert file_ledger.spent("run").calls == 128
    assert commits(heard) <= 8


def test_a_call_that_is_alone_waits_for_no_other(file_ledger: Ledger, counting_model: Models) -> None:
    heard = listen(file_ledger)
    counting_model.ask(LedgerLM(counting_model(), file_ledger, "run"), *map(counting_model.request, range(10)))
    assert commits(heard) == 20, "one reserves, one completes"


@pytest.mark.parametrize(("cost", "flushed"), [(0.1, True), (None, True), (0.0, False)])
def test_what_was_paid_outlasts_a_power_cut(
    file_ledger: Ledger, counting_model: Models, cost: float | None, flushed: bool
) -> None:
    heard = listen(file_ledger)
    model = counting_model(lambda _: LMReply("x", "stop", 1, 1, cost=cost))
    counting_model.ask(LedgerLM(model, file_ledger, "run"), *map(counting_model.request, range(2)))
    modes, mode = [], ""
    for statement in heard:
        if statement.startswith("PRAGMA synchronous"):
            mode = statement.rpartition(" ")[2]
        if statement == "COMMIT":
            modes.append(mode)
    assert modes == ["NORMAL", "FULL" if flushed else "NORMAL"] * 2


def test_a_reservation_that_nobody_waits_for_is_given_back(
    ledger: Ledger, counting_model: Models, run_sql: RunSql
) -> None:
    """Cancelled before the ledger has answered: nothing was sent."""
    model = counting_model()
    lm = LedgerLM(model, ledger, "run")

    async def scene() -> None:
        for turns in range(4):
            task = asyncio.create_task(lm.complete(counting_model.request(turns)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await lm.complete(counting_model.request(9))

    asyncio.run(scene())
    deadline = time.monotonic() + 5
    while run_sql(ledger.path, "SELECT COUNT(*) FROM calls WHERE status = 'pending'") != [(0,)]:
        assert time.monotonic() < deadline
    assert (len(model.asked), lm.spent(), ledger.failed("run")) == (1, Usage(1, 15, 0.001), 0)


def test_a_call_that_is_cancelled_in_the_turn_of_its_answer_is_given_back(
    ledger: Ledger, counting_model: Models
) -> None:
    """Else it would be waited for as long as this process lives, and hold what it had reserved of the budget."""
    model = counting_model()
    lm = LedgerLM(model, ledger, "run", Budget(calls=1))

    async def scene() -> None:
        group = ledger._group
        assert group is not None
        task = asyncio.create_task(lm.complete(counting_model.request()))
        waiters: list[Any] = []
        while not waiters:
            await asyncio.sleep(0)
            asked = group._asked.get(asyncio.get_running_loop(), [])
            waiters = [waiter for step, waiter in asked if isinstance(step, Reserve)]
        while not waiters[0].done():
            await asyncio.sleep(0)
        assert task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert model.asked == []
        await asyncio.wait_for(lm.complete(counting_model.request(1)), 5)

    asyncio.run(scene())
    assert (len(model.asked), lm.spent().calls, ledger.failed("run")) == (1, 1, 0)


def test_a_loop_that_ends_in_the_middle_leaves_the_ledger_well(ledger: Ledger, counting_model: Models) -> None:
    lm = LedgerLM(counting_model(delay=0.01), ledger, "run")

    async def impatient(number: int) -> None:
        tasks = [asyncio.create_task(lm.complete(counting_model.request(number * 10 + i))) for i in range(10)]
        await asyncio.sleep(0.002 * number)
        assert len(tasks) == 10

    for number in range(10):
        asyncio.run(impatient(number))
    replies = counting_model.ask_at_once(lm, *(counting_model.request(number) for number in range(100)))
    assert all(isinstance(reply, LMReply) for reply in replies)
    assert lm.kept() == 100


def test_a_ledger_that_is_held_for_too_long_says_so_and_works_again(
    place: Path | str, counting_model: Models, request: pytest.FixtureRequest
) -> None:
    with Ledger(place) as ledger, ExitStack() as stack:
        lm = LedgerLM(counting_model(), ledger, "run")
        holder: Any
        if isinstance(place, Path):
            writing_connection(ledger).execute("PRAGMA busy_timeout = 100")
            holder = stack.enter_context(closing(sqlite3.connect(place, isolation_level=None)))
            holder.execute("BEGIN IMMEDIATE")
        else:
            writing_connection(ledger).execute("SET lock_timeout = '100ms'")
            holder = stack.enter_context(request.getfixturevalue("postgres").connect("postgres"))
            holder.execute(f"BEGIN; SELECT pg_advisory_xact_lock({APPLICATION_ID})")
        ends = counting_model.ask_at_once(lm, *(counting_model.request(number) for number in range(20)))
        assert {type(end) for end in ends} == {JudgeError}
        assert "another process has held it for 60 s; end that process" in str(ends[0])
        holder.execute("ROLLBACK")
        counting_model.ask(lm, counting_model.request())
        assert lm.spent().calls == 1


def test_a_forgotten_ledger_ends_its_thread(tmp_path: Path, counting_model: Models) -> None:
    def threads() -> int:
        return sum(thread.name == "ledger" for thread in threading.enumerate())

    gc.collect()
    before = threads()
    counting_model.ask(LedgerLM(counting_model(), Ledger(tmp_path / "l.sqlite"), "run"), counting_model.request())
    gc.collect()
    assert threads() == before
    assert [path.name for path in tmp_path.iterdir()] == ["l.sqlite"]


def test_what_was_asked_before_a_ledger_is_closed_is_written(place: Path | str, counting_model: Models) -> None:
    with Ledger(place) as ledger:
        for number in range(50):
            key = counting_model.request(number).key
            ledger.do(Answer(key, counting_model.request(number), "run", LMReply("x", cost=0.1), Usage(1, 2, 0.1)))
    with Ledger(place) as ledger:
        assert ledger.spent("run") == Usage(50, 100, 5.0)


def test_a_reply_that_came_in_the_turn_of_the_close_is_written(place: Path | str, counting_model: Models) -> None:
    ledger, (first, second) = Ledger(place), map(counting_model.request, range(2))
    most = Usage(1, 1000, 0.5)

    async def scene() -> list[Any]:
        await ledger.reserve(first.key, first, "run", most, Budget())
        ends = [
            asyncio.create_task(ledger.complete(first.key, "run", LMReply("x", cost=0.1), Usage(1, 2, 0.1))),
            asyncio.create_task(ledger.reserve(second.key, second, "run", most, Budget())),
        ]
        await asyncio.sleep(0)
        ledger.close()
        return await asyncio.gather(*ends, return_exceptions=True)

    ended, refused = asyncio.run(scene())
    assert ended == LMReply("x", cost=0.1)
    assert isinstance(refused, JudgeError), "no new call begins"
    with Ledger(place) as again:
        assert (again.spent("run"), again.failed("run")) == (Usage(1, 2, 0.1), 0)
