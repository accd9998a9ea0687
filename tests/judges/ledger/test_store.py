"""Tests of the ledger's rows: kills, rivals, damage, and what is stored."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.budget import Budget, Usage, reserved_tokens
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.ledger.store import as_stored
from judges.lm import BudgetExhausted, JudgeError, LMReply, LMRequest, Message

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel

    Models = type[CountingModel]

NO_PROCESS = 2**22 + 1  # above the largest process id of Linux
REPOSITORY = Path(__file__).parents[3]

WORKER = """
import asyncio, json, os, sys
from judges.ledger.budget import Budget
from judges.ledger.ledger_lm import Ledger, LedgerLM
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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    ledger = Ledger(path)
    yield ledger
    ledger.close()


def run_sql(path: Path, statement: str, *values: Any) -> list[Any]:
    db = sqlite3.connect(path)
    try:
        with db:
            return db.execute(statement, values).fetchall()
    finally:
        db.close()


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, *map(str, arguments)]
    return subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)


def end(worker: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = worker.communicate(timeout=60)
    return worker.returncode, errors


def events(log: Path, word: str) -> list[int]:
    rows = log.read_text().split("\n") if log.exists() else []
    return [int(row.split()[1]) for row in rows if row.startswith(f"{word} ")]


def owner_of(process: int, start: str = "") -> str:
    return f"{socket.gethostname()}:{process}:{start}"


def leave_pending(ledger: Ledger, request: LMRequest, owner: str, age: float = 0.0) -> None:
    ledger.reserve(request.key, request, "run", Usage(1, 1000, 0.5), Budget())
    run_sql(ledger.path, "UPDATE calls SET owner = ?, started = ?", owner, time.time() - age)


def test_eight_processes_and_a_kill(path: Path, tmp_path: Path, counting_model: Models) -> None:
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
    with LedgerLM(counting_model(), Ledger(path, read_only=True), "run", mode="replay") as lm:
        worker_request = LMRequest("openai/m", (Message("user", "x"),))
        replies = counting_model.ask(lm, *(replace(worker_request, repeat=number) for number in sorted(done)))
        assert [reply.text for reply in replies] == [f"reply {number}" for number in sorted(done)]
    with Ledger(path) as ledger:
        (rows, paid_tokens) = run_sql(path, "SELECT COUNT(*), SUM(prompt_tokens + completion_tokens) FROM calls")[0]
        reserved = sum(reserved_tokens(worker_request))
        cut_off = ledger.failed("run")
        assert ledger.spent("run") == Usage(rows + cut_off, rows * 15 + cut_off * reserved, as_stored(rows * 0.001))
        assert paid_tokens == rows * 15
        assert rows >= 800 - len(in_flight)
        assert len(in_flight) - 1 <= cut_off <= len(in_flight) + 1, "one may have been reserved and not yet sent"
        assert sum(paid.values()) <= ledger.spent("run").calls


def test_an_interrupted_run_ends_where_an_unbroken_one_does(tmp_path: Path) -> None:
    """P27 of the field: budget 30, killed at 13, started again."""
    logs = {name: tmp_path / f"{name}.log" for name in ("unbroken", "interrupted")}
    paths = {name: tmp_path / f"{name}.sqlite" for name in logs}
    assert end(start(paths["unbroken"], logs["unbroken"], 0, 50, 50, 1, 30, 0))[0] == 0
    assert end(start(paths["interrupted"], logs["interrupted"], 0, 50, 50, 1, 30, 13))[0] == -signal.SIGKILL
    assert end(start(paths["interrupted"], logs["interrupted"], 0, 50, 50, 1, 30, 0))[0] == 0
    replies = {}
    for name, path in paths.items():
        with Ledger(path) as ledger:
            assert ledger.spent("run").calls == len(events(logs[name], "paid")) == 30, "the cap bounds what was sent"
            replies[name] = dict(run_sql(path, "SELECT key, text FROM calls"))
    assert Counter(events(logs["interrupted"], "paid")) == Counter([*range(29), 12]), (
        "only the one in flight is paid twice"
    )
    assert replies["interrupted"].items() < replies["unbroken"].items()
    assert (len(replies["interrupted"]), len(replies["unbroken"])) == (29, 30)


# Rows that were left pending


@pytest.mark.parametrize(
    ("owner", "age"),
    [
        (owner_of(NO_PROCESS), 0.0),
        (owner_of(os.getpid(), "12"), 0.0),  # this id in an earlier life of a container
        ("elsewhere:1:x", 3700.0),
        (owner_of(1), 3700.0),
        ("", 3700.0),
    ],
    ids=["no process", "an earlier life", "another machine, long ago", "alive, long ago", "nobody"],
)
def test_a_call_of_the_dead_is_taken_over(ledger: Ledger, owner: str, age: float, counting_model: Models) -> None:
    leave_pending(ledger, counting_model.request(), owner, age)
    assert ledger.spent("run") == Usage()
    lm = LedgerLM(counting_model(), ledger, "run", Budget(calls=2))
    assert counting_model.ask(lm, counting_model.request())[0].text == "reply 0"
    assert lm.spent() == Usage(2, 1015, 0.501), "nobody knows whether it was paid, so what it had reserved is charged"
    assert ledger.failed("run") == 1


def test_a_call_of_the_dead_is_charged_when_the_file_is_opened(
    path: Path, ledger: Ledger, counting_model: Models
) -> None:
    leave_pending(ledger, counting_model.request(), owner_of(NO_PROCESS))
    with Ledger(path) as later:
        assert (later.spent("run"), later.failed("run")) == (Usage(1, 1000, 0.5), 1)


@pytest.mark.parametrize("owner", [owner_of(1), "elsewhere:1:x"], ids=["alive", "another machine"])
def test_a_call_of_the_living_is_waited_for(path: Path, ledger: Ledger, owner: str, counting_model: Models) -> None:
    leave_pending(ledger, counting_model.request(), owner)
    model = counting_model()

    async def scene() -> LMReply:
        call = asyncio.create_task(LedgerLM(model, ledger, "run").complete(counting_model.request()))
        await asyncio.sleep(0.1)
        assert not call.done()
        with Ledger(path) as other:
            other.complete(counting_model.request().key, "run", LMReply("theirs", "stop", 1, 1), Usage(1, 2, 0.0))
        return await call

    assert asyncio.run(scene()).text == "theirs"
    assert model.asked == []
    assert ledger.spent("run") == Usage(1, 2, 0.0)


@pytest.mark.parametrize("budget", [Budget(calls=1), Budget(tokens=1000), Budget(dollars=0.5)])
def test_what_the_dead_reserved_is_used_up(ledger: Ledger, counting_model: Models, budget: Budget) -> None:
    """A kill, and the same command again, would else be a way around every cap."""
    leave_pending(ledger, counting_model.request(), owner_of(NO_PROCESS))
    lm = LedgerLM(counting_model(), ledger, "run", budget, cost_of=lambda *_: 0.001)
    with pytest.raises(BudgetExhausted):
        counting_model.ask(lm, counting_model.request(1))


def test_a_ledger_is_told_from_one_that_took_its_place(path: Path, ledger: Ledger, counting_model: Models) -> None:
    first = ledger.identity()
    asyncio.run(LedgerLM(counting_model(), ledger, "run").complete(counting_model.request()))
    with Ledger(path) as again:
        assert again.identity() == ledger.identity() == first
    ledger.close()
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    with Ledger(path) as other:
        assert other.identity() not in (first, "")


def test_a_late_reply_is_kept_and_the_first_one_wins(ledger: Ledger, counting_model: Models) -> None:
    leave_pending(ledger, counting_model.request(), owner_of(NO_PROCESS))
    for text in ("first", "second"):
        ledger.complete(counting_model.request().key, "run", LMReply(text, "stop", 1, 1), Usage(1, 2, 0.5))
    reply = ledger.find(counting_model.request().key)
    assert reply is not None
    assert reply.text == "first"
    assert ledger.spent("run") == Usage(2, 4, 1.0), "both were paid"


def test_a_reply_whose_reservation_was_swept_is_charged(path: Path, ledger: Ledger, counting_model: Models) -> None:
    """A computer that slept through its lease."""
    leave_pending(ledger, counting_model.request(), "elsewhere:1:x", 3700.0)
    Ledger(path).close()
    ledger.release(counting_model.request().key)
    ledger.complete(counting_model.request().key, "run", LMReply("late", "stop", 1, 1), Usage(1, 2, 0.5))
    assert ledger.spent("run") == Usage(2, 1002, 1.0), "what was swept is charged: this is a bound"


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
def test_a_damaged_row_is_made_again(ledger: Ledger, damage: str, counting_model: Models) -> None:
    model = counting_model()
    lm = LedgerLM(model, ledger, "run")
    counting_model.ask(lm, counting_model.request(0), counting_model.request(1))
    run_sql(ledger.path, f"UPDATE calls SET {damage} WHERE key = ?", counting_model.request(0).key)
    replies = counting_model.ask(lm, counting_model.request(0), counting_model.request(1), counting_model.request(0))
    assert [reply.text for reply in replies] == ["reply 0"] * 3
    assert [reply.replayed for reply in replies] == [False, True, True]
    assert len(model.asked) == 3


def test_a_closed_ledger_says_so(path: Path, counting_model: Models) -> None:
    lm = LedgerLM(counting_model(), Ledger(path), "run")
    lm.close()
    lm.close()
    with pytest.raises(JudgeError, match="closed"):
        counting_model.ask(lm, counting_model.request())


def test_a_forked_process_must_open_its_own(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(JudgeError, match="forked"):
        ledger.spent("run")


# What is stored


def test_little_is_stored_of_the_request_and_nothing_secret(
    path: Path, monkeypatch: pytest.MonkeyPatch, counting_model: Models
) -> None:
    secret = "sk-sentinel-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    asked = counting_model.request(
        messages=(Message("system", "S" * 50_000), Message("user", "U" * 50_000)),
        endpoint=f"https://me:{secret}@host.example:8443/v1?key={secret}",
        seed=4,
        repeat=2,
    )
    with LedgerLM(counting_model(), Ledger(path), "run") as lm:
        counting_model.ask(lm, *(replace(asked, repeat=repeat) for repeat in range(20)))
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


def test_requests_are_kept_where_that_is_asked_for(path: Path, counting_model: Models) -> None:
    asked = counting_model.request(messages=(Message("user", "a\ud83d" + "long " * 1000),), schema={"type": "object"})
    with Ledger(path, keep_requests=True) as ledger:
        counting_model.ask(LedgerLM(counting_model(), ledger, "run"), asked)
        kept = ledger.request(asked.key)
        assert kept == asked
        assert ledger.request("unknown") is None
