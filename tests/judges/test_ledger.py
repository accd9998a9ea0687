"""Tests of the call ledger: what is kept, what is paid, and what happens to it under kills, damage and rivals."""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judges.budget import Budget, Usage
from judges.ledger import Ledger, LedgerLM, NotInLedger
from judges.ledger_store import as_stored
from judges.lm import BudgetExhausted, JudgeError, LMError, LMReply, LMRequest, Message

NO_PROCESS = 2**22 + 1  # above the largest process id of Linux
REPOSITORY = Path(__file__).parents[2]


class Model:
    """An LM that counts what reaches it. `reply` may raise; `delay` is in seconds."""

    def __init__(self, reply: Callable[[LMRequest], LMReply] | None = None, delay: float | None = None) -> None:
        self.asked: list[LMRequest] = []
        self._reply = reply or (lambda request: LMReply(f"reply {request.repeat}", "stop", 10, 5, 0, 0.001))
        self._delay = delay

    async def complete(self, request: LMRequest) -> LMReply:
        self.asked.append(request)
        if self._delay is not None:
            await asyncio.sleep(self._delay)
        return self._reply(request)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    ledger = Ledger(path)
    yield ledger
    ledger.close()


def request(number: int = 0, **changes: Any) -> LMRequest:
    return replace(LMRequest("openai/m", (Message("user", f"prompt {number}"),), max_tokens=100), **changes)


def ask(lm: LedgerLM, *requests: LMRequest) -> list[LMReply]:
    """One after the other."""

    async def in_turn() -> list[LMReply]:
        return [await lm.complete(request) for request in requests]

    return asyncio.run(in_turn())


def ask_at_once(lm: LedgerLM, *requests: LMRequest) -> list[LMReply | BaseException]:
    async def at_once() -> list[LMReply | BaseException]:
        return await asyncio.gather(*(lm.complete(request) for request in requests), return_exceptions=True)

    return asyncio.run(at_once())


def run_sql(path: Path, statement: str, *values: Any) -> list[Any]:
    db = sqlite3.connect(path)
    try:
        with db:
            return db.execute(statement, values).fetchall()
    finally:
        db.close()


def test_a_reply_is_paid_once_and_replayed(path: Path) -> None:
    model = Model()
    with LedgerLM(model, Ledger(path), "run") as lm:
        (first,) = ask(lm, request())
        assert lm.spent() == Usage(1, 15, 0.001)
    with LedgerLM(model, Ledger(path), "run") as lm:
        (second,) = ask(lm, request())
        assert lm.spent() == Usage(1, 15, 0.001)
    assert len(model.asked) == 1
    assert (first.replayed, second) == (False, replace(first, replayed=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"repeat": 1},
        {"endpoint": "http://127.0.0.1:1/v1"},
        {"model": "openai/other"},
        {"temperature": 0.1},
        {"max_tokens": 101},
        {"seed": 1},
        {"schema": {"type": "object"}},
        {"messages": (Message("system", "prompt 0"),)},
    ],
)
def test_whatever_differs_is_another_call(ledger: Ledger, changes: dict[str, Any]) -> None:
    model = Model()
    ask(LedgerLM(model, ledger, "run"), request(), request(**changes))
    assert len(model.asked) == 2


def test_repeats_stay_different_when_they_are_replayed(ledger: Ledger) -> None:
    """P19 of the field: repeats served from one cached row look perfectly consistent."""
    said = {0: "1010", 1: "1110", 2: "0010"}
    model = Model(lambda request: LMReply(said[request.repeat]))
    repeats = [request(repeat=number) for number in range(3)]
    lm = LedgerLM(model, ledger, "run")
    assert [reply.text for reply in ask(lm, *repeats)] == list(said.values())
    assert [reply.text for reply in ask(lm, *repeats)] == list(said.values())
    assert len(model.asked) == 3


