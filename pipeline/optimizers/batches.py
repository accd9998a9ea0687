"""The traces of a search as gepa takes them: by their ids, and in minibatches."""

from __future__ import annotations

import random
from collections.abc import Sequence

from labeled_traces.dataset import LabeledTrace


class Rows:
    """Traces by their ids, as a gepa DataLoader: ids are unique over train and val, never list positions."""

    def __init__(self, rows: Sequence[LabeledTrace]) -> None:
        self._rows = {row.trace_id: row for row in rows}

    def all_ids(self) -> Sequence[str]:
        return list(self._rows)

    def fetch(self, ids: Sequence[str]) -> list[LabeledTrace]:
        return [self._rows[trace_id] for trace_id in ids]

    def __len__(self) -> int:
        return len(self._rows)


class Minibatches:
    """Half of each minibatch has labels of the dimension, half has none; no trace is in it twice.

    (gepa's own sampler fills up the last minibatch of an epoch with the same traces again.)
    """

    def __init__(self, rows: Sequence[LabeledTrace], dimension: str, size: int, seed: int) -> None:
        self._draw = random.Random(f"{seed}/minibatches/{dimension}")
        labelled = [row.trace_id for row in rows if row.errors_of(dimension)]
        clean = [row.trace_id for row in rows if not row.errors_of(dimension)]
        n_labelled = min(len(labelled), max(size - len(clean), (size + 1) // 2))
        self._parts = [(labelled, n_labelled), (clean, min(len(clean), size - n_labelled))]
        self._left: list[list[str]] = [[], []]

    def next_minibatch_ids(self, loader: Rows, state: object) -> list[str]:  # noqa: ARG002 (gepa's signature)
        return [trace_id for part in range(2) for trace_id in self._next(part)]

    def _next(self, part: int) -> list[str]:
        ids, count = self._parts[part]
        if len(self._left[part]) < count:
            kept = self._left[part]
            fresh = [trace_id for trace_id in ids if trace_id not in kept]
            self._left[part] = kept + self._draw.sample(fresh, len(fresh))
        taken, self._left[part] = self._left[part][:count], self._left[part][count:]
        return taken
