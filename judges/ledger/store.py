"""The call ledger: one row per call, reserved before it and completed after it; and one account per run.

See `rules` for what is promised, `group_commit` for how it is fast, `lease` for how workers share it.
"""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from judges.ledger import tables
from judges.ledger.budget import Budget, Usage
from judges.ledger.connection import Connection
from judges.ledger.group_commit import Closed, GroupCommit
from judges.ledger.lease import LEASE_SECONDS
from judges.ledger.place import place_of
from judges.ledger.rows import parse_reply, unpack
from judges.ledger.rules import settled
from judges.ledger.steps import Answer, Complete, Drop, End, Find, Reservation, Reserve, Result, Step
from judges.ledger.writer import LedgerWriter, connect
from judges.lm import JudgeError, LMReply, LMRequest

T = TypeVar("T")


class Ledger:
    """Safe for threads, event loops and processes that share it: a file on a local disk, or a PostgreSQL database
    (`postgresql://HOST/DATABASE`) for workers on several hosts.

    `read_only` is for replay: the ledger must be there, and is not touched. `keep_requests` stores what was sent as
    well (compressed). The default is the key and a line about the request: prompts are some hundred times larger than
    replies, and whoever has the traces and the programs can build them again. `lease` is in seconds: see `lease`.

    Raises:
        JudgeError: the place cannot be used, or what is there is damaged or not a ledger; the message says what to do.
    """

    def __init__(
        self, path: Path | str, read_only: bool = False, keep_requests: bool = False, lease: float = LEASE_SECONDS
    ) -> None:
        self.path = place_of(path)
        self.flights: dict[str, Future[Any]] = {}
        """Calls that this process is making, by key (see `LedgerLM`); to be used under `lock`."""
        self.lock = threading.Lock()
        self._keep_requests = keep_requests
        self._process = os.getpid()
        self._reading = threading.Lock()
        self._group = None if read_only else GroupCommit(LedgerWriter(self.path, lease))
        self._last: Future[Result] | None = None
        # A list, since a connection that is lost is replaced.
        self._reader = [connect(self.path, read_only)]
        # A forgotten ledger is closed when it is collected.
        self._closer = weakref.finalize(self, _close, self._process, self._group, self._reader)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What was given to it is still written."""
        with self._reading:
            self._closer()

    async def look_up(self, key: str) -> LMReply | None:
        """`find` for coroutines. A file is read at once: a thread would wait longer for its turn than that takes."""
        if self._group is None or self._reader[0].dialect == "sqlite":
            return self.find(key)
        found = await self._ask(Find(key))
        return found if isinstance(found, LMReply) else None

    async def reserve(
        self, key: str, request: LMRequest, run: str, most: Usage, budget: Budget
    ) -> LMReply | Reservation:
        """Reserves a call that takes `most` at the most.

        Returns GRANTED where the call is ours to make; the reply where another process has written it by now; WAIT
        where someone else is making it, or where calls in flight hold what is left of the budget.

        Raises:
            BudgetExhausted: the call could pass a cap even when all calls in flight have ended.
        """
        ended = await self._ask(Reserve(key, request, run, most, budget, self._keep_requests))
        assert isinstance(ended, LMReply | Reservation)
        return ended

    async def complete(self, key: str, run: str, reply: LMReply, paid: Usage) -> LMReply:
        """Puts the reply in the place of the reservation, and `paid` on the run's account; durable on return.

        Returns the reply that the ledger now holds: another's, if that came first."""
        there = await self._ask(Complete(key, run, reply, paid))
        return replace(there, replayed=False) if isinstance(there, LMReply) else reply

    def answer(self, key: str, request: LMRequest, run: str, reply: LMReply, paid: Usage) -> bool:
        """Reserves and completes a call that was made elsewhere. It is paid, so it is kept and charged, whatever the
        budget. False, and nothing changes, where there is a reply already, or someone is making the call now."""
        step = Answer(key, request, run, reply, paid, self._keep_requests)
        return self.do(step).result() is Reservation.GRANTED

    async def drop(self, key: str, end: End) -> None:
        """Ends a call without a reply. It counts as a call unless it was not sent; what it had reserved is charged if
        it may be billed."""
        await self._ask(Drop(key, end))

    def drop_later(self, key: str, end: End) -> None:
        """`drop` where nothing can wait any more."""
        self._last = self.do(Drop(key, end))

    def do(self, step: Step) -> Future[Result]:
        """A step for callers without an event loop: `result()` waits for it."""
        group = self._usable()
        try:
            return group.submit(step)
        except Closed:
            raise self._is_closed() from None

    def find(self, key: str) -> LMReply | None:
        """The stored reply; None where there is none, or a damaged one (which is then made again)."""
        rows = self._read(lambda db: db.rows(tables.replies, [key]))
        return parse_reply(rows[0][3:]) if rows and rows[0][1] == "done" else None

    def request(self, key: str) -> LMRequest | None:
        """What was sent, where the ledger was told to keep it."""
        rows = self._read(lambda db: db.rows(tables.request, [key]))
        return unpack(rows[0][0]) if rows else None

    def spent(self, run: str) -> Usage:
        """What the run has paid for: calls in flight are not in it."""
        self._catch_up()

        def read(db: Connection) -> Usage:
            with db.snapshot():
                accounts = db.rows(tables.accounts, [run])
                held = db.rows(tables.held_by_run, [run])
                # A reply without a count of tokens has no cost either, but a price where one was reserved for it.
                unpriced = db.rows(tables.unpriced, [run])
            usage = settled(list(accounts[0][1:]), held) if accounts else Usage()
            return replace(usage, unpriced=bool(unpriced[0][0]))

        return self._read(read)

    def failed(self, run: str) -> int:
        """How many of the run's calls ended without a reply, or were cut off by a kill."""
        self._catch_up()
        rows = self._read(lambda db: db.rows(tables.accounts, [run]))
        return int(rows[0][4]) if rows else 0

    def identity(self) -> str:
        """Tells the ledger from one that took its place, even where both hold no reply yet; made when first asked."""

        def make(db: Connection) -> str:
            rows = db.rows(tables.ids)
            if not rows and self._group is not None:
                with db.transaction():
                    if not db.rows(tables.ids):
                        db.insert(tables.insert_id, [(uuid.uuid4().hex,)])
                rows = db.rows(tables.ids)
            return str(rows[0][0]) if rows else ""

        return self._read(make)

    async def _ask(self, step: Step) -> Result:
        try:
            return await self._usable().ask(step)
        except Closed:
            raise self._is_closed() from None

    def _usable(self) -> GroupCommit:
        self._check_process()
        if self._group is None:
            raise JudgeError(f"ledger {self.path} is readonly: it was opened for a replay")
        return self._group

    def _read(self, read: Callable[[Connection], T]) -> T:
        self._check_process()
        with self._reading:
            if not self._closer.alive:
                raise self._is_closed()
            for again in (True, False):
                db = self._reader[0]
                try:
                    return read(db)
                except db.errors as error:
                    if not (db.is_lost and again):
                        raise db.explain(error) from error
                    self._reader[0] = connect(self.path, self._group is None)
        raise AssertionError

    def _catch_up(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise JudgeError(f"ledger {self.path} was opened before this process was forked: open it in the new one")

    def _is_closed(self) -> JudgeError:
        return JudgeError(f"ledger {self.path} was closed before this call; open it again")


def _close(process: int, group: GroupCommit | None, reader: list[Connection]) -> None:
    # A forked process shares the connections, and would end those of its parent.
    if os.getpid() == process:
        if group is not None:
            group.close()
        reader[0].close()
