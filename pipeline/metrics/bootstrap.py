"""The cluster bootstrap. Every metric is a function of sums over traces, so a resample is one row of weights.

Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), sections 6 and 13 (percentile intervals);
Field and Welsh, Bootstrapping clustered data (JRSS B 69, 2007): whole clusters are drawn. Three traces that agree prove
little, so where all resamples agree the interval is that of 0 of n clusters: Wilson's (JASA 22, 1927), and for a paired
difference of 0 that of Agresti and Min (Statistics in Medicine 24, 2005).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from pipeline.config import PipelineError
from pipeline.matching import Floats
from pipeline.metrics.estimate import Estimate

MAX_DEGENERATE = 0.05
"""The largest share of resamples without a value; beyond it no interval is given."""


@dataclass(frozen=True)
class MetricSettings:
    """`resamples` of whole clusters, drawn with `seed`; the interval holds the share `level` of them."""

    resamples: int = 1000
    seed: int = 0
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.resamples < 2 or not 0 < self.level < 1:
            raise PipelineError(
                f"resamples {self.resamples} and level {self.level}: accepted are 2 or more, and between 0 and 1"
            )


@dataclass(frozen=True)
class Statistic:
    """A metric as a function of sums over traces.

    `columns` (traces, k) holds what each trace adds. `value` maps sums (m, k) to m values, NaN where undefined; NaN
    never leaves this package: `reason` is then given instead. `n` is how many units the value rests on. `observed` is
    the value of the traces as they are where a reference implementation gives it; `value` then serves the resamples.
    `limits`: what the metric can be, so that no interval reaches beyond; None: an interval may have no width.
    """

    columns: Floats
    value: Callable[[Floats], Floats]
    n: int
    reason: str
    observed: float | None = None
    limits: tuple[float, float] | None = (0.0, 1.0)

    def draws(self, weights: Floats) -> Floats:
        """One value for each row of trace weights (m, traces); the first row weighs all traces alike."""
        values = self.value(weights @ self.columns)
        if self.observed is not None:
            values[0] = self.observed
        return values


def ratio(sums: Floats) -> Floats:
    """Column 0 over column 1; NaN where the denominator is 0."""
    result = np.full(len(sums), np.nan)
    np.divide(sums[:, 0], sums[:, 1], out=result, where=sums[:, 1] > 0)
    return result


def estimates(
    statistics: Mapping[str, Statistic], clusters: Sequence[str], settings: MetricSettings
) -> dict[str, Estimate]:
    """Each statistic with its interval. `clusters` names each trace's cluster."""
    draws = _draws(statistics, clusters, settings)
    result = {}
    for name, statistic in statistics.items():
        reach = _wilson(_contributing([statistic], clusters), settings.level)
        result[name] = _estimate(draws[name], statistic, settings.level, reach)
    return result


def differences(
    left: Mapping[str, Statistic], right: Mapping[str, Statistic], clusters: Sequence[str], settings: MetricSettings
) -> dict[str, Estimate]:
    """`left` minus `right` on the same traces in the same order, with the same resamples for both sides."""
    ours, theirs = _draws(left, clusters, settings), _draws(right, clusters, settings)
    result = {}
    for name, statistic in left.items():
        undefined = statistic if math.isnan(ours[name][0]) else right[name]
        both = replace(undefined, n=min(statistic.n, right[name].n), limits=(-1.0, 1.0))
        found = _contributing([statistic, right[name]], clusters)
        gain = ours[name] - theirs[name]
        reach = (_agresti_min if gain[0] == 0 else _wilson)(found, settings.level)
        result[name] = _estimate(gain, both, settings.level, reach)
    return result


def _draws(statistics: Mapping[str, Statistic], clusters: Sequence[str], settings: MetricSettings) -> dict[str, Floats]:
    """Values of shape (1 + resamples): the observed one first. Equal clusters and settings give equal resamples; of a
    single cluster there are none."""
    names = sorted(set(clusters))
    if not names:
        return {name: np.full(1, np.nan) for name in statistics}
    if len(names) == 1:
        return {name: statistic.draws(np.ones((1, len(clusters)))) for name, statistic in statistics.items()}
    places = {name: number for number, name in enumerate(names)}
    member = np.array([places[name] for name in clusters])
    generator = np.random.default_rng(settings.seed)
    drawn = generator.multinomial(len(names), np.full(len(names), 1 / len(names)), size=settings.resamples)
    weights = np.vstack([np.ones(len(names)), drawn])[:, member]
    return {name: statistic.draws(weights) for name, statistic in statistics.items()}


def _contributing(statistics: Sequence[Statistic], clusters: Sequence[str]) -> int:
    """How many clusters the statistics rest on."""
    adds = np.hstack([statistic.columns for statistic in statistics])
    return len({name for name, row in zip(clusters, adds, strict=True) if row.any()})


def _wilson(n: int, level: float) -> float:
    """How far the interval of 0 of n reaches."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    return z**2 / (n + z**2)


def _agresti_min(n: int, level: float) -> float:
    """How far the interval of the difference of two shares reaches where none of n pairs differs."""
    return NormalDist().inv_cdf((1 + level) / 2) / (n + 2)


def _estimate(draws: Floats, statistic: Statistic, level: float, reach: float) -> Estimate:
    """`draws` as `_draws` gives them; `reach`: of the interval where they all agree."""
    n, reason = statistic.n, statistic.reason
    if math.isnan(draws[0]):
        return Estimate(None, n=n, reason=reason)
    value = float(draws[0])
    if len(draws) == 1:
        return Estimate(value, n=n, reason="no interval: all traces are one cluster")
    defined = draws[1:][~np.isnan(draws[1:])]
    lost = 1 - len(defined) / len(draws[1:])
    if lost > MAX_DEGENERATE:
        return Estimate(value, n=n, reason=f"no interval: undefined in {lost:.0%} of the resamples ({reason})")
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    if low == high and statistic.limits is not None:
        least, most = statistic.limits
        low, high = min(value, max(least, value - reach)), max(value, min(most, value + reach))
    return Estimate(value, float(low), float(high), n)
