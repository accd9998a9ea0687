"""Records of many traces mixed; what is too much for memory waits in a temporary file."""

from __future__ import annotations

import marshal
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

from labeled_traces.trace import JSON

LARGEST = 48_000_000
"""Bytes in memory."""


class SpanStore:
    """Takes (place, record) pairs, records of JSON's types alone, and gives them back by where they lie."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._room = largest
        self._kept: list[bytes] = []
        self._ends = [0]
        self._file: Any = None

    def put(self, where: str, record: JSON) -> int:
        """Where it lies now."""
        raw = marshal.dumps((where, record))  # in two thirds of pickle's time
        if self._file is None and len(raw) <= self._room:
            self._room -= len(raw)
            self._kept.append(raw)
            return len(self._kept) - 1
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
            weakref.finalize(self, self._file.close)
        self._file.write(raw)
        self._ends.append(self._ends[-1] + len(raw))
        return len(self._kept) + len(self._ends) - 2

    def get(self, places: list[int]) -> Iterator[tuple[str, Any]]:
        """When all have been put."""
        for place in places:
            behind = place - len(self._kept)
            yield marshal.loads(self._kept[place] if behind < 0 else self._read(behind))  # its own words alone

    def _read(self, number: int) -> bytes:
        start, end = self._ends[number : number + 2]
        self._file.seek(start)
        raw: bytes = self._file.read(end - start)
        return raw
