"""What a search raises, and what must not fall for it: values per trace, higher is better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from pipeline.config import PipelineError
from pipeline.metrics.trace_consistency import trace_consistency
from pipeline.optimizers.scoring import PerTrace, Scores


@dataclass(frozen=True)
class Guard:
    """The mean of `value` may fall by less than `margin` (non-inferiority). `sign` is -1 where the value is minus that
    which the name says."""

    name: str
    value: PerTrace
    margin: float
    sign: int = 1


@dataclass(frozen=True)
class Objective:
    """`value` is to rise."""

    name: str
    value: PerTrace
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Change:
    """From one program to another on the same traces: the mean gain per trace, None where there is none, and what
    speaks against the other one. For a search: the test that decides is `selection.compared`."""

    gain: float | None
    faults: tuple[str, ...]

    @classmethod
    def of(cls, objective: Objective, after: Scores, before: Scores) -> Change:
        """A guard is broken here if it is worse than its margin by more than a standard error."""
        gains = list(after.gains_over(before, objective.value).values())
        if not gains:
            return cls(None, (f"only {after.usable:.0%} of its judgments can be used",))
        changes = [(guard, list(after.gains_over(before, guard.value).values())) for guard in objective.guards]
        faults = (_fault(guard, change) for guard, change in changes)
        return cls(float(np.mean(gains)), tuple(fault for fault in faults if fault is not None))


def _fault(guard: Guard, changes: Sequence[float]) -> str | None:
    if not changes:
        return f"{guard.name} cannot be measured"
    change, error = float(np.mean(changes)), float(np.std(changes)) / math.sqrt(len(changes))
    return None if change + error >= -guard.margin else f"{guard.name} got worse by {-change:.3f}"


SOFT_F1 = Objective("score", lambda scores: scores.by_trace)


@dataclass(frozen=True)
class Margins:
    """By how much each may get worse for more consistency; each is a mean over traces, in [0, 1].

    They bound what may be lost, not what is lost: with the dozen or two labelled traces that one dimension has, a bound
    of localization, the noisiest of them, is seldom nearer than 0.1 even where it rises.
    """

    coverage: float = 0.05
    localization: float = 0.1
    false_alarms: float = 0.05
    locked_in: float = 0.05

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 0 <= getattr(self, field.name) <= 1:
                raise PipelineError(f"margin {field.name} is {getattr(self, field.name)}: accepted is 0 to 1")


def consistency_objective(margins: Margins) -> Objective:
    """The same verdict in every repeat, but not by saying nothing or always the same wrong thing.

    A judge that never reports anything is perfectly consistent: so coverage and localization are guarded. One that
    always does is, too: so false alarms are. And a judge can grow consistent around its own mean, right or wrong, while
    those averages stand still: so the repeats that agree with each other against people are guarded (`locked_in`).
    """
    return Objective(
        "consistency",
        consistency,
        (
            Guard("coverage", _share("coverage"), margins.coverage),
            Guard("localization", _share("localization"), margins.localization),
            Guard("false_alarms", _no_alarms, margins.false_alarms, -1),
            Guard("locked_in", _not_locked_in, margins.locked_in, -1),
        ),
    )


def consistency(scores: Scores) -> dict[str, float | None]:
    """`TraceConsistency.value` of each trace."""
    read = trace_consistency(scores.table, scores.table.dimensions[0])
    return {trace_id: None if one is None else one.value for trace_id, one in read.items()}


def _share(name: str) -> PerTrace:
    def value(scores: Scores) -> dict[str, float | None]:
        return {trace_id: shares.get(name) for trace_id, shares in scores.objectives.items()}

    return value


def _no_alarms(scores: Scores) -> Mapping[str, float | None]:
    """Minus the share of readings with a finding, on the clean traces."""
    table = scores.table
    readings = table.usable.sum(axis=(1, 2))
    alarms = (table.usable & (table.n_findings > 0)).sum(axis=(1, 2))
    rows = zip(table.trace_ids, table.clean, readings, alarms, strict=True)
    return {trace_id: -float(n / all_) if clean and all_ else None for trace_id, clean, all_, n in rows}


def _not_locked_in(scores: Scores) -> Mapping[str, float | None]:
    read = trace_consistency(scores.table, scores.table.dimensions[0])
    return {i: None if one is None or one.locked_in is None else -one.locked_in for i, one in read.items()}