texts = st.text(st.characters(codec=None), max_size=200)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    st.builds(
        LMReply,
        text=texts,
        finish_reason=st.sampled_from(["stop", "length", "content_filter", ""]),
        prompt_tokens=st.integers(0, 10**7),
        completion_tokens=st.integers(0, 10**7),
        cached_tokens=st.integers(0, 10**7),
        cost=st.none() | st.floats(0, 1e3),
    ),
    texts,
)
def test_any_reply_comes_back_as_it_was(ledger: Ledger, reply: LMReply, prompt: str) -> None:
    lm = LedgerLM(Model(lambda _: reply), ledger, "run")
    asked = request(messages=(Message("user", prompt),))
    run_sql(ledger.path, "DELETE FROM calls")
    live, replayed = ask(lm, asked, asked)
    assert replayed == replace(live, replayed=True)
    assert live == replace(reply, cost=live.cost)
    assert live.cost == reply.cost if reply.cost is None else math.isclose(live.cost or 0, reply.cost, abs_tol=1e-12)


def test_equal_calls_in_flight_are_one(ledger: Ledger) -> None:
    model = Model(delay=0.05)
    lm = LedgerLM(model, ledger, "run")
    replies = ask_at_once(lm, *[request()] * 8)
    assert len(model.asked) == 1
    assert [reply.text for reply in replies if isinstance(reply, LMReply)] == ["reply 0"] * 8
    assert sorted(reply.replayed for reply in replies if isinstance(reply, LMReply)) == [False] + [True] * 7
    assert lm.spent().calls == 1


def test_equal_calls_of_several_threads_and_loops_are_one(path: Path) -> None:
    model = Model(delay=0.1)
    with Ledger(path) as first, Ledger(path) as second:
        lms = [LedgerLM(model, ledger, "run") for ledger in (first, first, second, second)]
        threads = [threading.Thread(target=ask_at_once, args=(lm, *[request()] * 2)) for lm in lms]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(model.asked) == 1
        assert first.spent("run").calls == 1


def test_a_failure_is_shared_counted_and_not_kept(ledger: Ledger) -> None:
    def failing(_: LMRequest) -> LMReply:
        raise LMError("timeout", "no reply within 1 s")

    model = Model(failing, delay=0.02)
    lm = LedgerLM(model, ledger, "run", Budget(dollars=1.0), cost_of=lambda *_: 0.25)
    errors = ask_at_once(lm, *[request()] * 3)
    assert [(type(error), str(error)) for error in errors] == [(LMError, "no reply within 1 s")] * 3
    assert {error.kind for error in errors if isinstance(error, LMError)} == {"timeout"}
    assert lm.spent() == Usage(1, 0, 0.0)
    with pytest.raises(LMError):
        ask(lm, request())
    assert (len(model.asked), ledger.failed("run"), lm.spent().calls) == (2, 2, 2)
    well = LedgerLM(Model(), ledger, "run")
    assert ask(well, request())[0].text == "reply 0"
    assert well.spent() == Usage(3, 15, 0.001)


def test_a_cancelled_leader_hands_over(ledger: Ledger) -> None:
    model = Model(delay=0.1)
    lm = LedgerLM(model, ledger, "run")

    async def scene() -> LMReply:
        leader = asyncio.create_task(lm.complete(request()))
        await asyncio.sleep(0.02)
        follower = asyncio.create_task(lm.complete(request()))
        await asyncio.sleep(0.02)
        leader.cancel()
        return await follower

    assert asyncio.run(scene()).replayed is False
    assert len(model.asked) == 2
    assert lm.spent().calls == 1, "a call that was cancelled counts as little as one that a kill cut off"


def test_a_cancelled_follower_disturbs_nobody(ledger: Ledger) -> None:
    lm = LedgerLM(Model(delay=0.1), ledger, "run")

    async def scene() -> LMReply:
        leader = asyncio.create_task(lm.complete(request()))
        await asyncio.sleep(0.02)
        follower = asyncio.create_task(lm.complete(request()))
        await asyncio.sleep(0.02)
        follower.cancel()
        return await leader

    assert asyncio.run(scene()).text == "reply 0"


