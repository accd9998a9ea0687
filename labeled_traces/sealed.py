"""What only the held-out traces say, and whether a text says it too.

Three signs of a copy, whatever form it has (see `readings`): the text names a test trace, as its example or by an id
that is no word; it has a run of words of one (how they are written does not count, see `copied_runs`); or it has, close
together, several numbers and ids that only this trace holds, so that another order of keys, YAML, prose or the loss of
the keys hide nothing. What the development
split says as well (instructions, tools, policies) is no sign.

Measured on 52 real runs and 400 simulated ones, each split three times, with 1,000 texts of judges (the shipped ones,
and those that a search wrote): no false alarm. The numbers and ids of a test trace alone: see `POINTS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from labeled_traces.copied_text import said_in, words_of
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.disguises import readings, without_marks
from labeled_traces.split import LeakageError
from labeled_traces.trace import text_hash
from labeled_traces.word_hashes import Hashes, WordHashes

WORDS = 8
"""A run of so many words is a copy."""
POINTS = 4
"""So many points within `WINDOW` words are a copy: an id or number that only test traces hold has two from five
characters on, one if it has three or four. Ordinary texts of judges have no more than two."""
WINDOW = 60
_SOURCE = re.compile(
    r"""\btrace_?[iI][dD][\\"']*\s*[:=]\s*"""
    r"""(?:(?P<json>"(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|\\*["'](?P<quoted>[^"'\\]*)|(?P<bare>[^\s"',;}\]]+))"""
)
TELLING_ID = 8
"""An id of a trace is no word, and is known anywhere, if it has so many letters and digits, of which one is a digit."""
REMEDY = (
    "take it out, write it anew in general words, or take it from a development trace; what is no secret of that trace "
    "(instructions, a policy) passes as soon as the development split holds it too"
)
Places: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True)
class Leak:
    """`what` says it all in words: which text holds what of which trace."""

    trace_id: str
    what: str


@dataclass(frozen=True)
class Seal:
    """`names`: the words of a telling id -> the id. `runs`: sorted numbers of all runs of words that only test traces
    have, with the positions of these in `ids`; `telling`: number or id -> the test traces that have it."""

    ids: Mapping[str, int]
    names: Mapping[tuple[str, ...], str]
    words: int
    runs: Hashes
    places: Places
    telling: Mapping[str, tuple[str, ...]]
    hashes: WordHashes
    _passed: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, testset: Dataset, known: Iterable[LabeledTrace] = (), words: int = WORDS) -> Seal:
        """`known`: the development split. `words`: see `WORDS`."""
        read = _Reader(words)
        found, telling = list[Hashes](), dict[str, list[str]]()
        for row in testset:
            own, ids = read.row(row)
            found.append(own)
            for word in ids:
                telling.setdefault(word, []).append(row.trace_id)
        runs = np.concatenate([*found, _NONE])
        places = np.repeat(np.arange(len(found), dtype=np.int32), [len(own) for own in found])
        names, of_name = np.unique(runs, return_inverse=True)
        common = np.zeros(len(names), np.bool_)
        for row in known:
            own, ids = read.row(row)
            at = np.searchsorted(names, own)
            common[at[names[np.minimum(at, len(names) - 1)] == own] if len(names) else at[:0]] = True
            for word in ids:
                telling.pop(word, None)
        order = np.argsort(runs, kind="stable")
        order = order[~common[of_name[order]]]
        positions = {trace_id: number for number, trace_id in enumerate(testset.ids)}
        owners = {word: tuple(own) for word, own in telling.items()}
        named = {tuple(words_of(trace_id)): trace_id for trace_id in testset.ids if is_telling(trace_id)}
        return cls(positions, named, words, runs[order], places[order], owners, read.hashes)

    def check(self, texts: Mapping[str, str], least: int | None = None) -> None:
        """`texts`: name -> text. `least`: a longer run of words than `words`, of texts about other traces of the agent.

        Raises:
            LeakageError: a text was copied from a test trace; names the text, the trace and what was copied.
        """
        for name, text in texts.items():
            known = text_hash(f"{least} {text}")
            if known not in self._passed:
                for leak in self.leaks({name: text}, least):
                    raise LeakageError(f"{leak.what}: {REMEDY}")
                self._passed.add(known)

    def leaks(self, texts: Mapping[str, str], least: int | None = None) -> Iterator[Leak]:
        """Each test trace that a text was copied from, with the first thing that says so."""
        for name, text in texts.items():
            leaks: dict[str, Leak] = {}
            for reading in readings(text):
                words = words_of(reading)
                told = () if least else self._told(name, words)
                for leak in (*self._named(name, reading), *told, *self._copied(name, words, least or self.words)):
                    leaks.setdefault(leak.trace_id, leak)
            yield from leaks.values()

    def _named(self, name: str, text: str) -> Iterator[Leak]:
        for found in _SOURCE.finditer(text):
            source = (found["quoted"] or found["bare"] or json.loads(found["json"] or '""', strict=False)).strip()
            if source in self.ids:
                yield Leak(source, f"{name} holds an example of the held-out trace {source!r}")

    def _told(self, name: str, words: Sequence[str]) -> Iterator[Leak]:
        for length in {len(own) for own in self.names}:
            for start in range(len(words) - length + 1):
                if (source := self.names.get(tuple(words[start : start + length]))) is not None:
                    yield Leak(source, f"{name} names the held-out trace {source!r}")

    def _copied(self, name: str, words: Sequence[str], least: int) -> Iterator[Leak]:
        traces = list(self.ids)
        if len(words) >= self.words and len(self.runs):
            runs = self.hashes.of(words, self.words)
            low, high = (np.searchsorted(self.runs, runs, side) for side in ("left", "right"))
            since: dict[int, tuple[int, int]] = {}  # place -> where its run of words began, where it was seen last
            for start in np.flatnonzero(high > low).tolist():
                for place in self.places[low[start] : high[start]].tolist():
                    first, last = since.get(place, (start, start))
                    since[place] = first, last = (first if last >= start - 1 else start), start
                    if last - first == least - self.words:
                        run = " ".join(words[first : first + least])
                        said = f"{name} holds {least} words in a row of the held-out trace {traces[place]!r}: {run!r}"
                        yield Leak(traces[place], said)
        spots: dict[str, list[tuple[int, str]]] = {}
        for spot, word in enumerate(words):
            for owner in self.telling.get(word, ()):
                spots.setdefault(owner, []).append((spot, word))
        for owner, found in spots.items():
            if (near := _close_together(found)) is not None:
                holds = f"{name} holds, close together, numbers or ids of the held-out trace"
                yield Leak(owner, f"{holds} {owner!r}: {', '.join(near)}")


