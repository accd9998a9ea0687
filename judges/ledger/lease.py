"""Who may still complete the calls that are pending: one row per worker, renewed while it lives.

A worker of this host whose process has ended is known at once. One of another host, or one that is frozen, is given
up when its lease has expired: what its calls had reserved is charged, and who asks next makes them again.
"""

from __future__ import annotations

import time
import uuid

from judges.ledger import tables
from judges.ledger.connection import Connection
from judges.ledger.owner import is_alive, this_process

LEASE_SECONDS = 60.0


class Lease:
    """This worker's. To be used by the thread that writes."""

    def __init__(self, seconds: float = LEASE_SECONDS) -> None:
        self.worker = uuid.uuid4().hex
        self.open: dict[str, tuple[str, bytes | None]] = {}
        """Calls that this worker has reserved and not yet ended: key -> about, request."""
        self.unsure: set[str] = set()
        """Keys of steps that were written with an error: a lost connection does not tell whether they are there."""
        self._process = this_process()
        self._seconds = seconds
        self._renewed: float | None = None
        """When, by this host's clock that never jumps; None: it is not known to be held."""
        self._ever = False

    @property
    def pause(self) -> float:
        """Seconds between two renewals."""
        return self._seconds / 4

    @property
    def is_due(self) -> bool:
        return self._renewed is None or time.monotonic() - self._renewed >= self.pause

    @property
    def is_held(self) -> bool:
        return self._ever

    def renew(self, db: Connection, now: float) -> None:
        """In the transaction of `now`, by the ledger's clock; writes nothing where it is not due. The caller calls
        `undo` where the transaction fails."""
        if self.is_due:
            db.insert(tables.renew_workers, [(self.worker, self._process, now + self._seconds)])
            self._renewed, self._ever = time.monotonic(), True

    def undo(self) -> None:
        self._renewed = None

    def may_complete(self, key: str, owner: object, living: set[str]) -> bool:
        """Whether the owner of a pending call may still complete it."""
        # One of ours that is not open was left by a write that failed: nobody will end it.
        return key in self.open if owner == self.worker else owner in living


def living(db: Connection, now: float) -> set[str]:
    """The workers that may be alive."""
    return {
        worker
        for worker, process, expires in db.rows(tables.all_workers)
        if isinstance(expires, float) and expires > now and is_alive(str(process))
    }


def renew(db: Connection, lease: Lease) -> None:
    """Where it is time."""
    if lease.is_due:
        try:
            with db.transaction() as now:
                lease.renew(db, now)
        except BaseException:
            lease.undo()
            raise


def leave(db: Connection, lease: Lease) -> None:
    """Ends the lease: whatever this worker has not ended is another's."""
    if lease.is_held:
        with db.transaction():
            db.run(tables.drop_workers, [lease.worker])
