"""A provider that has died costs a few failed calls, not one for each call that is left."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from dataclasses import dataclass, field

from judges.ledger.store import Ledger
from judges.lm import BudgetExhausted, LMError, LMRequest, ProviderDown

GIVE_UP_AFTER = 8
"""So many calls in a row that fail, each with all its retries."""
DOUBT_AFTER = 2 * GIVE_UP_AFTER
"""So many attempts in a row that fail, of whatever calls: then only a few calls go on trying."""
_LOOK = 0.1
"""Seconds."""
KEPT_WORTH = 1 / 8
"""Of a failure: what a reply from the ledger takes off the row. In a run that is resumed all that is sent is what
failed before, and a few calls that fail for ever must not look like a provider that is down."""
_KEPT = "every reply so far is kept in the ledger {}: start the same command again to go on"
_TO_MEND = "mend that (model, endpoint or key), then start the same command again: every reply is kept in the ledger {}"


@dataclass
class _Target:
    """A model at an endpoint. `failed`: calls since it last answered, after so many `requests`; `row`: the same calls,
    less what the ledger gave.

    `silent`: attempts that failed since it last answered; `trying`: the calls that may go on in spite of it; `held`:
    how many wait for what these find.
    """

    answered: bool = False
    failed: int = 0
    requests: int = 0
    row: float = 0.0
    silent: int = 0
    trying: set[str] = field(default_factory=set)
    held: int = 0
    last: LMError | None = None
    down: str = ""


class Health:
    """Counts the failures in a row of each model at each endpoint, over all loops and threads that share it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._targets: defaultdict[tuple[str, str], _Target] = defaultdict(_Target)

    def check(self, request: LMRequest) -> None:
        """
        Raises:
            ProviderDown: the model has failed too often to be asked again.
        """
        if why := self._target(request).down:
            raise ProviderDown(why)

    def answered(self, request: LMRequest) -> None:
        """The model has answered now: it lives."""
        with self._lock:
            target = self._target(request)
            target.answered, target.failed, target.requests, target.row, target.silent = True, 0, 0, 0.0, 0
            target.trying.clear()

    async def turn(self, request: LMRequest, call: str) -> None:
        """Before a call is tried again: while nothing answers, a few calls find out for all whether the provider is
        back, and the others wait. Else a provider that dies costs every call in flight all of its attempts.

        Raises:
            ProviderDown: it is not.
        """
        target = self._target(request)
        with self._lock:
            target.silent += 1
            target.held += 1
        try:
            self.check(request)
            while not self._may_try(target, call):
                await asyncio.sleep(_LOOK)
                self.check(request)
        finally:
            with self._lock:
                target.held -= 1

    def left(self, request: LMRequest, call: str) -> None:
        """The call has ended, however."""
        with self._lock:
            self._target(request).trying.discard(call)

    def _may_try(self, target: _Target, call: str) -> bool:
        with self._lock:
            if target.silent < DOUBT_AFTER:
                return True
            if len(target.trying) < GIVE_UP_AFTER:
                target.trying.add(call)
            return call in target.trying

    def found(self, request: LMRequest) -> None:
        """The ledger has answered: the model did once, which says little of now."""
        with self._lock:
            target = self._target(request)
            target.answered, target.row = True, max(0.0, target.row - KEPT_WORTH)

    def tried(self, request: LMRequest, error: LMError) -> None:
        """An attempt has failed, before it is charged: whoever then finds the budget used up is told why."""
        with self._lock:
            target = self._target(request)
            target.last = error
            target.requests += 1

    def failed(self, request: LMRequest, error: LMError) -> None:
        """A call has failed for good. A prompt that is too long says nothing about the provider."""
        if error.kind == "too_long":
            return
        with self._lock:
            target = self._target(request)
            target.failed += 1
            target.row += 1
            target.last = error
            # A model that has answered may be back soon: one disturbance fails all calls that are in flight.
            enough = GIVE_UP_AFTER + (len(self._ledger.flights) - target.held if target.answered else 0)
            if target.row >= enough and not target.down:
                said = "calls in a row failed" if target.answered else "calls failed, none succeeded"
                kept = (_KEPT if error.passing else _TO_MEND).format(self._ledger.path)
                retried = f" ({target.requests} requests, retries included)" if target.requests > target.failed else ""
                target.down = f"{target.failed} {said}{retried}; the last one: {error}; {kept}"

    def explain(self, request: LMRequest, end: BudgetExhausted) -> BudgetExhausted | ProviderDown:
        """What a user has to know when the budget has ended: the failures, where these have used it up."""
        target = self._target(request)
        if target.last is None or (target.answered and not target.failed):
            return end
        said = f"{request.model} answered no call"
        if target.answered:
            said = f"the last calls to {request.model} failed ({target.failed} in a row)"
        said = f"{said} before the budget ended ({end}); the last failure: {target.last}"
        if target.answered and target.failed < GIVE_UP_AFTER:
            return BudgetExhausted(said)
        return ProviderDown(said)

    def _target(self, request: LMRequest) -> _Target:
        return self._targets[request.endpoint, request.model]
