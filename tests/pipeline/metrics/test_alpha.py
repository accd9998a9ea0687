"""Krippendorff's alpha against published values and against the krippendorff package."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.metrics.alpha import alpha, coincidences

N = None
# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C: four observers, twelve units.
PUBLISHED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]
# The same, section A: two observers, binary data.
BINARY = [[0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]]


def alpha_of(data: list[list[int | None]], values: list[int], level: str) -> float:
    """Rows are coders, columns units."""
    counts = np.array([[list(unit).count(value) for value in values] for unit in zip(*data, strict=True)])
    return float(alpha(coincidences(counts).sum(axis=0, keepdims=True), level)[0])


@pytest.mark.parametrize(("level", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_published_example(level: str, expected: float) -> None:
    assert alpha_of(PUBLISHED, [1, 2, 3, 4, 5], level) == pytest.approx(expected, abs=5e-4)


def test_published_binary_example() -> None:
    assert alpha_of([list(row) for row in BINARY], [0, 1], "nominal") == pytest.approx(0.095, abs=5e-4)


def test_published_coincidences() -> None:
    """The coincidence matrix that the same paper prints for the second example."""
    counts = np.array([[list(u).count(v) for v in range(1, 6)] for u in zip(*PUBLISHED, strict=True)])
    expected = [
        [7, 4 / 3, 1 / 3, 1 / 3, 0],
        [4 / 3, 10, 4 / 3, 1 / 3, 0],
        [1 / 3, 4 / 3, 8, 1 / 3, 0],
        [1 / 3, 1 / 3, 1 / 3, 4, 0],
        [0, 0, 0, 0, 3],
    ]
    assert coincidences(counts).sum(axis=0) == pytest.approx(np.array(expected))


cells = st.lists(st.lists(st.sampled_from([0, 1, 2, 3, None]), min_size=6, max_size=6), min_size=2, max_size=5)


@settings(max_examples=150, deadline=None)
@given(cells, st.sampled_from(["nominal", "ordinal", "interval"]))
def test_equals_the_package(data: list[list[int | None]], level: str) -> None:
    ours = alpha_of(data, [0, 1, 2, 3], level)
    paired = [column for column in zip(*data, strict=True) if sum(value is not None for value in column) > 1]
    if len({value for column in paired for value in column if value is not None}) < 2:
        assert np.isnan(ours), "undefined: no pairs, or no variation"
        return
    matrix = np.array([[np.nan if value is None else value for value in coder] for coder in data])
    assert ours == pytest.approx(krippendorff.alpha(matrix, level_of_measurement=level), abs=1e-12)


def test_many_resamples_at_once_equal_one_by_one() -> None:
    generator = np.random.default_rng(5)
    units = coincidences(generator.integers(0, 3, size=(20, 4)))
    weights = generator.multinomial(20, np.full(20, 1 / 20), size=7)
    sums = np.tensordot(weights.astype(float), units, axes=1)
    for level in ("nominal", "ordinal", "interval"):
        single = [alpha(cells[None], level)[0] for cells in sums]
        assert alpha(sums, level) == pytest.approx(single)


def test_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="accepted are nominal, ordinal and interval"):
        alpha(np.ones((1, 2, 2)), "ratio")