def test_a_wrong_setting_is_no_call(ledger: Ledger) -> None:
    def refuse(_: LMRequest) -> LMReply:
        raise JudgeError("endpoint ...")

    lm = LedgerLM(Model(refuse), ledger, "run")
    with pytest.raises(JudgeError):
        ask(lm, request())
    assert lm.spent() == Usage()


# Replay


def test_replay_answers_from_the_ledger_alone(path: Path) -> None:
    with LedgerLM(Model(), Ledger(path), "run") as lm:
        (live,) = ask(lm, request())
    before = path.read_bytes()
    model = Model()
    with LedgerLM(model, Ledger(path, read_only=True), "other", mode="replay") as lm:
        assert ask(lm, request()) == [replace(live, replayed=True)]
        with pytest.raises(NotInLedger, match=r"repeat 1\) is not in the ledger .*ledger\.sqlite") as caught:
            ask(lm, request(repeat=1))
        assert isinstance(caught.value, LMError)
    assert model.asked == []
    assert path.read_bytes() == before


def test_a_replay_needs_its_ledger(path: Path) -> None:
    with pytest.raises(JudgeError, match="there is no ledger"):
        Ledger(path, read_only=True)
    assert not path.exists()


def test_a_pending_call_is_not_replayed(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.reserve(request().key, request(), "run", Usage(1, 1), Budget())
        with pytest.raises(NotInLedger):
            ask(LedgerLM(Model(), ledger, "run", mode="replay"), request())


def test_a_mode_or_a_run_that_cannot_be(ledger: Ledger) -> None:
    wrong: Literal["live"] = "dead"  # type: ignore[assignment]
    with pytest.raises(JudgeError, match="accepted are live and replay"):
        LedgerLM(Model(), ledger, "run", mode=wrong)
    with pytest.raises(JudgeError, match="a run needs a name"):
        LedgerLM(Model(), ledger, "")


# Budget


@pytest.mark.parametrize(("dollars", "calls"), [(1.0, 10), (0.95, 9), (0.3, 3), (0.05, 0), (0.0, 0)])
def test_sixteen_workers_never_pass_the_cap(ledger: Ledger, dollars: float, calls: int) -> None:
    """P30 of the field: workers that check before they send, and pay after, overshoot."""
    model = Model(lambda _: LMReply("x", "stop", 10, 5, 0, 0.1), delay=0.005)
    lm = LedgerLM(model, ledger, "run", Budget(dollars=dollars), cost_of=lambda *_: 0.1)

    async def worker(number: int) -> int:
        for i in range(5):
            try:
                await lm.complete(request(number * 100 + i))
            except BudgetExhausted:
                return 1
        return 0

    async def workers() -> int:
        return sum(await asyncio.gather(*(worker(number) for number in range(16))))

    assert asyncio.run(workers()) > 0
    assert len(model.asked) == calls
    assert lm.spent().calls == calls
    assert lm.spent().cost <= dollars
    assert lm.spent().cost == pytest.approx(calls * 0.1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), max_size=20),
    st.integers(0, 8),
    st.integers(0, 1500),
    st.floats(0, 0.02),
)
def test_no_cap_is_ever_passed(
    tmp_path_factory: pytest.TempPathFactory, used: list[tuple[int, int]], calls: int, tokens: int, dollars: float
) -> None:
    def price(_: LMRequest, prompt: int, completion: int) -> float:
        return (prompt * 3 + completion * 7) * 1e-6

    model = Model(lambda request: LMReply("x", "stop", *used[request.repeat]))
    budget = Budget(calls, tokens, dollars)
    with Ledger(tmp_path_factory.mktemp("budget") / "ledger.sqlite") as ledger:
        lm = LedgerLM(model, ledger, "run", budget, cost_of=price)
        ends = ask_at_once(lm, *(request(repeat=i) for i in range(len(used))))
        spent = lm.spent()
    assert (spent.calls <= calls, spent.tokens <= tokens, round(spent.cost - dollars, 12) <= 0) == (True, True, True)
    assert len(model.asked) == spent.calls == sum(isinstance(end, LMReply) for end in ends)


