"""A simulated rater who misses some errors, and a null world in which labels say nothing."""

from __future__ import annotations

from collections.abc import Sequence

from labeled_traces.dataset import LabeledTrace


def rate(rows: Sequence[LabeledTrace], seed: int) -> list[LabeledTrace]:
    """The rows as a person would label them."""
    raise NotImplementedError


def shuffle_labels(rows: Sequence[LabeledTrace], seed: int) -> list[LabeledTrace]:
    """The null world: label sets permuted over traces, spans redrawn uniformly."""
    raise NotImplementedError
