"""The ledger's rows: one per call, reserved before it and completed after it; and one account per run.

Every write is one transaction, so a kill at any moment loses no reply that was had. It leaves a pending row behind:
nobody knows whether that call was paid, so what it had reserved is charged, and the next one who asks makes it again.
"""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path
from typing import Any

from judges.ledger.budget import Budget, Usage
from judges.ledger.file import connect, explain
from judges.ledger.owner import is_alive, this_process
from judges.lm import BudgetExhausted, JudgeError, LMReply, LMRequest, Message
from judges.redact import redact_url

LEASE_SECONDS = 3600.0
"""A pending row that is older is nobody's: no call takes so long with all its retries."""
TRILLION = 10**12
"""Costs are whole trillionths of a dollar in the file, so that their sums are exact."""

_REPLY = "CAST(text AS BLOB), CAST(finish_reason AS BLOB), prompt_tokens, completion_tokens, cached_tokens, cost"


class Reservation(Enum):
    GRANTED = "granted"
    WAIT = "wait"


class Ledger:
    """Safe for threads, event loops and processes that share one file on a local disk.

    `read_only` is for replay: the file must be there, and is not touched. `keep_requests` stores what was sent as
    well (compressed). The default is the key and a line about the request: prompts are some hundred times larger than
    replies, and whoever has the traces and the programs can build them again.

    Raises:
        JudgeError: the path cannot be used, or the file is damaged or not a ledger; the message says what to do.
    """

    def __init__(self, path: Path | str, read_only: bool = False, keep_requests: bool = False) -> None:
        self.path = Path(path)
        self.flights: dict[str, Future[Any]] = {}
        """Calls that this process is making, by key (see `LedgerLM`); to be used under `lock`."""
        self.lock = threading.Lock()
        self._db = connect(self.path, read_only)
        # A forgotten ledger is closed when it is collected.
        self._closer = weakref.finalize(self, self._db.close)
        self._keep_requests = keep_requests
        self._process = os.getpid()
        self._owner = this_process()
        if not read_only:
            with self._write() as db:
                _charge_dead(db)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self.lock:
            self._closer()

    def find(self, key: str) -> LMReply | None:
        """The stored reply; None where there is none, or a damaged one (which is then made again)."""
        with self._use() as db:
            row = db.execute(f"SELECT {_REPLY} FROM calls WHERE key = ? AND status = 'done'", (key,)).fetchone()
        return None if row is None else _parse(row)

    def reserve(self, key: str, request: LMRequest, run: str, most: Usage, budget: Budget) -> LMReply | Reservation:
        """Reserves a call that takes `most` at the most.

        Returns GRANTED where the call is ours to make; the reply where another process has written it by now; WAIT
        where someone else is making it, or where calls in flight hold what is left of the budget.

        Raises:
            BudgetExhausted: the call could pass a cap even when all calls in flight have ended.
        """
        with self._write() as db:
            if (known := _standing(db, key)) is not None:
                return known
            if budget.excess(_total(db, run), most):
                _charge_dead(db)
                if reason := budget.excess(_spent(db, run), most):
                    raise BudgetExhausted(f"budget of run {run!r}: {reason}")
                if budget.excess(_total(db, run), most):
                    return Reservation.WAIT
            self._reserve(db, key, request, run, most)
            return Reservation.GRANTED

    def complete(self, key: str, run: str, reply: LMReply, paid: Usage) -> None:
        """Puts the reply in the place of the reservation, and `paid` on the run's account."""
        with self._write() as db:
            _complete(db, key, run, reply, paid)

    def answer(self, key: str, request: LMRequest, run: str, reply: LMReply, paid: Usage) -> bool:
        """Reserves and completes a call that was made elsewhere. It is paid, so it is kept and charged, whatever the
        budget. False, and nothing changes, where there is a reply already, or someone is making the call now."""
        with self._write() as db:
            if _standing(db, key) is not None:
                return False
            self._reserve(db, key, request, run, paid)
            _complete(db, key, run, reply, paid)
            return True

    def fail(self, key: str, billed: bool) -> None:
        """Ends a call without a reply. It counts as a call; what it had reserved is charged if it may be `billed`."""
        with self._write() as db:
            if not billed:
                _give_back(db, key, calls=0)
            _drop(db, key)

    def release(self, key: str) -> None:
        """Gives back the reservation of a call that was not sent."""
        with self._write() as db:
            _give_back(db, key, calls=1)
            db.execute("DELETE FROM calls WHERE key = ?", (key,))

    def request(self, key: str) -> LMRequest | None:
        """What was sent, where the ledger was told to keep it."""
        with self._use() as db:
            row = db.execute("SELECT request FROM calls WHERE key = ? AND request IS NOT NULL", (key,)).fetchone()
        if row is None:
            return None
        fields = json.loads(gzip.decompress(row[0]))
        return LMRequest(**{**fields, "messages": tuple(Message(**message) for message in fields["messages"])})

    def spent(self, run: str) -> Usage:
        """What the run has paid for: calls in flight are not in it."""
        # A reply without a count of tokens has no cost either, but a price where one was reserved for it.
        select = "SELECT 1 FROM calls WHERE run = ? AND status = 'done' AND cost IS NULL AND reserved_cost = 0 LIMIT 1"
        with self._use() as db:
            return replace(_spent(db, run), unpriced=db.execute(select, (run,)).fetchone() is not None)

    def identity(self) -> str:
        """Tells the file from one that took its place, even where both hold no reply yet; made when first asked for."""
        with self._write() as db:
            db.execute("CREATE TABLE IF NOT EXISTS identity AS SELECT lower(hex(randomblob(16))) AS id")
            (found,) = db.execute("SELECT id FROM identity").fetchone()
        return str(found)

    def failed(self, run: str) -> int:
        """How many of the run's calls ended without a reply, or were cut off by a kill."""
        with self._use() as db:
            row = db.execute("SELECT failed FROM runs WHERE run = ?", (run,)).fetchone()
        return row[0] if row else 0

    @contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        if os.getpid() != self._process:
            raise JudgeError(f"ledger {self.path} was opened before this process was forked: open it in the new one")
        with self.lock:
            try:
                yield self._db
            except sqlite3.Error as error:
                raise explain(error, self.path) from error

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._use() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _reserve(self, db: sqlite3.Connection, key: str, request: LMRequest, run: str, most: Usage) -> None:
        cost = _trillionths(most.cost)
        db.execute(
            "INSERT INTO calls (key, status, run, owner, started, reserved_tokens, reserved_cost, about, request)"
            " VALUES (?, 'pending', ?, ?, ?, ?, ?, ?, ?)",
            (key, run, self._owner, time.time(), most.tokens, cost, _about(request), self._request(request)),
        )
        _add(db, run, 1, most.tokens, cost)

    def _request(self, request: LMRequest) -> bytes | None:
        return gzip.compress(json.dumps(asdict(request)).encode()) if self._keep_requests else None


