"""Krippendorff's alpha: of the data by the krippendorff package, of many resamples at once from coincidences.

Source: Krippendorff, Computing Krippendorff's Alpha-Reliability (2011).
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.matching import Floats, Ints


def reference_alpha(counts: Ints, level: str) -> float:
    """Alpha of (U, V) value counts as the krippendorff package computes it; NaN where it is undefined."""
    import krippendorff

    paired = counts[counts.sum(axis=1) > 1]
    if (paired.sum(axis=0) > 0).sum() < 2:
        return math.nan
    domain = list(range(counts.shape[1]))
    return float(krippendorff.alpha(value_counts=paired, value_domain=domain, level_of_measurement=level))


def coincidences(counts: Ints) -> Floats:
    """(U, V) how often each of V values was given to each unit, to (U, V, V) coincidences.

    Each ordered pair of values from two coders weighs 1 / (m - 1), m coders; a unit with one coder has no pairs.
    """
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(counts.shape[1], dtype=np.intp)
    coders = counts.sum(axis=1)
    weighted: Floats = np.where(coders > 1, 1 / np.maximum(coders - 1, 1), 0.0)[:, None, None] * pairs
    return weighted


def alpha(coincidence: Floats, level: str) -> Floats:
    """(m, V, V) summed coincidences to m alphas; `level` is nominal, ordinal or interval (values 0 ... V - 1).

    NaN where alpha is undefined: no pairs, or only one value occurs.
    """
    totals = coincidence.sum(axis=2)
    distance = _distance(totals, level)
    n = totals.sum(axis=1)
    observed = (coincidence * distance).sum(axis=(1, 2))
    expected = (totals[:, :, None] * totals[:, None, :] * distance).sum(axis=(1, 2))
    result = np.full(len(coincidence), np.nan)
    np.divide((n - 1) * observed, expected, out=result, where=expected > 0)
    return 1 - result


def _distance(totals: Floats, level: str) -> Floats:
    """(m, V, V) squared distances between values."""
    m, size = totals.shape
    if level == "nominal":
        return np.broadcast_to(1 - np.eye(size), (m, size, size))
    if level == "interval":
        places = np.broadcast_to(np.arange(size, dtype=np.float64), (m, size))
    elif level == "ordinal":
        places = np.cumsum(totals, axis=1) - totals / 2
    else:
        raise ValueError(f"level {level!r} is unknown: accepted are nominal, ordinal and interval")
    return (places[:, :, None] - places[:, None, :]) ** 2
