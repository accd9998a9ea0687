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
_SIZE = 8
"""Bytes that say how many follow."""


class SpanStore:
    """Takes (place, record) pairs, records of JSON's types alone, and gives them back by where they lie."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(max_size=largest)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def put(self, where: str, record: JSON) -> int:
        """Where it lies now."""
        at: int = self._file.tell()
        raw = marshal.dumps((where, record))  # in two thirds of pickle's time
        self._file.write(len(raw).to_bytes(_SIZE))
        self._file.write(raw)
        return at

    def get(self, places: list[int]) -> Iterator[tuple[str, Any]]:
        """When all have been put."""
        for at in places:
            self._file.seek(at)
            yield marshal.loads(self._file.read(int.from_bytes(self._file.read(_SIZE))))  # its own words alone
