"""One number per trace: what an optimiser compares candidates by."""

from __future__ import annotations

from pipeline.metrics.cell import Cell
from pipeline.metrics.table import MatchTable


def trace_scores(table: MatchTable, dimension: str) -> dict[str, float | None]:
    """Each trace's soft F1 in [0, 1], mean over repeats; None without a usable judgment or
    where people did not say which errors there are.

    2 * credit / (labels + findings): a match that cites the label's span (or whose label has none) counts 1, a match
    that does not 0.5. No label and no finding is 1.
    """
    scores: dict[str, list[float]] = {name: [] for name in table.trace_ids}
    for (name, _, _), cell in table.of(dimension).cells.items():
        if cell.usable and cell.complete:
            scores[name].append(_soft_f1(cell, table.needs_span))
    return {name: sum(values) / len(values) if values else None for name, values in scores.items()}


def _soft_f1(cell: Cell, needs_span: bool) -> float:
    labels = sum(error.span_id is not None or not needs_span for error in cell.errors)
    if labels + len(cell.findings) == 0:
        return 1.0
    credit = len(cell.pairs) - 0.5 * len(cell.misplaced)
    return 2 * credit / (labels + len(cell.findings))