def test_calls_in_flight_are_waited_for_before_the_budget_is_called_exhausted(ledger: Ledger) -> None:
    """Reservations are many times what calls take: who is refused for them would stop far too early."""
    model = Model(delay=0.02)
    lm = LedgerLM(model, ledger, "run", Budget(tokens=300))
    replies = ask_at_once(lm, *(request(i) for i in range(8)))
    assert all(isinstance(reply, LMReply) for reply in replies)
    assert lm.spent() == Usage(8, 120, 0.008)


def test_what_is_replayed_costs_nothing_even_when_the_budget_is_used_up(ledger: Ledger) -> None:
    lm = LedgerLM(Model(), ledger, "run", Budget(calls=2))
    ask(lm, request(0), request(1))
    with pytest.raises(BudgetExhausted, match="budget of run 'run': 2 of 2 calls"):
        ask(lm, request(2))
    assert [reply.replayed for reply in ask(lm, request(0), request(1))] == [True, True]
    assert lm.spent().calls == 2


def test_runs_pay_for_themselves(ledger: Ledger) -> None:
    ask(LedgerLM(Model(), ledger, "first", Budget(calls=1)), request(0))
    second = LedgerLM(Model(), ledger, "second", Budget(calls=1))
    ask(second, request(0), request(1))
    assert (ledger.spent("first").calls, ledger.spent("second").calls, ledger.spent("third")) == (1, 1, Usage())


def test_a_model_without_a_price_is_refused_under_a_cap_in_dollars(ledger: Ledger) -> None:
    model = Model()
    with pytest.raises(JudgeError, match=r"price of openai/m is unknown.*give its price"):
        ask(LedgerLM(model, ledger, "run", Budget(dollars=1.0)), request())
    assert model.asked == []
    assert ask(LedgerLM(model, ledger, "run", Budget(dollars=0.0), cost_of=lambda *_: 0.0), request())


def test_missing_usage_counts_what_was_reserved(ledger: Ledger) -> None:
    lm = LedgerLM(Model(lambda _: LMReply("x")), ledger, "run", Budget(dollars=1.0), cost_of=lambda *_: 0.25)
    (reply,) = ask(lm, request())
    assert reply.cost is None, "unknown is not zero, and no estimate either"
    assert lm.spent().cost == 0.25
    assert lm.spent().tokens > 100


def test_a_reply_without_a_cost_is_priced(ledger: Ledger) -> None:
    lm = LedgerLM(
        Model(lambda _: LMReply("x", "stop", 10, 5)), ledger, "run", cost_of=lambda _, prompt, reply: prompt + reply
    )
    assert ask(lm, request())[0].cost == 15
    assert lm.spent() == Usage(1, 15, 15.0)


# Kills


WORKER = """
import asyncio, json, os, sys
from judges.budget import Budget
from judges.ledger import Ledger, LedgerLM
from judges.lm import BudgetExhausted, LMReply, LMRequest, Message

path, log, first, count, total, parallel, cap, kill_at = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
out = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
paid = 0

class Model:
    async def complete(self, request):
        global paid
        os.write(out, f"paid {request.repeat}\\n".encode())
        paid += 1
        if paid == kill_at:
            os.kill(os.getpid(), 9)
        await asyncio.sleep(0.002)
        return LMReply(f"reply {request.repeat}", "stop", 10, 5, 0, 0.001)

async def main():
    lm = LedgerLM(Model(), Ledger(path), "run", Budget(calls=cap or None))
    gate = asyncio.Semaphore(parallel)
    async def one(number):
        async with gate:
            try:
                await lm.complete(LMRequest("openai/m", (Message("user", "x"),), repeat=number % total))
            except BudgetExhausted:
                return
            os.write(out, f"done {number % total}\\n".encode())
    await asyncio.gather(*(one(first + i) for i in range(count)))

asyncio.run(main())
"""


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, *map(str, arguments)]
    return subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)


