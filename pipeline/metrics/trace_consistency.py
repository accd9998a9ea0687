"""Consistency of one trace's repeats: its part of alpha and of the scores' standard deviation.

Alpha is 1 - observed / expected disagreement (`alpha`). The observed one is a mean over traces, so with the expected
one held fixed a rise of the mean `agreement` is a rise of alpha, and traces can be paired.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from labeled_traces.label import SCORES
from pipeline.metrics.cell import Cell
from pipeline.metrics.table import MatchTable

MOST_STD = (max(SCORES) - min(SCORES)) / math.sqrt(2)
"""The largest standard deviation (n - 1) that scores can have: two repeats at the two ends of the scale."""


@dataclass(frozen=True)
class TraceConsistency:
    """Of the usable repeats of one trace, at least two.

    `agreement`: share of pairs of repeats that agree on "there is an error". `std`: standard deviation (n - 1) of the
    scores; `not_applicable` counts as the best score, since it reports nothing. `locked_in`: share of pairs of repeats
    that agree with each other and not with people, None where people's view is unknown: consistency that is a bias.
    """

    agreement: float
    std: float
    locked_in: float | None

    @property
    def value(self) -> float:
        """One number in [0, 1]: the mean of the agreement and of 1 - std / its largest value."""
        return (self.agreement + 1 - self.std / MOST_STD) / 2


def trace_consistency(table: MatchTable, dimension: str) -> dict[str, TraceConsistency | None]:
    """Each trace's consistency; None with fewer than two usable repeats."""
    table = table.of(dimension)
    read: dict[str, list[Cell]] = {trace_id: [] for trace_id in table.trace_ids}
    for (trace_id, _, _), cell in table.cells.items():
        if cell.usable:
            read[trace_id].append(cell)
    return {
        row.trace_id: _consistency(read[row.trace_id], _has_error(bool(row.errors_of(dimension)), bool(clean)))
        for row, clean in zip(table.rows, table.clean, strict=True)
    }


def _has_error(labelled: bool, clean: bool) -> bool | None:
    """What people say, None where they do not."""
    return labelled if labelled or clean else None


def _consistency(cells: Sequence[Cell], has_error: bool | None) -> TraceConsistency | None:
    if len(cells) < 2:
        return None
    reported = sum(bool(cell.findings) for cell in cells)
    silent = len(cells) - reported
    pairs = math.comb(len(cells), 2)
    wrong = None if has_error is None else math.comb(silent if has_error else reported, 2) / pairs
    return TraceConsistency(
        agreement=(math.comb(reported, 2) + math.comb(silent, 2)) / pairs,
        std=statistics.stdev(max(SCORES) if cell.score is None else cell.score for cell in cells),
        locked_in=wrong,
    )
