"""Copies of a run that are not quite equal: other ids, one more field, a word changed here and there, a lost end.

TF-IDF and not MinHash: compared are the pairs of neighbouring words of all that happened, each with the weight
ln((1 + n) / df) ** 2, so that what all n runs of one agent share (instructions, tools) weighs next to nothing. MinHash
estimates the share of all pairs. Measured on 52 real runs of a customer service (tau-bench) and 400 simulated ones:

                                            weight in common      share of all pairs (MinHash)
    copies, 5 % of the words changed        0.80 to 1.00          not measured
    copies without their last 30 to 50 %    1.00                  0.69 to 0.98
    runs of other tasks, real               at most 0.57          0.31 to 0.74
    runs of other tasks, simulated          at most 0.94 (0.67)   0.63 to 0.99

In brackets: of those that were given the same goal but for a few words, no number among them. The simulated tasks are
variants of few templates ("the top 2 banks in 2020", "the top 3 ..."), so runs of two of them may differ in one number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from labeled_traces.copied_text import words_of
from labeled_traces.json_values import decoded
from labeled_traces.task_group import goal_of
from labeled_traces.trace import JSON, Trace
from labeled_traces.word_hashes import WordHashes

SHARED = 0.75
"""Near-duplicates share at least so much of the weight of the lighter one."""
OTHER_WORDS = 0.15
"""Goals of near-duplicates: at most this share of the words of each, or one of four or more, is not in the other."""

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
_MOST_PAIRS = 1 << 22
"""Of words, in all runs together: where there are more, the same part of all is left out."""
SEVERAL = 4
_RAREST = 64
"""So many of a run's rarest pairs of words find it its candidates."""
_JSON_VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"(?!\s*:)|([^\s"{}\[\],:]+)')
_MOST_TEXTS = 20_000
_BLOCK = 256
_CHUNK = 2048
_STEPS = (0, 1, 8, 64, None)
"""A run's candidates are compared the likeliest first; who is connected by then is not compared any more."""


@dataclass(frozen=True)
class Near:
    """Positions of two runs, and the share of the lighter one's weight that they have in common (0 to 1)."""

    first: int
    second: int
    shared: float


def near_duplicates(traces: Sequence[Trace]) -> tuple[Near, ...]:
    """Pairs that connect all near-duplicates, over any number of steps. What nearly all of the runs are copies of is
    taken for boilerplate.

    Two runs are near-duplicates if at least `SHARED` of what weighs in the lighter one is in the other (so that a lost
    end does not count), and if they were given the same goal: at most a share of `OTHER_WORDS` of its words exchanged,
    and no number.
    """
    if len(traces) < 2:
        return ()
    runs = _Runs.of(traces)
    goals = _Goals.of(traces)
    parent = np.arange(len(traces))
    found: list[Near] = []
    for first, second in runs.candidates():
        apart = _tops(parent, first) != _tops(parent, second)
        first, second = first[apart], second[apart]
        alike = goals.alike(first, second)
        first, second = first[alike], second[alike]
        for i, j, shared in zip(first.tolist(), second.tolist(), runs.shared(first, second).tolist(), strict=True):
            one, other = _tops(parent, np.array([i, j]))
            if shared >= SHARED and one != other:
                parent[other] = one
                found.append(Near(i, j, shared))
    return tuple(found)


def _tops(parent: Ints, of: Ints) -> Ints:
    """For each position the one that stands for all that it is connected with."""
    top = parent[of]
    while (parent[top] != top).any():
        top = parent[top]
    parent[of] = top
    return top


