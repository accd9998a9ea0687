"""What can be set of an evolution."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.config import PipelineError
from pipeline.optimizers.objective import Margins
from pipeline.optimizers.selection import SelectionRule


@dataclass(frozen=True)
class EvolutionSettings:
    """Settings of one dimension's search.

    `max_calls`: judgments, never exceeded (a plan extraction, or the second try of a cut reply, is a call of the run's
    budget but not of this number). `max_candidates`: programs that are read beside the input. `islands`, of which each
    keeps an archive of its own; after every `migrate_every` rounds (one candidate on each island) the best of each
    moves to the next. `crossover`: the share of candidates that take parts from two parents; the others change each
    part of one parent with probability `part_rate`, and at least one.

    Every candidate is read `repeats` times on at most `train_traces` traces, `clean_each` clean ones for each that has
    labels; the best `reread` of them are read once more. Then one is proved on at most `val_traces` others.
    `min_labels`: fewer labelled traces in either, and nothing is searched. `alpha`: level of the paired test of a
    candidate against its parent. `max_failures`: failed proposals in a row that end the search. `margins`: what more
    consistency may cost.
    """

    max_calls: int = 5_000
    max_candidates: int = 12
    islands: int = 3
    migrate_every: int = 2
    crossover: float = 0.4
    part_rate: float = 0.4
    repeats: int = 3
    reread: int = 2
    train_traces: int = 48
    clean_each: float = 2.0
    val_traces: int = 150
    min_labels: int = 4
    alpha: float = 0.2
    max_failures: int = 4
    margins: Margins = field(default_factory=Margins)
    selection: SelectionRule = field(
        default_factory=lambda: SelectionRule(finalists=1, repeats=3, level=0.95, more_repeats=5)
    )

    def __post_init__(self) -> None:
        whole = ("max_calls", "max_candidates", "islands", "migrate_every", "reread", "min_labels", "max_failures")
        for name in (*whole, "clean_each"):
            if getattr(self, name) < 1:
                raise PipelineError(f"evolution setting {name} is {getattr(self, name)}: accepted is 1 or more")
        for name in ("repeats", "train_traces", "val_traces"):
            if getattr(self, name) < 2:
                raise PipelineError(f"evolution setting {name} is {getattr(self, name)}: accepted is 2 or more")
        if self.selection.repeats < 2:
            raise PipelineError(
                f"evolution setting selection.repeats is {self.selection.repeats}: accepted is 2 or more, since one "
                "repeat has nothing to agree with"
            )
        if not 0 < self.alpha < 1:
            raise PipelineError(f"evolution setting alpha is {self.alpha}: accepted is a number between 0 and 1")
        for name in ("crossover", "part_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise PipelineError(f"evolution setting {name} is {getattr(self, name)}: accepted is 0 to 1")
