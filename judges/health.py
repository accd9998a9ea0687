"""A provider that has died costs a few failed calls, not one for each call that is left."""

from __future__ import annotations

import threading
from collections import Counter

from judges.ledger_store import Ledger
from judges.lm import BudgetExhausted, LMError, LMRequest, ProviderDown

GIVE_UP_AFTER = 8
"""So many calls in a row that fail, each with all its retries."""
_KEPT = "every reply so far is kept in the ledger {}: start the same command again to go on"


class Health:
    """Counts the failures in a row of each model at each endpoint, over all loops and threads that share it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._failures: Counter[tuple[str, str]] = Counter()
        self._answered: set[tuple[str, str]] = set()
        self._last: dict[tuple[str, str], LMError] = {}
        self._down: dict[tuple[str, str], str] = {}

    def check(self, request: LMRequest) -> None:
        """
        Raises:
            ProviderDown: the model has failed too often to be asked again.
        """
        if (why := self._down.get(_target(request))) is not None:
            raise ProviderDown(why)

    def answered(self, request: LMRequest) -> None:
        """Now, or in an earlier attempt of the run: when that is resumed, all that is sent is what failed then, and
        what fails for ever must not look like a provider that is down."""
        with self._lock:
            self._answered.add(_target(request))
            self._failures[_target(request)] = 0

    def failed(self, request: LMRequest, error: LMError) -> None:
        """A call has failed for good. A prompt that is too long says nothing about the provider."""
        if error.kind == "too_long":
            return
        target = _target(request)
        with self._lock:
            self._failures[target] += 1
            self._last[target] = error
            # A model that has answered may be back soon: one disturbance fails all calls that are in flight.
            enough = GIVE_UP_AFTER + (len(self._ledger.flights) if target in self._answered else 0)
            if self._failures[target] >= enough:
                self._down.setdefault(target, self._why(target, error))

    def explain(self, request: LMRequest, end: BudgetExhausted) -> None:
        """Where nothing but failures has used up the budget, these are what a user has to know.

        Raises:
            ProviderDown: the model has not answered once.
        """
        target = _target(request)
        if self._failures[target] and target not in self._answered:
            said = f"{request.model} answered no call before the budget ended ({end})"
            raise ProviderDown(f"{said}; the last failure: {self._last[target]}") from end

    def _why(self, target: tuple[str, str], error: LMError) -> str:
        count = self._failures[target]
        said = f"{count} calls in a row failed" if target in self._answered else f"{count} calls failed, none succeeded"
        return f"{said}; the last one: {error}; {_KEPT.format(self._ledger.path)}"


def _target(request: LMRequest) -> tuple[str, str]:
    return request.endpoint, request.model