@dataclass(frozen=True)
class _Runs:
    """`has`: run x pair of words, 1 where it is there; `weights`: the same with weights. `light`: a run's weight;
    `common`: whether a pair of words is in several runs."""

    has: Any
    weights: Any
    light: Floats
    common: NDArray[np.bool_]

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> _Runs:
        from scipy import sparse

        lengths, pairs = word_pairs(traces)
        names, columns, frequency = np.unique(pairs, return_inverse=True, return_counts=True)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        weight = np.square(np.log((1 + len(traces)) / frequency)).astype(np.float32)
        shape = (len(traces), len(names))
        has = sparse.csr_matrix((np.ones(len(columns), np.float32), columns.astype(np.int32), starts), shape=shape)
        weights = sparse.csr_matrix((weight[has.indices], has.indices, has.indptr), shape=shape)
        return cls(has, weights, np.asarray(weights.sum(axis=1), np.float64).ravel(), frequency > 1)

    def candidates(self) -> Iterator[tuple[Ints, Ints]]:
        """Lighter and heavier runs that share one of the lighter one's rarest pairs of words; the likeliest first."""
        rare, runs_with = self._rarest(), self.has.T.tocsr()
        for start in range(0, len(self.light), _BLOCK):
            shared = (rare[start : start + _BLOCK] @ runs_with).tocoo()
            first, second = shared.row.astype(np.int64) + start, shared.col.astype(np.int64)
            order = np.lexsort((second, -shared.data, first))
            first, second = first[order], second[order]
            lighter = (self.light[first] < self.light[second]) | (
                (self.light[first] == self.light[second]) & (first < second)
            )
            first, second = first[lighter], second[lighter]
            rank = np.arange(len(first)) - np.searchsorted(first, first)
            for low, high in pairwise(_STEPS):
                some = (rank >= (low or 0)) & (rank < (high or len(self.light)))
                for chunk in range(0, int(some.sum()), _CHUNK):
                    yield first[some][chunk : chunk + _CHUNK], second[some][chunk : chunk + _CHUNK]

    def _rarest(self) -> Any:
        """`has`, with those alone that find a run its near-duplicates: the rarest, up to the weight that these need not
        share, and of them those that another run has too."""
        from scipy import sparse

        columns, starts = [], [0]
        for run in range(len(self.light)):
            row = slice(self.weights.indptr[run], self.weights.indptr[run + 1])
            names, weight = self.weights.indices[row], self.weights.data[row]
            order = np.argsort(-weight, kind="stable")
            names, weight = names[order], weight[order]
            needed = np.cumsum(weight) - weight <= (1 - SHARED) * self.light[run]
            chosen = names[needed & self.common[names]][:_RAREST]
            columns.append(chosen)
            starts.append(starts[-1] + len(chosen))
        indices = np.concatenate(columns)
        return sparse.csr_matrix((np.ones(len(indices), np.float32), indices, starts), shape=self.has.shape)

    def shared(self, first: Ints, second: Ints) -> Floats:
        """The share of the first run's weight that is in the second."""
        common = np.asarray(self.weights[first].multiply(self.has[second]).sum(axis=1), np.float64).ravel()
        return common / np.maximum(self.light[first], 1e-12)


@dataclass(frozen=True)
class _Goals:
    """`words`: goal x word, 1 where it is there; `numbers`: the same of words with a digit."""

    words: Any
    numbers: Any

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> _Goals:
        from scipy import sparse

        goals = [set(words_of(goal_of(trace))) for trace in traces]
        columns = {word: number for number, word in enumerate(sorted(set().union(*goals)))}
        lines = [(run, columns[word]) for run, goal in enumerate(goals) for word in goal]
        rows, cells = np.array(lines or [(0, 0)]).T
        ones = np.ones(len(rows), np.float32) if lines else np.zeros(1, np.float32)
        words = sparse.csr_matrix((ones, (rows, cells)), shape=(len(goals), max(1, len(columns))))
        digits = np.array([any(map(str.isdigit, word)) for word in columns] or [False])
        return cls(words, words[:, digits])

    def alike(self, first: Ints, second: Ints) -> NDArray[np.bool_]:
        """Whether the goals are the same but for a few words. More of them is not other ones."""
        exchanged, fewest = _exchanged(self.words, first, second)
        numbers, _ = _exchanged(self.numbers, first, second)
        few: NDArray[np.bool_] = exchanged <= np.maximum(OTHER_WORDS * fewest, fewest >= SEVERAL)
        few[numbers > 0] = False
        return few


def _exchanged(table: Any, first: Ints, second: Ints) -> tuple[Floats, Floats]:
    """How many of either's words the other has not, the lower number of the two; how many words the shorter has."""
    size = np.asarray(table.sum(axis=1), np.float64).ravel()
    common = np.asarray(table[first].multiply(table[second]).sum(axis=1), np.float64).ravel()
    fewest = np.minimum(size[first], size[second])
    return fewest - common, fewest


def word_pairs(traces: Sequence[Trace]) -> tuple[Ints, NDArray[np.uint32]]:
    """Of each run how many pairs of words it has, and all of them (their hashes), run after run."""
    hashes = WordHashes()

    @lru_cache(maxsize=_MOST_TEXTS)
    def hashed(text: str) -> NDArray[np.uint32]:
        return (hashes.of(words_of(text), 2) >> np.uint64(32)).astype(np.uint32)

    every, total = 1, 0
    found: list[NDArray[np.uint32]] = []
    for trace in traces:
        texts = [hashed(text) for text in dict.fromkeys(_said(trace))]
        found.append(np.unique(np.concatenate([*texts, np.zeros(0, np.uint32)])))
        found[-1] = found[-1][found[-1] % every == 0]
        total += len(found[-1])
        while total > _MOST_PAIRS:
            every *= 2
            found = [pairs[pairs % every == 0] for pairs in found]
            total = sum(map(len, found))
    return np.array([len(pairs) for pairs in found]), np.concatenate(found)


def _said(trace: Trace) -> Iterator[str]:
    """All texts of a run, of JSON in a text those that are in it, without the names of fields."""
    stack: list[JSON] = [value for span in reversed(trace.spans) for value in (span.error, span.outputs, span.inputs)]
    while stack:
        value = decoded(stack.pop())
        if isinstance(value, dict):
            stack += reversed(value.values())
        elif isinstance(value, list):
            stack += reversed(value)
        elif isinstance(value, str) and value.lstrip()[:1] in ("{", "["):  # JSON that is cut off or was changed
            yield from (text or bare for text, bare in _JSON_VALUE.findall(value))
        elif value is not None:
            yield str(value)
