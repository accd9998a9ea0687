"""What the ledger promises, for many calls in one transaction: who may make a call, what it holds, what it has cost.

A call is reserved before it is sent, and completed after it. A kill between the two leaves a pending row: nobody knows
whether that call was paid, so what it had reserved is charged, and the next one who asks makes it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

from judges.ledger import tables
from judges.ledger.budget import Budget, Usage, exhausted
from judges.ledger.connection import Connection
from judges.ledger.lease import Lease, living
from judges.ledger.rows import TRILLION, about, pack, parse_reply, reply_values, trillionths
from judges.ledger.steps import Answer, Complete, Drop, End, Find, Reservation, Reserve, Result, Step
from judges.lm import LMReply

_ACCOUNT = ("calls", "tokens", "cost", "failed", "assumed", "unsure")
Account: TypeAlias = list[int]
"""Calls, tokens, trillionths of a dollar, failed calls; trillionths that are assumed, and for how many calls."""


def carry_out(db: Connection, lease: Lease, steps: Sequence[Step]) -> list[Result]:
    """All steps in one transaction, and what each of them came to. Their keys differ, so their order is free: what
    gives something back goes first."""
    finds = [step for step in steps if isinstance(step, Find)]
    if len(finds) == len(steps):
        known = _known(db, [step.key for step in finds])
        return [_reply_of(known.get(step.key)) for step in finds]
    try:
        with db.transaction(any(_must_last(step) for step in steps)) as now:
            work = _Work(db, lease, now)
            work.complete([step for step in steps if isinstance(step, Complete)])
            for end in End:
                work.drop([step.key for step in steps if isinstance(step, Drop) and step.end is end], end)
            free = work.free([step for step in steps if isinstance(step, Reserve | Answer)], [s.key for s in finds])
            work.answer([step for step in free if isinstance(step, Answer)])
            work.grant([step for step in free if isinstance(step, Reserve)])
            work.write()
    except BaseException:
        lease.undo()
        lease.unsure.update(step.key for step in steps)
        raise
    lease.unsure.difference_update(step.key for step in steps)
    for step in steps:
        if isinstance(step, Reserve):
            if step.key in work.granted:
                lease.open[step.key] = work.granted[step.key]
        elif not isinstance(step, Find):
            lease.open.pop(step.key, None)
    return [work.results.get(step.key) for step in steps]


def charge_dead(db: Connection, lease: Lease) -> None:
    """Charges what those had reserved who will not complete it any more."""
    with db.transaction() as now:
        work = _Work(db, lease, now)
        work.charge_dead()
        work.write()


def settled(total: Account, held: Iterable[Sequence[Any]]) -> Usage:
    """What is paid of an account: all but what is held by calls in flight."""
    calls, tokens, cost, _, assumed, unsure = total
    for row in held:
        calls, tokens, cost = calls - row[0], tokens - row[1], cost - row[2]
    return Usage(calls, tokens, cost / TRILLION, assumed=assumed / TRILLION, unsure=unsure)


class _Work:
    """One transaction."""

    def __init__(self, db: Connection, lease: Lease, now: float) -> None:
        self.results: dict[str, Result] = {}
        self.granted: dict[str, tuple[str, bytes | None]] = {}
        self._db = db
        self._lease = lease
        self._now = now
        self._changes: defaultdict[str, Account] = defaultdict(lambda: [0] * len(_ACCOUNT))
        self._new: list[tuple[Any, ...]] = []

    def complete(self, steps: Collection[Complete]) -> None:
        """Puts the replies in the places of the reservations, and what was paid on the runs' accounts."""
        if not steps:
            return
        keys, worker = [step.key for step in steps], self._lease.worker
        held = self._give_back(keys, End.UNSENT)
        # Somebody else was given this worker's call, and may be billed as well.
        self._charge(row for row in held if row[1] != worker)
        if sum(row[2] for row in held if row[1] == worker) < len(keys):
            there = {key: row for key, row in _known(self._db, keys).items() if row[1] == "done"}
            # Everybody reads what was there first.
            self.results |= {key: _reply_of(row) for key, row in there.items()}
            # What is ours and still open was written, and charged, by a commit that this worker was not told of.
            ours = {key for key, row in there.items() if row[2] == worker and key in self._lease.open}
            steps = [step for step in steps if step.key not in ours]
        self._file([(step, self._lease.open.get(step.key, ("{}", None))) for step in steps])

    def answer(self, steps: Collection[Answer]) -> None:
        self._file([(step, _kept(step)) for step in steps])
        self.results |= dict.fromkeys((step.key for step in steps), Reservation.GRANTED)

    def drop(self, keys: Collection[str], end: End) -> None:
        """Ends calls without a reply. Only this worker's: what it lost is another's now, or was charged."""
        if keys:
            self._give_back(keys, end)
            self._db.run(tables.drop_pending, list(keys), owner=self._lease.worker)

    def free(self, steps: Collection[Reserve | Answer], finds: Collection[str]) -> list[Reserve | Answer]:
        """Those of the calls that are to be made: no reply is there, and nobody is making them. What a dead worker or
        damage has left of them is removed."""
        known = _known(self._db, [*(step.key for step in steps), *finds])
        for key in finds:
            self.results[key] = _reply_of(known.get(key))
        again, asked = [], []
        alive: set[str] | None = None
        for step in steps:
            row = known.get(step.key)
            if row is not None and row[1] == "pending":
                alive = living(self._db, self._now) if alive is None else alive
                if self._lease.may_complete(step.key, row[2], alive):
                    self.results[step.key] = Reservation.WAIT
                    continue
            elif (reply := _reply_of(row)) is not None:
                self.results[step.key] = reply
                continue
            if row is not None:
                again.append(step.key)
            asked.append(step)
        if again:
            if unsure := self._lease.unsure.intersection(again):
                # Reserved by a write that seemed to fail: it was not sent.
                self._give_back(list(unsure), End.UNSENT)
            if sent := [key for key in again if key not in unsure]:
                self._charge(self._db.rows(tables.held, sent))
            self._db.run(tables.drop, again)
        return asked

    def grant(self, steps: Collection[Reserve]) -> None:
        """Reserves what the budgets allow, after what was asked for before."""
        nothing = Budget()
        swept: dict[str, Usage] = {}
        totals: dict[str, Account] = {}
        for step in steps:
            run = step.run
            if step.budget != nothing:
                if run not in totals:
                    totals[run] = _account(self._db, run)
                now = [before + change for before, change in zip(totals[run], self._changes[run], strict=True)]
                if step.budget.excess(settled(now, ()), step.most):
                    if run not in swept:
                        self.charge_dead()
                        # What this transaction grants is not in the table yet.
                        mine = [(1, row[5], row[6]) for row in self._new if row[2] == run]
                        swept[run] = settled(now, [*self._db.rows(tables.held_by_run, [run]), *mine])
                    reason = step.budget.excess(swept[run], step.most)
                    self.results[step.key] = exhausted(run, reason) if reason else Reservation.WAIT
                    continue
            cost = trillionths(step.most.cost)
            kept = self.granted[step.key] = _kept(step)
            head = (step.key, "pending", run, self._lease.worker, self._now, step.most.tokens, cost, *kept)
            self._new.append((*head, *(None,) * (len(tables.NAMES[tables.calls]) - len(head))))
            self._add(run, calls=1, tokens=step.most.tokens, cost=cost)
            self.results[step.key] = Reservation.GRANTED

    def charge_dead(self) -> None:
        """Also forgets workers that have gone."""
        alive = living(self._db, self._now) | {self._lease.worker}
        dead = [str(row[0]) for row in self._db.rows(tables.owners) if row[0] not in alive]
        if dead:
            self._charge(self._db.rows(tables.held_by_owners, dead))
            self._db.run(tables.drop_by_owners, dead)
        if gone := [row[0] for row in self._db.rows(tables.all_workers) if row[0] not in alive]:
            self._db.run(tables.drop_workers, gone)

    def write(self) -> None:
        if self.granted:
            self._lease.renew(self._db, self._now)
            self._db.insert(tables.insert_calls, self._new)
        if changes := [(run, *change) for run, change in self._changes.items() if any(change)]:
            self._db.insert(tables.add_to_accounts, changes)

    def _file(self, steps: Iterable[tuple[Complete | Answer, tuple[str, bytes | None]]]) -> None:
        """Writes replies, and charges them; `about` and request are used where nothing was reserved."""
        rows = []
        for step, kept in steps:
            cost = trillionths(step.paid.cost)
            text, finish_reason, prompt, completion, cached, price, reasoning, sent = reply_values(step.reply)
            head = (step.key, "done", step.run, self._lease.worker, self._now, 0, cost, *kept)
            rows.append((*head, text, finish_reason, prompt, completion, cached, price, self._now, sent, reasoning))
            assumed, unsure = trillionths(step.paid.assumed), step.paid.unsure
            self._add(step.run, calls=1, tokens=step.paid.tokens, cost=cost, assumed=assumed, unsure=unsure)
        self._db.insert(tables.insert_replies, rows)

    def _give_back(self, keys: Collection[str], end: End) -> list[Any]:
        """Takes what this worker holds for these calls off the accounts; returns what it and others held."""
        held = self._db.rows(tables.held, list(keys))
        for run, owner, calls, tokens, cost in held:
            if owner == self._lease.worker:
                if end is End.BILLED:
                    self._add(run, failed=calls, assumed=cost, unsure=calls)
                else:
                    ended = {"calls": -calls} if end is End.UNSENT else {"failed": calls}
                    self._add(run, tokens=-tokens, cost=-cost, **ended)
        return held

    def _charge(self, held: Iterable[Sequence[Any]]) -> None:
        """What pending calls have reserved stays on their runs' accounts, as calls that failed."""
        for run, _, calls, _, cost in held:
            self._add(run, failed=calls, assumed=cost, unsure=calls)

    def _add(self, run: str, **more: int) -> None:
        for name, number in more.items():
            self._changes[run][_ACCOUNT.index(name)] += number


def _must_last(step: Step) -> bool:
    """After a power cut, a call that was sent is made again anyway; and a reply that cost nothing may be."""
    return isinstance(step, Complete | Answer) and not (step.reply.cost == 0 and step.paid.cost == 0)


def _kept(step: Reserve | Answer) -> tuple[str, bytes | None]:
    return about(step.request), pack(step.request) if step.keep else None


def _known(db: Connection, keys: Sequence[str]) -> dict[str, Any]:
    return {row[0]: row for row in db.rows(tables.replies, keys)} if keys else {}


def _reply_of(row: Sequence[Any] | None) -> LMReply | None:
    """None also of a row that is damaged: the call is made again."""
    return parse_reply(row[3:]) if row is not None and row[1] == "done" else None


def _account(db: Connection, run: str) -> Account:
    rows = db.rows(tables.accounts, [run])
    return list(rows[0][1:]) if rows else [0] * len(_ACCOUNT)