def end(worker: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = worker.communicate(timeout=60)
    return worker.returncode, errors


def events(log: Path, word: str) -> list[int]:
    rows = log.read_text().split("\n") if log.exists() else []
    return [int(row.split()[1]) for row in rows if row.startswith(f"{word} ")]


def test_eight_processes_and_a_kill(path: Path, tmp_path: Path) -> None:
    """P31 of the field: locked or malformed after a kill. Each of 800 calls is asked for by two processes."""
    logs = [tmp_path / f"{number}.log" for number in range(8)]
    workers = [start(path, log, number * 100, 200, 800, 8, 0, 0) for number, log in enumerate(logs)]
    while len(events(logs[3], "done")) < 40:
        assert workers[3].poll() is None
        time.sleep(0.005)
    workers[3].kill()
    for number, worker in enumerate(workers):
        code, errors = end(worker)
        assert code == (-signal.SIGKILL if number == 3 else 0), errors

    paid = Counter(number for log in logs for number in events(log, "paid"))
    done = {number for log in logs for number in events(log, "done")}
    in_flight = set(events(logs[3], "paid")) - set(events(logs[3], "done"))
    assert {number for number, times in paid.items() if times > 1} <= in_flight
    assert max(paid.values()) <= 2
    assert len(in_flight) <= 8
    with LedgerLM(Model(), Ledger(path, read_only=True), "run", mode="replay") as lm:
        worker_request = LMRequest("openai/m", (Message("user", "x"),))
        replies = ask(lm, *(replace(worker_request, repeat=number) for number in sorted(done)))
        assert [reply.text for reply in replies] == [f"reply {number}" for number in sorted(done)]
        rows = run_sql(path, "SELECT COUNT(*) FROM calls WHERE status = 'done'")[0][0]
        assert lm.spent() == Usage(rows, rows * 15, as_stored(rows * 0.001))
        assert rows >= 800 - len(in_flight)


def test_an_interrupted_run_ends_where_an_unbroken_one_does(tmp_path: Path) -> None:
    """P27 of the field: budget 30, killed at 13, started again."""
    logs = {name: tmp_path / f"{name}.log" for name in ("unbroken", "interrupted")}
    paths = {name: tmp_path / f"{name}.sqlite" for name in logs}
    assert end(start(paths["unbroken"], logs["unbroken"], 0, 50, 50, 1, 30, 0))[0] == 0
    assert end(start(paths["interrupted"], logs["interrupted"], 0, 50, 50, 1, 30, 13))[0] == -signal.SIGKILL
    assert end(start(paths["interrupted"], logs["interrupted"], 0, 50, 50, 1, 30, 0))[0] == 0
    results = {}
    for name, path in paths.items():
        with Ledger(path) as ledger:
            results[name] = (ledger.spent("run"), sorted(run_sql(path, "SELECT key, text FROM calls")))
    assert results["interrupted"] == results["unbroken"]
    assert results["unbroken"][0].calls == 30
    assert Counter(events(logs["interrupted"], "paid")) == Counter([*range(30), 12]), "only the one in flight"


def owner_of(process: int, start: str = "") -> str:
    return f"{socket.gethostname()}:{process}:{start}"


def leave_pending(ledger: Ledger, owner: str, started: float | None = None) -> None:
    ledger.reserve(request().key, request(), "run", Usage(1, 1000, 0.5), Budget())
    run_sql(ledger.path, "UPDATE calls SET owner = ?, started = ?", owner, time.time() if started is None else started)


@pytest.mark.parametrize(
    ("owner", "age"),
    [
        (owner_of(NO_PROCESS), 0.0),
        (owner_of(os.getpid(), "12"), 0.0),  # this id in an earlier life of a container
        ("elsewhere:1:x", 3700.0),
        (owner_of(1), 3700.0),
        ("", 3700.0),
    ],
)
def test_a_call_of_the_dead_is_taken_over(ledger: Ledger, owner: str, age: float) -> None:
    leave_pending(ledger, owner, time.time() - age)
    assert ledger.spent("run") == Usage()
    lm = LedgerLM(Model(), ledger, "run", Budget(calls=1))
    assert ask(lm, request())[0].text == "reply 0"
    assert lm.spent() == Usage(1, 15, 0.001)


@pytest.mark.parametrize("owner", [owner_of(1), "elsewhere:1:x"])
def test_a_call_of_the_living_is_waited_for(path: Path, ledger: Ledger, owner: str) -> None:
    leave_pending(ledger, owner)
    model = Model()

    async def scene() -> LMReply:
        call = asyncio.create_task(LedgerLM(model, ledger, "run").complete(request()))
        await asyncio.sleep(0.1)
        assert not call.done()
        with Ledger(path) as other:
            other.complete(request().key, "run", LMReply("theirs", "stop", 1, 1), Usage(1, 2, 0.0))
        return await call

    assert asyncio.run(scene()).text == "theirs"
    assert model.asked == []
    assert ledger.spent("run") == Usage(1, 2, 0.0)


def test_what_the_dead_reserved_is_free_for_other_calls(ledger: Ledger) -> None:
    leave_pending(ledger, owner_of(NO_PROCESS))
    lm = LedgerLM(Model(), ledger, "run", Budget(calls=1, tokens=1000))
    assert ask(lm, request(1))[0].text == "reply 0"


def test_a_late_reply_is_kept_and_the_first_one_wins(ledger: Ledger) -> None:
    leave_pending(ledger, owner_of(NO_PROCESS))
    for text in ("first", "second"):
        ledger.complete(request().key, "run", LMReply(text, "stop", 1, 1), Usage(1, 2, 0.5))
    reply = ledger.find(request().key)
    assert reply is not None
    assert reply.text == "first"
    assert ledger.spent("run") == Usage(2, 4, 1.0), "both were paid"


def test_a_reply_whose_reservation_was_swept_is_kept(ledger: Ledger) -> None:
    """A computer that slept through its lease."""
    leave_pending(ledger, "elsewhere:1:x", time.time() - 3700)
    ask(LedgerLM(Model(), ledger, "other", Budget(calls=1)), request(1))
    ledger.release(request().key, "run", failed=False)
    ledger.complete(request().key, "run", LMReply("late", "stop", 1, 1), Usage(1, 2, 0.5))
    assert ledger.spent("run") == Usage(1, 2, 0.5)


# Damage


@pytest.mark.parametrize(
    "damage",
    [
        "text = NULL",
        "text = X'FF00FF'",
        "finish_reason = NULL",
        "finish_reason = X'FF'",
        "prompt_tokens = 'many'",
        "completion_tokens = NULL",
        "cached_tokens = X'00'",
        "cost = 'dear'",
        "status = 'nonsense'",
        "status = 'pending', owner = 'nonsense', started = 'yesterday'",
    ],
)
def test_a_damaged_row_is_made_again(ledger: Ledger, damage: str) -> None:
    model = Model()
    lm = LedgerLM(model, ledger, "run")
    ask(lm, request(0), request(1))
    run_sql(ledger.path, f"UPDATE calls SET {damage} WHERE key = ?", request(0).key)
    replies = ask(lm, request(0), request(1), request(0))
    assert [reply.text for reply in replies] == ["reply 0"] * 3
    assert [reply.replayed for reply in replies] == [False, True, True]
    assert len(model.asked) == 3


def test_a_damaged_file_says_what_to_do(path: Path) -> None:
    path.write_bytes(b"this is no database at all" * 100)
    with pytest.raises(JudgeError, match=r"ledger\.sqlite.*damaged.*restore a copy"):
        Ledger(path)


def test_a_file_with_a_damaged_page_says_what_to_do(path: Path) -> None:
    with LedgerLM(Model(), Ledger(path), "run") as lm:
        ask(lm, *(request(i) for i in range(50)))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(JudgeError, match="damaged"), LedgerLM(Model(), Ledger(path), "run") as lm:
        ask(lm, request(0))


def test_a_truncated_file_says_what_to_do(path: Path) -> None:
    with LedgerLM(Model(), Ledger(path), "run") as lm:
        ask(lm, *(request(i) for i in range(50)))
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(JudgeError, match="damaged"), LedgerLM(Model(), Ledger(path), "run") as lm:
        ask(lm, request(0))


def test_a_database_of_something_else_is_left_alone(path: Path) -> None:
    run_sql(path, "CREATE TABLE experiments (id)")
    before = path.read_bytes()
    with pytest.raises(JudgeError, match="something else"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_newer_ledger_is_refused(path: Path) -> None:
    Ledger(path).close()
    run_sql(path, "PRAGMA user_version = 99")
    with pytest.raises(JudgeError, match="version 99: this program reads version 1"):
        Ledger(path)


def test_an_empty_file_becomes_a_ledger(path: Path) -> None:
    path.touch()
    with LedgerLM(Model(), Ledger(path), "run") as lm:
        assert ask(lm, request())[0].text == "reply 0"


def test_paths_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="is a folder"):
        Ledger(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(JudgeError, match="accepted is a file that can be written"):
        Ledger(tmp_path / "file" / "ledger.sqlite")
    with pytest.raises(JudgeError, match="accepted is a file that can be written"):
        Ledger("/proc/ledger.sqlite")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(JudgeError, match="accepted is a file that can be written"):
        Ledger(tmp_path / "ledger.sqlite")


def test_a_path_with_odd_characters(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=ro#é%41" / "led ger.sqlite"
    with LedgerLM(Model(), Ledger(path), "run") as lm:
        ask(lm, request())
    assert path.is_file()
    assert sorted(file.name for file in path.parent.iterdir()) == ["led ger.sqlite"], "one file once it is closed"


def test_a_closed_ledger_says_so(path: Path) -> None:
    lm = LedgerLM(Model(), Ledger(path), "run")
    lm.close()
    lm.close()
    with pytest.raises(JudgeError, match="closed"):
        ask(lm, request())


def test_a_forked_process_must_open_its_own(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(JudgeError, match="forked"):
        ledger.spent("run")


# What is stored


def test_little_is_stored_of_the_request_and_nothing_secret(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-sentinel-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    asked = request(
        messages=(Message("system", "S" * 50_000), Message("user", "U" * 50_000)),
        endpoint=f"https://me:{secret}@host.example:8443/v1?key={secret}",
        seed=4,
        repeat=2,
    )
    with LedgerLM(Model(), Ledger(path), "run") as lm:
        ask(lm, *(replace(asked, repeat=repeat) for repeat in range(20)))
        (about,) = run_sql(path, "SELECT about FROM calls WHERE key = ?", replace(asked, repeat=2).key)[0]
    assert json.loads(about) == {
        "model": "openai/m",
        "endpoint": "https://host.example:8443/v1",
        "temperature": 0.0,
        "max_tokens": 100,
        "seed": 4,
        "repeat": 2,
        "characters": [50_000, 50_000],
    }
    assert secret.encode() not in path.read_bytes()
    assert path.stat().st_size < 100_000


def test_requests_are_kept_where_that_is_asked_for(path: Path) -> None:
    asked = request(messages=(Message("user", "a\ud83d" + "long " * 1000),), schema={"type": "object"})
    with Ledger(path, keep_requests=True) as ledger:
        ask(LedgerLM(Model(), ledger, "run"), asked)
        kept = ledger.request(asked.key)
        assert kept == asked
        assert ledger.request("unknown") is None


def test_the_ledger_costs_less_than_half_a_millisecond_a_call(path: Path) -> None:
    """2,000 calls a second through an instant model; measured 8,000 on two cores, and this machine may be busy."""
    requests = [request(i) for i in range(1000)]
    with LedgerLM(Model(), Ledger(path), "run", Budget(calls=10_000)) as lm:
        best = math.inf
        for start in (0, 250, 500, 750):
            began = time.perf_counter()
            ask(lm, *requests[start : start + 250])
            best = min(best, (time.perf_counter() - began) / 250)
    assert best < 0.0005
