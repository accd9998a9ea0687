"""Free-response curves: localization against false alarms per clean trace, as the decision rule is relaxed.

Source: Bunch et al., A free-response approach to the measurement and characterization of radiographic-observer
performance (1978); here the false alarms are counted on clean traces alone, as in Bandos et al. (2009).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from judges.judgment import Finding
from pipeline.matching import Floats
from pipeline.metrics.bootstrap import Statistic
from pipeline.metrics.detection import any_judge, clean_readings, no_clean, no_labels, per_trace
from pipeline.metrics.table import MatchTable

RATES = (0.1, 0.25, 0.5, 1.0)
"""False alarms per clean trace at which localization is given."""


def free_response(table: MatchTable) -> dict[str, Statistic]:
    """`froc_area`: the area under the curve up to one false alarm per clean trace, in [0, 1]; and
    `localization_at_<rate>`: localization at fixed rates of false alarms.

    The curve starts at (0, 0), is linear between thresholds, and flat after its last point.
    """
    columns = _columns(table)
    n = int(columns[:, -2].astype(bool).sum())
    reason = no_labels(table, table.has_span) if columns[:, -1].any() else no_clean(table)
    statistics = {"froc_area": Statistic(columns, _area, n, reason)}
    for rate in RATES:
        statistics[f"localization_at_{rate:g}"] = Statistic(columns, partial(_at, rate), n, reason)
    return statistics


def curve(table: MatchTable) -> list[tuple[float, float]]:
    """The points (false alarms per clean trace, localization) from the strictest threshold to the laxest, for plots.

    Empty where there are no clean traces or no labels with a span.
    """
    x, y = _curves(_columns(table).sum(axis=0, keepdims=True))
    return [] if np.isnan([x, y]).any() else list(zip(x[0].tolist(), y[0].tolist(), strict=True))


def rank(finding: Finding) -> int:
    """How sure a finding is: severity first, then confidence."""
    return int(finding.severity) * 1000 + finding.confidence


def _columns(table: MatchTable) -> Floats:
    """(T, 2 K + 2): localized labels and false alarms at each of K thresholds (strict to lax), labels, clean traces;
    each summed over repeats."""
    clean = clean_readings(table)
    labels = any_judge(table.counted) & table.has_span[:, None]
    best = np.zeros(labels.shape, dtype=np.intp)
    for (label, d, r), finding in table.matched():
        if table.localized[label, d, r]:
            best[label, r] = max(best[label, r], rank(finding))
    alarms = [
        (t, rank(finding)) for (t, _, r), cell in table.placed_cells() if clean[t, r] for finding in cell.findings
    ]
    thresholds = np.array(
        sorted({*best[best > 0].tolist(), *(level for _, level in alarms)}, reverse=True), dtype=np.intp
    )
    hits = [per_trace(table, (best >= level) & labels) for level in thresholds]
    steps = np.zeros((len(table.rows), len(thresholds)))
    for t, level in alarms:
        steps[t, np.searchsorted(-thresholds, -level)] += 1
    return np.column_stack([*hits, np.cumsum(steps, axis=1), per_trace(table, labels), clean.sum(axis=1)])


def _curves(sums: Floats) -> tuple[Floats, Floats]:
    """(m, 2 K + 2) sums to x and y of shape (m, K + 1); NaN where a denominator is 0."""
    thresholds = (sums.shape[1] - 2) // 2
    hits, alarms = sums[:, :thresholds], sums[:, thresholds:-2]
    denominators = np.where(sums[:, -2:] > 0, sums[:, -2:], np.nan)
    start = np.zeros((len(sums), 1))
    x = np.hstack([start, alarms]) / denominators[:, 1:]
    y = np.hstack([start, hits]) / denominators[:, :1]
    return x, y


def _area(sums: Floats) -> Floats:
    """The area under each curve from 0 to 1."""
    x, y = _curves(sums)
    left, right = np.minimum(x[:, :-1], 1), np.minimum(x[:, 1:], 1)
    width = x[:, 1:] - x[:, :-1]
    reached = np.divide(right - x[:, :-1], width, out=np.ones_like(width), where=width > 0)
    end = y[:, :-1] + np.clip(reached, 0, 1) * (y[:, 1:] - y[:, :-1])
    flat = np.maximum(1 - x[:, -1], 0) * y[:, -1]
    area: Floats = ((right - left) * (y[:, :-1] + end) / 2).sum(axis=1) + flat
    return area


def _at(rate: float, sums: Floats) -> Floats:
    """Each curve's height at this rate."""
    x, y = _curves(sums)
    undefined = np.isnan(x[:, 0] + y[:, 0])
    heights = [np.nan if gap else np.interp(rate, xs, ys) for xs, ys, gap in zip(x, y, undefined, strict=True)]
    return np.array(heights, dtype=np.float64)
