"""Words as numbers, so that millions of runs of words can be compared."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Hashes: TypeAlias = NDArray[np.uint64]
_STEP, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class WordHashes:
    """Remembers words."""

    def __init__(self) -> None:
        self._words = _Words()

    def of(self, words: Sequence[str], length: int) -> Hashes:
        """A number for each run of so many words; where they are fewer, one for all of them; of none, none."""
        numbers = np.fromiter(map(self._words.__getitem__, words), np.uint64, len(words))
        length = min(length, len(words))
        total = np.zeros(len(words) - length + 1 if length else 0, np.uint64)
        for start in range(length):
            total = total * _STEP + numbers[start : start + len(total)]
        mixed: Hashes = (total ^ (total >> np.uint64(29))) * _MIX
        return mixed


class _Words(dict[str, int]):
    """Word -> a number that is the same everywhere."""

    def __missing__(self, word: str) -> int:
        self[word] = number = zlib.crc32(word.encode("utf-8", "surrogatepass"))
        return number