def as_stored(dollars: float) -> float:
    """A cost as the file will give it back: a run that is resumed adds up the same numbers as an unbroken one."""
    return _trillionths(dollars) / TRILLION


def _trillionths(dollars: float) -> int:
    return round(dollars * TRILLION)


def _may_complete(owner: Any, started: Any) -> bool:
    """Whether the one who reserved a row may still complete it."""
    return isinstance(started, float) and time.time() - started < LEASE_SECONDS and is_alive(str(owner))


def _standing(db: sqlite3.Connection, key: str) -> LMReply | Reservation | None:
    """The reply of a call; WAIT where someone may be making it; None where it is to be made: a dead row is removed."""
    row = db.execute(f"SELECT status, owner, started, {_REPLY} FROM calls WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    if row[0] == "pending" and _may_complete(row[1], row[2]):
        return Reservation.WAIT
    if row[0] == "done" and (reply := _parse(row[3:])) is not None:
        return reply
    _drop(db, key)
    return None


def _complete(db: sqlite3.Connection, key: str, run: str, reply: LMReply, paid: Usage) -> None:
    values = {
        "text": reply.text.encode("utf-8", "surrogatepass"),
        "finish_reason": reply.finish_reason,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "cached_tokens": reply.cached_tokens,
        "cost": None if reply.cost is None else _trillionths(reply.cost),
        "finished": time.time(),
    }
    names = ", ".join(f"{name} = :{name}" for name in values)
    _give_back(db, key, calls=1)
    db.execute(
        f"UPDATE calls SET status = 'done', run = :run, {names} WHERE key = :key AND status = 'pending'",
        {**values, "run": run, "key": key},
    )
    _add(db, run, 1, paid.tokens, _trillionths(paid.cost))


def _charge_dead(db: sqlite3.Connection) -> None:
    rows = db.execute("SELECT key, owner, started FROM calls WHERE status = 'pending'").fetchall()
    for key, owner, started in rows:
        if not _may_complete(owner, started):
            _drop(db, key)


def _add(db: sqlite3.Connection, run: str, calls: int, tokens: int, cost: int, failed: int = 0) -> None:
    db.execute(
        "INSERT INTO runs VALUES (:run, :calls, :tokens, :cost, :failed) ON CONFLICT (run) DO UPDATE SET"
        " calls = calls + :calls, tokens = tokens + :tokens, cost = cost + :cost, failed = failed + :failed",
        {"run": run, "calls": calls, "tokens": tokens, "cost": cost, "failed": failed},
    )


def _give_back(db: sqlite3.Connection, key: str, calls: int) -> None:
    """Takes a reservation off its run's account: the tokens, the dollars, and so many calls."""
    select = "SELECT run, reserved_tokens, reserved_cost FROM calls WHERE key = ? AND status = 'pending'"
    if row := db.execute(select, (key,)).fetchone():
        _add(db, row[0], -calls, -row[1], -row[2])


def _drop(db: sqlite3.Connection, key: str) -> None:
    """Removes a row. What a pending one had reserved stays on its run's account, as a call that failed."""
    if row := db.execute("SELECT run FROM calls WHERE key = ? AND status = 'pending'", (key,)).fetchone():
        _add(db, row[0], 0, 0, 0, failed=1)
    db.execute("DELETE FROM calls WHERE key = ?", (key,))


def _total(db: sqlite3.Connection, run: str) -> Usage:
    """Paid and reserved."""
    row = db.execute("SELECT calls, tokens, cost FROM runs WHERE run = ?", (run,)).fetchone()
    return Usage(row[0], row[1], row[2] / TRILLION) if row else Usage()


def _spent(db: sqlite3.Connection, run: str) -> Usage:
    total = _total(db, run)
    select = (
        "SELECT COUNT(*), COALESCE(SUM(reserved_tokens), 0), COALESCE(SUM(reserved_cost), 0) FROM calls"
        " WHERE run = ? AND status = 'pending'"
    )
    calls, tokens, cost = db.execute(select, (run,)).fetchone()
    settled = _trillionths(total.cost) - cost
    return Usage(total.calls - calls, total.tokens - tokens, settled / TRILLION)


def _parse(row: tuple[Any, ...]) -> LMReply | None:
    """The reply of a row, None where the row is damaged."""
    text, finish_reason, prompt_tokens, completion_tokens, cached_tokens, cost = row
    try:
        return LMReply(
            text=text.decode("utf-8", "surrogatepass"),
            finish_reason=finish_reason.decode(),
            prompt_tokens=int(prompt_tokens),
            completion_tokens=int(completion_tokens),
            cached_tokens=int(cached_tokens),
            cost=None if cost is None else cost / TRILLION,
            replayed=True,
        )
    except (AttributeError, TypeError, ValueError):
        return None


def _about(request: LMRequest) -> str:
    """A line for people: what kind of call this was. No message text, and nothing secret of the endpoint."""
    return json.dumps(
        {
            "model": request.model,
            "endpoint": redact_url(request.endpoint),
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "seed": request.seed,
            "repeat": request.repeat,
            "characters": [len(message.content) for message in request.messages],
        }
    )
