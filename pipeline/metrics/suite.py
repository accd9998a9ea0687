"""All metrics of a table, of one of its dimensions, and their paired differences between two tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.config import PipelineError
from pipeline.metrics.agreement import over_repeats, with_people
from pipeline.metrics.bootstrap import MetricSettings, Statistic, differences, estimates
from pipeline.metrics.detection import detection, scored_share
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.froc import RATES, free_response
from pipeline.metrics.table import MatchTable

HIGHER_IS_BETTER: dict[str, bool] = {
    "coverage": True,
    "localization": True,
    "localization_lenient": True,
    "precision": True,
    "false_alarms": False,
    "f1": True,
    "froc_area": True,
    **{f"localization_at_{rate:g}": True for rate in RATES},
    "coverage_high": True,
    "coverage_medium": True,
    "coverage_low": True,
    "alpha": True,
    "raw_agreement": True,
    "alpha_scores": True,
    "std": False,
    "agreement": True,
    "agreement_3": True,
    "agreement_2": True,
    "off_by_one": True,
    "kappa": True,
    "alpha_people": True,
    "scored_share": True,
}
"""Metric -> direction. `reported_share`, the class balance, has none."""


def suite_metrics(table: MatchTable, settings: MetricSettings | None = None) -> dict[str, Estimate]:
    """Every metric over all dimensions of the table, with intervals: the keys of `HIGHER_IS_BETTER` + `reported_share`.

    What each means is said where it is computed: `detection`, `free_response`, `over_repeats`, `with_people`.
    """
    return estimates(_statistics(table), table.clusters, settings or MetricSettings())


def dimension_metrics(table: MatchTable, dimension: str, settings: MetricSettings | None = None) -> dict[str, Estimate]:
    """The same metrics for one dimension.

    Raises:
        PipelineError: no judgment of the table is about it.
    """
    return suite_metrics(table.of(dimension), settings)


def paired_differences(
    left: MatchTable, right: MatchTable, settings: MetricSettings | None = None, dimension: str | None = None
) -> dict[str, Estimate]:
    """Each metric of `left` minus that of `right`, with the same resamples for both sides.

    Only what both sides could be read on counts: a judge that fails on the hard traces must not gain by it. Repeats are
    paired in their order. `scored_share` alone is that of all judgments.

    Raises:
        PipelineError: the tables differ in matcher, dimensions, traces, labels or number of repeats.
    """
    if dimension is not None:
        left, right = left.of(dimension), right.of(dimension)
    for what, ours, theirs in (
        ("matcher", left.matcher, right.matcher),
        ("dimensions", left.dimensions, right.dimensions),
        ("traces", sorted(left.trace_ids), sorted(right.trace_ids)),
        ("number of repeats", len(left.repeats), len(right.repeats)),
    ):
        if ours != theirs:
            raise PipelineError(f"the two tables differ in {what}: a difference needs the same on both sides")
    others = {row.trace_id: row for row in right.rows}
    right = replace(right, rows=tuple(others[name] for name in left.trace_ids))
    for row, other in zip(left.rows, right.rows, strict=True):
        if (row.errors, row.scores, row.group) != (other.errors, other.scores, other.group):
            raise PipelineError(f"the two tables differ in the labels or the group of trace {row.trace_id!r}")
    common = left.usable & right.usable
    first, second = ({**_statistics(table.where(common)), **scored_share(table)} for table in (left, right))
    return differences(first, second, left.clusters, settings or MetricSettings())


def length_bands(table: MatchTable, bands: int = 3) -> dict[str, MatchTable]:
    """The table cut by trace length into bands of about equally many traces, shortest first; named `6-9 spans`.

    Traces of one length are never parted, so there may be fewer bands.
    """
    lengths = {row.trace_id: len(row.trace.spans) for row in table.rows}
    cuts = np.quantile(list(lengths.values()) or [0], np.arange(1, bands) / bands)
    parts: dict[int, list[str]] = {}
    for name, length in sorted(lengths.items(), key=lambda item: item[1]):
        parts.setdefault(int(np.searchsorted(cuts, length)), []).append(name)
    return {f"{lengths[names[0]]}-{lengths[names[-1]]} spans": table.subset(set(names)) for names in parts.values()}


def _statistics(table: MatchTable) -> dict[str, Statistic]:
    return {**detection(table), **free_response(table), **over_repeats(table), **with_people(table)}
