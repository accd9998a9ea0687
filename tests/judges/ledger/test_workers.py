"""Tests of workers that share a ledger: processes that are killed or frozen, and a budget that they share."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.budget import Usage, reserved_tokens
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.ledger.rows import as_stored
from judges.lm import LMRequest, Message

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel

    Models = type[CountingModel]
    RunSql = Callable[..., list[Any]]

REPOSITORY = Path(__file__).parents[3]

WORKER = """
import asyncio, json, os, sys
from judges.ledger.budget import Budget
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.lm import BudgetExhausted, LMReply, LMRequest, Message

path, log, first, count, total, parallel, cap, kill_at = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:9])
seconds, lease = map(float, sys.argv[9:] or (0.002, 60))
out = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
paid = 0

class Model:
    async def complete(self, request):
        global paid
        os.write(out, f"paid {request.repeat}\\n".encode())
        paid += 1
        if paid == kill_at:
            os.kill(os.getpid(), 9)
        await asyncio.sleep(seconds)
        return LMReply(f"reply {request.repeat}", "stop", 10, 5, 0, 0.001)

async def main():
    lm = LedgerLM(Model(), Ledger(path, lease=lease), "run", Budget(calls=cap or None))
    gate = asyncio.Semaphore(parallel)
    async def one(number):
        async with gate:
            try:
                await lm.complete(LMRequest("openai/m", (Message("user", "x"),), repeat=number % total))
            except BudgetExhausted:
                return
            os.write(out, f"done {number % total}\\n".encode())
    await asyncio.gather(*(one(first + i) for i in range(count)))
    lm.close()

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


def test_eight_processes_and_a_kill(place: Path | str, tmp_path: Path, counting_model: Models, run_sql: RunSql) -> None:
    """P31 of the field: locked or malformed after a kill. 8 x 500 calls, each of 2,000 is asked for twice."""
    logs = [tmp_path / f"{number}.log" for number in range(8)]
    workers = [start(place, log, number * 250, 500, 2000, 16, 0, 0) for number, log in enumerate(logs)]
    while len(events(logs[3], "done")) < 100:
        assert workers[3].poll() is None
        time.sleep(0.005)
    workers[3].kill()
    for number, worker in enumerate(workers):
        code, errors = end(worker)
        assert (code, errors) == (-signal.SIGKILL if number == 3 else 0, "")

    paid = Counter(number for log in logs for number in events(log, "paid"))
    done = {number for log in logs for number in events(log, "done")}
    in_flight = set(events(logs[3], "paid")) - set(events(logs[3], "done"))
    assert {number for number, times in paid.items() if times > 1} <= in_flight
    assert max(paid.values()) <= 2
    assert len(in_flight) <= 16
    worker_request = LMRequest("openai/m", (Message("user", "x"),))
    with LedgerLM(counting_model(), Ledger(place, read_only=True), "run", mode="replay") as lm:
        replies = counting_model.ask(lm, *(replace(worker_request, repeat=number) for number in sorted(done)))
        assert [reply.text for reply in replies] == [f"reply {number}" for number in sorted(done)]
    with Ledger(place) as ledger:
        rows = run_sql(place, "SELECT COUNT(*) FROM calls WHERE status = 'done' AND prompt_tokens = 10")[0][0]
        assert run_sql(place, "SELECT COUNT(*) FROM calls") == [(rows,)]
        reserved = sum(reserved_tokens(worker_request))
        cut_off = ledger.failed("run")
        assert ledger.spent("run") == Usage(rows + cut_off, rows * 15 + cut_off * reserved, as_stored(rows * 0.001))
        assert rows >= 2000 - len(in_flight)
        # One may have been reserved and not sent yet, or be done and its reply not told yet.
        assert sum(paid.values()) <= ledger.spent("run").calls <= sum(paid.values()) + 16


@pytest.mark.parametrize("moment", range(0, 60, 6))
def test_a_kill_at_any_moment(place: Path | str, tmp_path: Path, run_sql: RunSql, moment: int) -> None:
    """Whatever was told to be done is there, and the account holds at least what was paid."""
    log = tmp_path / "log"
    worker = start(place, log, 0, 5000, 5000, 8, 0, 0)
    while not events(log, "done"):
        assert worker.poll() is None
        time.sleep(0.002)
    time.sleep(moment / 1000)
    worker.kill()
    assert end(worker)[0] == -signal.SIGKILL
    done, paid = events(log, "done"), events(log, "paid")
    with Ledger(place) as ledger:
        rows = run_sql(place, "SELECT COUNT(*) FROM calls WHERE status = 'done'")[0][0]
        spent = ledger.spent("run")
        assert len(done) <= rows <= len(paid) <= spent.calls <= len(paid) + 8
        assert spent.calls - ledger.failed("run") == rows
        assert run_sql(place, "SELECT COUNT(*) FROM calls") == [(rows,)]


def test_a_frozen_worker_loses_its_lease_and_comes_back(
    place: Path | str, tmp_path: Path, counting_model: Models
) -> None:
    log = tmp_path / "log"
    # Its call takes 2 s, its lease 0.5 s.
    worker = start(place, log, 0, 1, 1, 1, 0, 0, "2.0", "0.5")
    while not events(log, "paid"):
        time.sleep(0.01)
    worker.send_signal(signal.SIGSTOP)
    model = counting_model()
    request = LMRequest("openai/m", (Message("user", "x"),))
    with LedgerLM(model, Ledger(place), "other") as lm:
        began = time.monotonic()
        assert counting_model.ask(lm, request)[0].text == "reply 0"
        assert 0.2 < time.monotonic() - began < 1.9
        worker.send_signal(signal.SIGCONT)
        assert end(worker) == (0, "")
        assert events(log, "done") == [0]
        assert (len(model.asked), lm.spent().calls) == (1, 1)
        assert lm.ledger.spent("run") == Usage(2, sum(reserved_tokens(request)) + 15, 0.001), "it paid, and was charged"


def test_an_interrupted_run_ends_where_an_unbroken_one_does(tmp_path: Path, run_sql: RunSql) -> None:
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
