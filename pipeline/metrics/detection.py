"""How many labels the judges find, where they point, and how much else they report. DESIGN: coverage, localization,
precision, false alarms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labeled_traces.label import Impact
from pipeline.matching import Floats
from pipeline.metrics.bootstrap import Statistic, ratio
from pipeline.metrics.table import Bools, MatchTable


def detection(table: MatchTable) -> dict[str, Statistic]:
    """Numerators and denominators are summed over repeats; see `table` for the counting rules.

    `f1` is the harmonic mean of localization and of the share of findings that are matched and cite the label's span.
    """
    labels = any_judge(table.counted)
    placed = labels & table.has_span[:, None]
    clean = clean_readings(table)
    flagged = table.n_findings.sum(axis=1) > 0
    statistics = {
        "coverage": _share(table, any_judge(table.identified), labels, "no labels"),
        "localization": _share(table, any_judge(table.localized), placed, "no labels with a span"),
        "localization_lenient": _share(table, any_judge(table.near), placed, "no labels with a span"),
        "precision": _of_findings(table, table.identified),
        "false_alarms": Statistic(
            np.column_stack([(flagged & clean).sum(axis=1), clean.sum(axis=1)]).astype(np.float64),
            ratio,
            int(clean.any(axis=1).sum()),
            "no clean traces" if not table.clean.any() else "no usable judgment of a clean trace",
        ),
        "f1": _f1(table, placed),
    }
    for impact in reversed(Impact):
        chosen = labels & (table.impacts == impact)[:, None]
        reason = f"no labels of {impact} impact"
        statistics[f"coverage_{impact}"] = _share(table, any_judge(table.identified), chosen, reason)
    asked, usable = (cells.sum(axis=(1, 2)) for cells in (table.asked, table.usable))
    statistics["scored_share"] = Statistic(
        np.column_stack([usable, asked]).astype(np.float64), ratio, int(asked.sum()), "no judgments"
    )
    return statistics


def any_judge(marks: Bools) -> Bools:
    """(L, D, R) to (L, R): the union over dimensions."""
    return np.asarray(marks.any(axis=1), dtype=np.bool_)


def clean_readings(table: MatchTable) -> Bools:
    """(T, R): a clean trace that every judge of the table read. A reading with a missing judgment is left out, flagged
    or not: to keep only the flagged ones would push the share up."""
    complete = np.asarray(table.usable.all(axis=1), dtype=np.bool_)
    return complete & table.clean[:, None]


def per_trace(table: MatchTable, marks: NDArray[np.bool_]) -> Floats:
    """Sums the marks of each trace's labels: (L, ...) to (T)."""
    sums = np.zeros(len(table.rows))
    np.add.at(sums, table.label_rows, marks.reshape(len(table.labels), -1).sum(axis=1))
    return sums


def _share(table: MatchTable, hits: Bools, labels: Bools, reason: str) -> Statistic:
    """Hits among labels, both (L, R)."""
    n = int(labels.any(axis=1).sum())
    columns = np.column_stack([per_trace(table, hits & labels), per_trace(table, labels)])
    return Statistic(columns, ratio, n, reason)


def _of_findings(table: MatchTable, hits: Bools) -> Statistic:
    """Hits (L, D, R) among findings: each hit is one finding."""
    findings = table.n_findings.sum(axis=(1, 2))
    columns = np.column_stack([per_trace(table, hits), findings])
    return Statistic(columns, ratio, int(findings.sum()), "no findings")


def _f1(table: MatchTable, placed: Bools) -> Statistic:
    recall = _share(table, any_judge(table.localized), placed, "no labels with a span")
    precision = _of_findings(table, table.localized)

    def value(sums: Floats) -> Floats:
        r = ratio(sums[:, :2])
        p = np.nan_to_num(ratio(sums[:, 2:]), nan=0.0)  # no finding finds nothing
        result: Floats = np.where(r + p > 0, 2 * r * p / np.where(r + p > 0, r + p, 1), r * 0)
        return result

    return Statistic(np.hstack([recall.columns, precision.columns]), value, recall.n, recall.reason)
