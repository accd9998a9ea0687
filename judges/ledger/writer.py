"""The one connection of a ledger that writes, and the place that it writes to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from judges.ledger import file, postgres
from judges.ledger.connection import Connection
from judges.ledger.lease import Lease, leave, renew
from judges.ledger.place import Place
from judges.ledger.rules import carry_out, charge_dead
from judges.ledger.steps import Complete, Drop, Result, Step
from judges.lm import JudgeError

RECONNECT_SECONDS = 60.0
"""A reply that was had waits so long for its database to come back."""


def connect(place: Place, read_only: bool) -> Connection:
    """Raises: JudgeError, where the place cannot be used."""
    return file.connect(place, read_only) if isinstance(place, Path) else postgres.connect(place, read_only)


class LedgerWriter:
    """See `group_commit.Writer`. Opening it charges what the dead have left."""

    def __init__(self, place: Place, lease: float) -> None:
        self._lease = Lease(lease)
        self._place = place
        self._db = connect(place, read_only=False)
        try:
            charge_dead(self._db, self._lease)
        except BaseException as error:
            self._db.close()
            if isinstance(error, self._db.errors):
                raise self._db.explain(error) from error
            raise

    def write(self, steps: Sequence[Step]) -> Sequence[Result | Exception]:
        deadline = time.monotonic() + RECONNECT_SECONDS
        while True:
            try:
                return carry_out(self._db, self._lease, steps)
            except self._db.errors as error:
                if self._db.is_lost and time.monotonic() < deadline:
                    self._reconnect()
                elif len(steps) == 1 or any(kind.__name__ == "OperationalError" for kind in type(error).__mro__):
                    # It is locked, full or gone, for one step as for all.
                    self._give_up(steps)
                    return [self._db.explain(error) for _ in steps]
                else:
                    break
            except Exception as error:
                if len(steps) == 1:
                    self._give_up(steps)
                    return [error]
                break
        # One that cannot be written must not keep back the others.
        return [self.write([step])[0] for step in steps]

    def keep_alive(self) -> float | None:
        """Renews the lease while there are calls in flight."""
        if not self._lease.open:
            return None
        try:
            renew(self._db, self._lease)
        except Exception:
            # The thread lives on: the next step will say what is wrong.
            if self._db.is_lost:
                self._reconnect()
        return self._lease.pause

    def close(self) -> None:
        try:
            # One that cannot be ended expires by itself.
            with suppress(*self._db.errors):
                leave(self._db, self._lease)
        finally:
            self._db.close()

    def _give_up(self, steps: Sequence[Step]) -> None:
        """The ends of calls are lost: whoever asks for these calls makes them again."""
        for step in steps:
            if isinstance(step, Complete | Drop):
                self._lease.open.pop(step.key, None)
                self._lease.unsure.discard(step.key)

    def _reconnect(self) -> None:
        try:
            self._db = connect(self._place, read_only=False)
        except JudgeError:
            time.sleep(0.5)
