"""What is kept of a trace so that a copy of it is known again without it: hashes, never content."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from labeled_traces.copied_text import words_of
from labeled_traces.near_duplicates import OTHER_WORDS, SEVERAL, word_pairs
from labeled_traces.task_group import goal_of
from labeled_traces.trace import Trace, text_hash

Sketch = Mapping[str, Sequence[str | int]]
"""`content`: the pairs of words that are rarest (as in `near_duplicates`); `words`, `numbers`: of its goal."""

SAME_GOAL, LIKE_GOAL = 0.3, 0.92
"""A copy has at least so much of a sketch's content: where the goal is the same but for words more or less, and where
some of its words are others.

Of 52 real runs and 400 simulated ones, copies without their last 30 % have 0.35 or more, copies with 3 % of their words
changed 0.85; real runs of other tasks at most 0.15, simulated ones of a goal with other words at most 0.90.
"""
_MOST = 48


def sketches(traces: Sequence[Trace]) -> list[Sketch]:
    """One for each, by what is rare among them."""
    if not traces:
        return []
    lengths, pairs = word_pairs(traces)
    names, column, count = np.unique(pairs, return_inverse=True, return_counts=True)
    ends = np.cumsum(lengths)
    found: list[Sketch] = []
    for trace, start, end in zip(traces, ends - lengths, ends, strict=True):
        own = column[start:end]
        rarest = own[np.lexsort((names[own], count[own]))][:_MOST]
        found.append({"content": sorted(names[rarest].tolist()), **_goal(trace)})
    return found


class Known:
    """Sketches by names, to be looked up by traces."""

    def __init__(self, sketches: Mapping[str, Sketch]) -> None:
        """Raises: AttributeError, KeyError, TypeError, ValueError, if one is none."""
        self._goals: dict[str, tuple[set[str], set[str]]] = {}
        self._size: dict[str, int] = {}
        self._having: dict[int, list[str]] = {}
        for name, sketch in sketches.items():
            self._goals[name] = {*map(str, sketch["words"])}, {*map(str, sketch["numbers"])}
            self._size[name] = len(sketch["content"])
            for pair in sketch["content"]:
                self._having.setdefault(int(pair), []).append(name)

    def copied(self, trace: Trace) -> set[str]:
        """The names of what the trace is a copy of."""
        hits = Counter[str]()
        for pair in word_pairs([trace])[1].tolist() if self._having else ():
            hits.update(self._having.get(pair, ()))
        goal = _goal(trace) if hits else {}
        return {name for name, hit in hits.items() if hit >= self._size[name] * self._least(goal, name)}

    def _least(self, goal: Sketch, name: str) -> float:
        """Which part of a sketch must be there; more than 1 where the goals are of other tasks."""
        words, numbers = self._goals[name]
        other = _exchanged({*map(str, goal["words"])}, words)
        few = max(OTHER_WORDS * min(len(goal["words"]), len(words)), len(words) >= SEVERAL)
        if other > few or _exchanged({*map(str, goal["numbers"])}, numbers):
            return math.inf
        return LIKE_GOAL if other else SAME_GOAL


def _goal(trace: Trace) -> Sketch:
    words = {text_hash(word)[:8]: any(map(str.isdigit, word)) for word in words_of(goal_of(trace))}
    return {"words": sorted(words), "numbers": sorted(word for word, number in words.items() if number)}


def _exchanged(one: set[str], other: set[str]) -> int:
    return min(len(one - other), len(other - one))
