"""What can be set of a gepa search."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.config import PipelineError
from pipeline.optimizers.selection import SelectionRule


@dataclass(frozen=True)
class GepaSettings:
    """Settings of one dimension's search.

    `max_calls`: judgments, never exceeded (a plan extraction, or the second try of a cut reply, is a call of the run's
    budget but not of this number); `max_iterations`: proposals. `train_traces`, `val_traces`: at most so many
    traces, half of them without labels of the dimension. Every candidate is judged `repeats` times per trace.
    `min_labels`: fewer labelled traces in train or val, and nothing is searched. `alpha`: level of the paired test that
    lets a child pass its minibatch. `max_failures`: failed proposals in a row that end the search. `parts`: which parts
    a proposal changes, `all` at once or one after the other (`round_robin`). `select_on_train`: the final choice also
    counts train traces that no example was made from.
    """

    max_calls: int = 2_000
    max_iterations: int = 16
    minibatch: int = 12
    repeats: int = 2
    train_traces: int = 60
    val_traces: int = 30
    min_labels: int = 4
    alpha: float = 0.2
    max_failures: int = 4
    parts: str = "all"
    select_on_train: bool = False
    selection: SelectionRule = field(default_factory=SelectionRule)

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_iterations", "repeats", "min_labels", "max_failures"):
            if getattr(self, name) < 1:
                raise PipelineError(f"gepa setting {name} is {getattr(self, name)}: accepted is 1 or more")
        for name in ("minibatch", "train_traces", "val_traces"):
            if getattr(self, name) < 2:
                raise PipelineError(f"gepa setting {name} is {getattr(self, name)}: accepted is 2 or more")
        if not 0 < self.alpha < 1:
            raise PipelineError(f"gepa setting alpha is {self.alpha}: accepted is a number between 0 and 1")
        if self.parts not in ("all", "round_robin"):
            raise PipelineError(f"gepa setting parts is {self.parts!r}: accepted are all and round_robin")
