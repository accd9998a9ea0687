"""Do the judges' scores agree with people's, and do the judges agree with themselves over repeats?"""

from __future__ import annotations

import numpy as np

from labeled_traces.label import SCORES
from pipeline.matching import Floats, Ints
from pipeline.metrics.alpha import alpha, coincidences, reference_alpha
from pipeline.metrics.bootstrap import Statistic, ratio
from pipeline.metrics.table import MatchTable

SIZE = len(SCORES)
SCALES = {"agreement": (0, 1, 2, 3), "agreement_3": (0, 0, 1, 2), "agreement_2": (0, 0, 0, 1)}
"""Exact agreement on 4, 3 (an error of medium or high impact, of low impact, none) and 2 points (an error, none)."""
NO_VARIATION = "no variation"


def with_people(table: MatchTable) -> dict[str, Statistic]:
    """Scores of judge and person, pair by pair: each person's score with each repeat. `not_applicable` is left out.

    `kappa` has quadratic weights (Cohen 1968); `alpha_people` is ordinal, judge and person as the two coders.
    """
    confusion, n = _confusion(table)
    reason = "no scores to compare"
    total = confusion.sum(axis=(1, 2))
    scores = np.array(SCORES)
    distance = np.abs(scores[:, None] - scores[None, :])

    def share(same: Ints | Floats) -> Statistic:
        return Statistic(np.column_stack([(confusion * same).sum(axis=(1, 2)), total]), ratio, n, reason)

    def quadratic_kappa(sums: Floats) -> Floats:
        cells = sums.reshape(-1, SIZE, SIZE)
        chance = cells.sum(axis=2)[:, :, None] * cells.sum(axis=1)[:, None, :]
        observed, expected = ((part * distance**2).sum(axis=(1, 2)) for part in (cells, chance))
        kappa: Floats = 1 - cells.sum(axis=(1, 2)) * ratio(np.column_stack([observed, expected]))
        return kappa

    def people_alpha(sums: Floats) -> Floats:
        cells = sums.reshape(-1, SIZE, SIZE)
        return alpha(cells + cells.transpose(0, 2, 1), "ordinal")

    flat = confusion.reshape(-1, SIZE * SIZE)
    result = {}
    for name, merged in SCALES.items():
        points = np.array(merged)
        result[name] = share(points[:, None] == points[None, :])
    result["off_by_one"] = share(distance <= 1)
    result["kappa"] = Statistic(flat, quadratic_kappa, n, f"kappa undefined: {NO_VARIATION}" if n else reason)
    result["alpha_people"] = Statistic(flat, people_alpha, n, f"alpha undefined: {NO_VARIATION}" if n else reason)
    return result


def over_repeats(table: MatchTable) -> dict[str, Statistic]:
    """Consistency: units are (trace, dimension), coders are repeats; a unit needs two usable repeats.

    `alpha` is nominal, of "reported an error"; `raw_agreement` is the share of pairs of repeats that agree on it, and
    `reported_share` the share of usable judgments that report one: the class balance. `alpha_scores` is ordinal, `std`
    the mean over units of the scores' standard deviation (n - 1).
    """
    reported = np.where(table.usable, table.n_findings > 0, -1)
    counts, score_counts = _counts(reported, 2), _counts(table.scores, SIZE)
    pairs, score_pairs = _coincidences(counts), _coincidences(score_counts)
    units, score_units = (int((each.sum(axis=2) > 1).sum()) for each in (counts, score_counts))
    flagged = np.column_stack([(reported == 1).sum(axis=(1, 2)), table.usable.sum(axis=(1, 2))]).astype(np.float64)
    return {
        "alpha": _alpha(counts, pairs, "nominal", units),
        "raw_agreement": _raw(pairs, 2, units, "fewer than 2 repeats"),
        "reported_share": Statistic(flagged, ratio, int(table.usable.sum()), "no usable judgments"),
        "alpha_scores": _alpha(score_counts, score_pairs, "ordinal", score_units),
        "std": Statistic(_deviations(table.scores), ratio, score_units, "fewer than 2 repeats"),
    }


def among_raters(values: Ints, size: int, level: str, place: Ints, traces: int) -> dict[str, Statistic]:
    """`alpha` and the share of pairs of raters that say the same, `raw_agreement`.

    Args:
        values: (U, D, R) what each rater said of a unit, 0 ... size - 1, -1 where missing; a pair (u, d) is one unit.
        place: (U) the trace that a unit is of, of so many `traces`.
    """
    counts = _counts(values, size)
    of_units = _coincidences(counts)
    pairs = np.zeros((traces, size * size))
    np.add.at(pairs, place, of_units)
    units = int((counts.sum(axis=2) > 1).sum())
    few = "nothing that two raters have judged"
    return {"alpha": _alpha(counts, pairs, level, units, few), "raw_agreement": _raw(pairs, size, units, few)}


def _raw(pairs: Floats, size: int, units: int, few: str) -> Statistic:
    same = pairs[:, [value * (size + 1) for value in range(size)]].sum(axis=1)
    return Statistic(np.column_stack([same, pairs.sum(axis=1)]), ratio, units, few)


def _alpha(counts: Ints, pairs: Floats, level: str, units: int, few: str = "fewer than 2 repeats") -> Statistic:
    size = counts.shape[2]
    reason = f"alpha undefined: {NO_VARIATION if units else few}"
    observed = reference_alpha(counts.reshape(-1, size), level)
    return Statistic(pairs, lambda sums: alpha(sums.reshape(-1, size, size), level), units, reason, observed)


def _counts(values: Ints, size: int) -> Ints:
    """(T, D, R) values, -1 where missing, to (T, D, size): how often each value was given over the repeats."""
    counts: Ints = np.stack([(values == value).sum(axis=2) for value in range(size)], axis=2)
    return counts


def _coincidences(counts: Ints) -> Floats:
    """(T, D, size) counts to (T, size * size) coincidences."""
    size = counts.shape[2]
    pairs: Floats = coincidences(counts.reshape(-1, size)).reshape(*counts.shape[:2], size * size).sum(axis=1)
    return pairs


def _deviations(scores: Ints) -> Floats:
    """(T, D, R) scores, -1 where missing, to (T, 2): summed standard deviations, units with two scores or more."""
    given = scores >= 0
    count = given.sum(axis=2)
    enough = count > 1
    mean = np.where(given, scores, 0).sum(axis=2) / np.maximum(count, 1)
    squares = np.where(given, (scores - mean[:, :, None]) ** 2, 0.0).sum(axis=2)
    deviations = np.where(enough, np.sqrt(squares / np.maximum(count - 1, 1)), 0.0)
    return np.column_stack([deviations.sum(axis=1), enough.sum(axis=1)])


def _confusion(table: MatchTable) -> tuple[Floats, int]:
    """(T, 4, 4): how often a person's score (rows) met the judge's (columns); how many of people's scores did."""
    confusion = np.zeros((len(table.rows), SIZE, SIZE))
    traces, dimensions, human = table.human_scores.T
    judged = table.scores[traces, dimensions]
    for repeat in judged.T:
        given = repeat >= 0
        np.add.at(confusion, (traces[given], human[given], repeat[given]), 1)
    return confusion, int((judged >= 0).any(axis=1).sum())