def _close_together(found: Sequence[tuple[int, str]]) -> list[str] | None:
    for start, (spot, _) in enumerate(found):
        near = dict.fromkeys(word for place, word in found[start:] if place < spot + WINDOW)
        if sum(1 + (len(word) >= _LONG) for word in near) >= POINTS:
            return list(near)
    return None


_SHORT, _LONG = 3, 5
_MOST_TEXTS = 5_000
_NONE: Hashes = np.zeros(0, np.uint64)


class _Reader:
    """What rows say: runs of words, and numbers and ids. Conversations repeat from span to span, instructions from row
    to row."""

    def __init__(self, words: int) -> None:
        self.hashes = WordHashes()
        self._words = words
        self._text = lru_cache(maxsize=_MOST_TEXTS)(self._read)

    def row(self, row: LabeledTrace) -> tuple[Hashes, frozenset[str]]:
        """Each run once, sorted; the numbers and ids."""
        read = [self._text(text) for text in said_in([row])[row.trace_id]]
        runs = np.unique(np.concatenate([_NONE, *(runs for runs, _ in read)]))
        return runs, frozenset[str]().union(*(ids for _, ids in read))

    def _read(self, text: str) -> tuple[Hashes, frozenset[str]]:
        """As it stands, and as it is copied from a page or a list."""
        said = [words_of(text)]
        if (bare := without_marks(text)) != text and (words := words_of(bare)) != said[0]:
            said.append(words)
        runs = [self.hashes.of(words, self._words) for words in said if len(words) >= self._words]
        ids = frozenset(word for words in said for word in words if len(word) >= _SHORT and _number(word))
        return np.concatenate([_NONE, *runs]), ids


def is_telling(trace_id: str) -> bool:
    """Whether it is no word: see `TELLING_ID`."""
    words = words_of(trace_id)
    return sum(map(len, words)) >= TELLING_ID and any(map(_number, words))


def _number(word: str) -> bool:
    return any(map(str.isdigit, word))
