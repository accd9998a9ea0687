"""A simulated rater who misses some errors, and a null world in which labels say nothing."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import DIMENSIONS, ErrorLabel, Impact, ScoreLabel, score_from_impacts

RATER = "rater"
NOTICED: Mapping[Impact, float] = MappingProxyType({Impact.LOW: 0.80, Impact.MEDIUM: 0.885, Impact.HIGH: 0.97})
"""The share of errors that the rater labels, by impact."""


def rate(
    rows: Sequence[LabeledTrace], seed: int, noticed: Mapping[Impact, float] = NOTICED, rater: str = RATER
) -> list[LabeledTrace]:
    """The rows as a person would label them: an error is noticed with the probability of its impact, and the scores of
    all dimensions follow from what was noticed. What is said of one row depends on the seed and its trace id alone."""
    return [_rated(row, random.Random(f"rate:{seed}:{row.trace_id}"), noticed, rater) for row in rows]


def _rated(row: LabeledTrace, rng: random.Random, noticed: Mapping[Impact, float], rater: str) -> LabeledTrace:
    seen = tuple(replace(error, rater=rater) for error in row.errors if rng.random() < noticed[error.impact])
    return replace(row, errors=seen, scores=scores_of(seen, rater))


def scores_of(errors: Sequence[ErrorLabel], rater: str) -> tuple[ScoreLabel, ...]:
    """A score for each dimension by the anchored scale."""
    return tuple(
        ScoreLabel(name, score_from_impacts(error.impact for error in errors if name in error.dimensions), rater)
        for name in DIMENSIONS
    )


def shuffle_labels(rows: Sequence[LabeledTrace], seed: int) -> list[LabeledTrace]:
    """The null world: the traces' label sets (errors with scores) are permuted over the traces, and each error's span
    is redrawn uniformly from the spans of the trace that it falls to. Frequencies stay, meaning goes."""
    rng = random.Random(f"shuffle:{seed}")
    givers = rng.sample(list(rows), len(rows))
    return [
        replace(
            row,
            errors=tuple(replace(error, span_id=rng.choice(row.trace.spans).span_id) for error in giver.errors),
            scores=giver.scores,
        )
        for row, giver in zip(rows, givers, strict=True)
    ]
