"""How many labels the judges find, where they point, and how much else they report: coverage, localization,
precision, false alarms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labeled_traces.label import Impact
from pipeline.matching import Floats, Ints
from pipeline.metrics.bootstrap import Statistic, ratio
from pipeline.metrics.table import Bools, MatchTable


def detection(table: MatchTable) -> dict[str, Statistic]:
    """Numerators and denominators are summed over repeats; see `table` for the counting rules.

    `f1` is the harmonic mean of localization and of the share of findings that are matched and cite the label's span.
    """
    identified, localized, near = (any_judge(hits) for hits in (table.identified, table.localized, table.near))
    clean = clean_readings(table)
    flagged = clean & (table.n_findings.sum(axis=1) > 0)
    recall = _share(table, localized, table.has_span)
    precision = _of_findings(table.localized, table, table.n_placeable)
    statistics = {
        "coverage": _share(table, identified, table.decidable),
        "localization": recall,
        "localization_lenient": _share(table, near, table.has_span),
        "precision": _of_findings(table.identified, table, table.n_decided),
        "false_alarms": Statistic(
            _columns(flagged.sum(axis=1), clean.sum(axis=1)), ratio, int(clean.any(axis=1).sum()), no_clean(table)
        ),
        "f1": Statistic(np.hstack([recall.columns, precision.columns]), _harmonic_mean, recall.n, recall.reason),
    }
    for impact in reversed(Impact):
        chosen = table.decidable & (table.impacts == impact)
        statistics[f"coverage_{impact}"] = _share(table, identified, chosen, f" of {impact} impact")
    return statistics | scored_share(table)


def scored_share(table: MatchTable) -> dict[str, Statistic]:
    """The share of judgments that can be used."""
    asked, usable = (cells.sum(axis=(1, 2)) for cells in (table.asked, table.usable))
    return {"scored_share": Statistic(_columns(usable, asked), ratio, int(asked.sum()), "no judgments")}


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
    np.add.at(sums, table.label_rows, marks.sum(axis=tuple(range(1, marks.ndim))))
    return sums


def no_clean(table: MatchTable) -> str:
    """Why there is no clean reading."""
    return "no usable judgment of a clean trace" if table.clean.any() else "no clean traces"


def no_labels(table: MatchTable, chosen: Bools, what: str = "") -> str:
    """Why none of the chosen labels (L) counts."""
    if chosen.any():
        return "no usable judgment of a trace with such labels"
    return f"no labels{what or (' with a span' if table.labels else '')}"


def _share(table: MatchTable, hits: Bools, chosen: Bools, what: str = "") -> Statistic:
    """Hits (L, R) among the chosen labels (L) that count."""
    labels = any_judge(table.counted) & chosen[:, None]
    columns = _columns(per_trace(table, hits & labels), per_trace(table, labels))
    return Statistic(columns, ratio, int(labels.any(axis=1).sum()), no_labels(table, chosen, what))


def _of_findings(hits: Bools, table: MatchTable, findings: Ints) -> Statistic:
    """Hits (L, D, R) among findings (T, D, R): each hit is one finding."""
    findings = findings.sum(axis=(1, 2))
    return Statistic(_columns(per_trace(table, hits), findings), ratio, int(findings.sum()), "no findings")


def _harmonic_mean(sums: Floats) -> Floats:
    """Of columns 0 / 1 and 2 / 3, where no finding (column 3) finds nothing."""
    recall, precision = ratio(sums[:, :2]), np.nan_to_num(ratio(sums[:, 2:]))
    total = recall + precision
    return 2 * recall * precision / np.where(total == 0, 1, total)


def _columns(numerator: Floats | Ints, denominator: Floats | Ints) -> Floats:
    return np.column_stack([numerator, denominator]).astype(np.float64)
