"""How long a piece of work took, over all attempts at it."""

from __future__ import annotations

import time

from pipeline.run_folder import RunFolder

_SECONDS = "seconds.json"
_UNFINISHED = " unfinished"


class Clock:
    """Times what is done in a `with`, under a name of its own in the run folder.

    Attempts add up until one has `ended`; when that is replayed from the ledger it takes next to no time, so the clock
    stands then. `seconds` is None once an attempt was killed: nobody knows how long that one took.
    """

    def __init__(self, folder: RunFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._known: dict[str, float | None] = folder.read_json(_SECONDS) or {}
        self._replayed = name in self._known
        self.ended = False
        self.seconds = self._known.get(name, self._known.pop(f"{name}{_UNFINISHED}", 0.0))

    def __enter__(self) -> Clock:
        self._start = time.monotonic()
        if not self._replayed:
            # Stands there if this attempt is killed.
            self._save(f"{self._name}{_UNFINISHED}", None)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._replayed:
            self.seconds = add(self.seconds, round(time.monotonic() - self._start, 3))
            self._save(self._name if self.ended else f"{self._name}{_UNFINISHED}", self.seconds)

    def _save(self, name: str, seconds: float | None) -> None:
        self._folder.write_json(_SECONDS, {**self._known, name: seconds})


def add(one: float | None, other: float | None) -> float | None:
    """The sum, None where one of the two is not known."""
    return None if one is None or other is None else round(one + other, 3)
