"""Records of many traces mixed; what is too much for memory waits in a temporary file."""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

from labeled_traces.trace import JSON

LARGEST = 48_000_000
"""Bytes in memory."""


class SpanStore:
    """Takes (place, record) pairs and gives them back by where they lie."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(max_size=largest)  # noqa: SIM115
        weakref.finalize(self, self._file.close)

    def put(self, where: str, record: JSON) -> int:
        """Where it lies now."""
        at: int = self._file.tell()
        pickle.dump((where, record), self._file, protocol=5)
        return at

    def get(self, places: list[int]) -> Iterator[tuple[str, Any]]:
        """When all have been put."""
        for at in places:
            self._file.seek(at)
            yield pickle.load(self._file)  # its own words alone
