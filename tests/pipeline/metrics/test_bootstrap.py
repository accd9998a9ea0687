"""Intervals: whole clusters are drawn, differences are paired, undefined resamples are counted."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.config import PipelineError
from pipeline.matching import Floats
from pipeline.metrics.bootstrap import MetricSettings, Statistic, differences, estimates, ratio
from pipeline.metrics.estimate import Estimate


def share(numerator: list[float], denominator: list[float], reason: str = "no labels") -> Statistic:
    return Statistic(np.column_stack([numerator, denominator]), ratio, int(sum(denominator)), reason)


def estimate(statistic: Statistic, clusters: list[str], settings: MetricSettings | None = None) -> Estimate:
    return estimates({"m": statistic}, clusters, settings or MetricSettings())["m"]


def test_interval_is_the_percentile_of_resampled_clusters() -> None:
    """Against a plain loop that copies each drawn cluster's traces."""
    clusters = ["g1", "g1", "g2", "g3", "g3", "g3"]
    numerator, denominator = [1.0, 0.0, 2.0, 0.0, 1.0, 3.0], [1.0, 2.0, 2.0, 1.0, 4.0, 3.0]
    settings = MetricSettings(resamples=200, seed=7, level=0.9)
    drawn = np.random.default_rng(7).multinomial(3, [1 / 3] * 3, size=200)
    values = []
    for counts in drawn:
        chosen = [i for name, count in zip(["g1", "g2", "g3"], counts, strict=True) for i in
                  [j for j, cluster in enumerate(clusters) if cluster == name] * count]  # fmt: skip
        values.append(sum(numerator[i] for i in chosen) / sum(denominator[i] for i in chosen))
    found = estimate(share(numerator, denominator), clusters, settings)
    assert found.value == pytest.approx(7 / 13)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values, [0.05, 0.95])))
    assert found.n == 13


def test_same_seed_same_interval_and_order_of_traces_does_not_matter() -> None:
    generator = np.random.default_rng(0)
    numerator, denominator = generator.random(20).tolist(), (1 + generator.random(20)).tolist()
    clusters = [str(i) for i in range(20)]
    one = estimate(share(numerator, denominator), clusters)
    assert one == estimate(share(numerator, denominator), clusters)
    assert one != estimate(share(numerator, denominator), clusters, MetricSettings(seed=1))
    other = estimate(share(numerator[::-1], denominator[::-1]), clusters[::-1])
    assert [other.value, other.low, other.high] == pytest.approx([one.value, one.low, one.high])


def test_groups_widen_the_interval() -> None:
    """Twenty traces in four groups that behave alike are four observations."""
    numerator, denominator = [1.0] * 10 + [0.0] * 10, [1.0] * 20
    alone = estimate(share(numerator, denominator), [str(i) for i in range(20)])
    grouped = estimate(share(numerator, denominator), [str(i // 5) for i in range(20)])
    assert alone.low is not None
    assert grouped.low is not None
    assert grouped.low < alone.low - 0.1


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(11)
    truth, simulations, hits = 0.6, 300, 0
    for _ in range(simulations):
        denominator = generator.integers(1, 4, size=60).astype(float)
        numerator = generator.binomial(denominator.astype(int), truth).astype(float)
        found = estimate(share(list(numerator), list(denominator)), [str(i) for i in range(60)], MetricSettings(400))
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= truth <= found.high
    assert 0.90 <= hits / simulations <= 0.985


def test_differences_are_paired() -> None:
    """Both sides swing together over traces, so that their difference hardly does."""
    base = [float(i % 2) for i in range(40)]
    left, right = share([x * 10 + 1 for x in base], [12.0] * 40), share([x * 10 for x in base], [12.0] * 40)
    clusters = [str(i) for i in range(40)]
    found = differences({"m": left}, {"m": right}, clusters, MetricSettings())["m"]
    assert (found.value, found.low, found.high) == pytest.approx((1 / 12, 1 / 12, 1 / 12))
    alone = estimate(left, clusters)
    assert alone.high is not None
    assert alone.low is not None
    assert alone.high - alone.low > 0.1


def test_difference_takes_the_reason_of_the_undefined_side() -> None:
    defined, undefined = share([1.0, 1.0], [1.0, 2.0]), share([0.0, 0.0], [0.0, 0.0], "no findings")
    for left, right in ((defined, undefined), (undefined, defined)):
        found = differences({"m": left}, {"m": right}, ["a", "b"], MetricSettings())["m"]
        assert found == Estimate(None, n=0, reason="no findings")


def test_undefined_is_null_with_a_reason() -> None:
    assert estimate(share([0.0], [0.0]), ["a"]) == Estimate(None, n=0, reason="no labels")
    assert estimate(Statistic(np.zeros((0, 2)), ratio, 0, "no labels"), []) == Estimate(None, n=0, reason="no labels")


def test_a_value_that_most_resamples_lack_has_no_interval() -> None:
    found = estimate(share([1.0] + [0.0] * 9, [2.0] + [0.0] * 9), [str(i) for i in range(10)])
    assert (found.value, found.low, found.high) == (0.5, None, None)
    assert found.reason is not None
    assert found.reason.startswith("no interval: undefined in 3")


def test_a_few_undefined_resamples_are_dropped() -> None:
    found = estimate(share([1.0, 0.0, 1.0, 0.0] + [0.0] * 4, [1.0] * 4 + [0.0] * 4), [str(i) for i in range(8)])
    assert found.reason is None
    assert found.low == 0.0


def test_a_single_cluster_has_no_interval() -> None:
    found = estimate(share([1.0, 2.0], [2.0, 2.0]), ["g", "g"])
    assert found == Estimate(0.75, n=4, reason="no interval: all traces are one cluster")


@pytest.mark.parametrize(("resamples", "level"), [(1, 0.95), (0, 0.95), (100, 0.0), (100, 1.0)])
def test_bad_settings_are_refused(resamples: int, level: float) -> None:
    with pytest.raises(PipelineError, match="accepted are 2 or more, and between 0 and 1"):
        MetricSettings(resamples, 0, level)


def test_ratio_of_nothing_is_not_a_number_inside() -> None:
    sums: Floats = np.array([[1.0, 2.0], [0.0, 0.0], [0.0, 3.0]])
    assert ratio(sums) == pytest.approx([0.5, np.nan, 0.0], nan_ok=True)
