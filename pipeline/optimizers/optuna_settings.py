"""What can be set of an optuna search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.config import PipelineError
from pipeline.optimizers.selection import SelectionRule


@dataclass(frozen=True)
class OptunaSettings:
    """Settings of one dimension's search.

    `max_calls`: judgments, never exceeded (a plan extraction, or the second try of a cut reply, is a call of the run's
    budget but not of this number). `trials`: points; a program that was read before costs nothing when it comes again.
    Every program is read `repeats` times on at most `train_traces` traces, half of them without labels of the
    dimension; what was best there is proved on at most `val_traces` others by `selection`. `min_labels`: fewer labelled
    traces in either, and nothing is searched.

    What is tried: the input and the first `starts` programs of the bank as they are; then combinations of at most
    `variants` texts a part, of at most `max_examples` examples out of a pool of `pool` (those of the bank, and
    `fresh_examples` new ones from the trainset), of `temperatures`, and of `trace_limits`: multiples of the program's
    own limit of the rendered trace. (At temperature 0 all repeats are one reading, so it is not among the defaults.)
    `more_tokens`: by which share a prompt may be longer than the input program's.

    `storage`: the URL of a database (environment variables in it are filled in) in which the study is kept and from
    which it is continued, by one process at a time; None: it is kept in memory, and the ledger alone resumes it.
    """

    max_calls: int = 1_500
    trials: int = 20
    repeats: int = 1
    train_traces: int = 60
    val_traces: int = 60
    min_labels: int = 4
    starts: int = 2
    variants: int = 8
    max_examples: int = 4
    pool: int = 16
    fresh_examples: int = 6
    temperatures: Sequence[float] = (0.3, 1.0)
    trace_limits: Sequence[float] = (0.5, 2.0)
    more_tokens: float = 0.25
    storage: str | None = None
    selection: SelectionRule = field(default_factory=lambda: SelectionRule(repeats=2, more_repeats=2))

    def __post_init__(self) -> None:
        least = {"max_calls": 1, "trials": 1, "repeats": 1, "train_traces": 2, "val_traces": 2, "min_labels": 1}
        least |= {"starts": 0, "variants": 1, "max_examples": 0, "pool": 0, "fresh_examples": 0, "more_tokens": 0}
        for name, low in least.items():
            if not getattr(self, name) >= low:
                raise PipelineError(f"optuna setting {name} is {getattr(self, name)}: accepted is {low} or more")
        for name, high in (("temperatures", 2.0), ("trace_limits", 100.0)):
            values = getattr(self, name)
            plain = isinstance(values, Sequence) and not isinstance(values, str)
            if not plain or not all(isinstance(value, int | float) and 0 <= value <= high for value in values):
                raise PipelineError(
                    f"optuna setting {name} is {values!r}: accepted is a list of numbers, 0 to {high:g}"
                )
