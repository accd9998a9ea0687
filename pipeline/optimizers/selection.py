"""Which gains are real: a cheap paired test for one minibatch, a strict one for what replaces the input program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judges.program import JudgeProgram
from labeled_traces.dataset import LabeledTrace
from labeled_traces.groups import connected
from pipeline.config import PipelineError
from pipeline.metrics.bootstrap import MetricSettings, Statistic, estimates, ratio
from pipeline.metrics.estimate import Estimate
from pipeline.optimizers.objective import SOFT_F1, Objective
from pipeline.optimizers.scoring import Scorer, Scores

_FLIPS = 2_000
_EXACT = 11
_RESAMPLES = 2_000


def gain_p_value(gains: Sequence[float], seed: int = 0) -> float:
    """One-sided p-value of "the mean paired gain is above 0": the sign-flip randomisation test.

    Under no effect every gain is as likely to have the other sign; p is the share of sign patterns whose mean is at
    least the observed one. All patterns are counted for up to 11 gains that are not 0, else 2,000 seeded ones. Ties
    count against the gain, so no change at all has p = 1. Source: Fisher, The Design of Experiments (1935), section 21.
    """
    moved = np.array([gain for gain in gains if gain != 0.0])
    if not len(moved):
        return 1.0
    if len(moved) <= _EXACT:
        bits = np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1
        return float(np.mean((2 * bits - 1) @ moved >= moved.sum() - 1e-9))
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], size=(_FLIPS, len(moved)))
    return float((1 + np.sum(signs @ moved >= moved.sum() - 1e-9)) / (1 + _FLIPS))


@dataclass(frozen=True)
class Selection:
    """The program to keep, why, and its paired gain over the input program (`low` is the one-sided bound)."""

    program: JudgeProgram
    improved: bool
    reason: str
    gain: Estimate | None = None


@dataclass(frozen=True)
class Finalist:
    """A candidate, its gain over another program, and the guards that hold and do not, in words."""

    program: JudgeProgram
    gain: Estimate
    held: tuple[str, ...]
    broken: tuple[str, ...]

    @property
    def proved(self) -> bool:
        return self.gain.low is not None and self.gain.low > 0 and not self.broken


@dataclass(frozen=True)
class SelectionRule:
    """`finalists` candidates are judged anew with `repeats` fresh repeats. A gain counts if its one-sided lower bound
    at `level`, shared among the finalists (Bonferroni), is above 0.

    Finalists whose gain is above 0 so far get `more_repeats`; the others are out. Nothing is proved before these are
    counted too, so the level holds.
    """

    finalists: int = 2
    repeats: int = 4
    level: float = 0.9
    more_repeats: int = 0

    def __post_init__(self) -> None:
        if self.finalists < 1 or self.repeats < 1 or self.more_repeats < 0 or not 0.5 < self.level < 1:
            raise PipelineError(
                f"finalists {self.finalists}, repeats {self.repeats}, more_repeats {self.more_repeats}, level "
                f"{self.level}: accepted are at least 1, at least 1, at least 0, and above 0.5 but below 1"
            )

    def calls(self, rows: int) -> int:
        """The judge calls that a selection on so many traces can cost: the input program is judged too."""
        return (self.finalists + 1) * (self.repeats + self.more_repeats) * rows

    def select(
        self,
        seed: JudgeProgram,
        candidates: Sequence[JudgeProgram],
        rows: Sequence[LabeledTrace],
        scorer: Scorer,
        objective: Objective = SOFT_F1,
    ) -> Selection:
        """The candidate with the largest proved gain, else the input program. `candidates`: best first.

        Each of the objective's guards must hold by its own one-sided lower bound at `level`, or the gain is none.

        Raises:
            BudgetExhausted, TooFewUsable, LMError: as `Scorer.score`.
        """
        finalists = list(candidates[: self.finalists])
        if not finalists:
            return Selection(seed, False, "no gain found: no proposal was better than the input on its minibatch")
        base = scorer.score(seed, rows, self.repeats).require_usable()
        level = 1 - (1 - self.level) / len(finalists)
        read = [(candidate, scorer.score(candidate, rows, self.repeats)) for candidate in finalists]
        levels, draw = (level, self.level), scorer.context.seed
        judged = [compared(*pair, base, objective, levels, draw) for pair in read]
        ahead = [pair for pair, finalist in zip(read, judged, strict=True) if (finalist.gain.value or 0.0) > 0]
        if self.more_repeats and ahead:
            base = base.with_readings(scorer.score(seed, rows, self.more_repeats))
            read = [(one, so_far.with_readings(scorer.score(one, rows, self.more_repeats))) for one, so_far in ahead]
            judged = [compared(*pair, base, objective, levels, draw) for pair in read]
        proved = [finalist for finalist in judged if finalist.proved]
        best = max(proved or judged, key=lambda finalist: finalist.gain.value or 0.0)
        said = in_words(best.gain, level) + "".join(f"; {words}" for words in best.held if proved)
        if proved:
            return Selection(best.program, True, f"gain {said}", best.gain)
        said += "".join(f"; {words}: it may have got worse" for words in best.broken)
        return Selection(seed, False, f"no gain found: the best candidate's is {said}", best.gain)


def compared(
    program: JudgeProgram, after: Scores, base: Scores, objective: Objective, levels: tuple[float, float], seed: int
) -> Finalist:
    """A candidate's scores against those of another program on the same traces. `levels`: of the one-sided bounds of
    the gain, and of each guard."""
    rows, (level, guard_level) = base.table.rows, levels
    held: list[str] = []
    broken: list[str] = []
    for guard in objective.guards:
        change = gain_estimate(after.gains_over(base, guard.value), rows, guard_level, seed)
        # What cannot be measured may have got worse.
        holds = change.low is not None and change.low > -guard.margin
        said = in_words(change, guard_level, guard.sign)
        (held if holds else broken).append(f"{guard.name} {said}, margin {guard.margin:g}")
    gain = gain_estimate(after.gains_over(base, objective.value), rows, level, seed)
    return Finalist(program, gain, tuple(held), tuple(broken))


def gain_estimate(gains: Mapping[str, float], rows: Sequence[LabeledTrace], level: float, seed: int) -> Estimate:
    """The mean gain per trace; its `low` is the one-sided bound at `level` of the cluster bootstrap."""
    known = [row for row in rows if row.trace_id in gains]
    columns = np.array([[gains[row.trace_id], 1.0] for row in known]).reshape(-1, 2)
    # A guard that no trace moves holds here: how sure that is, the testset says.
    statistic = Statistic(columns, ratio, len(known), "no trace has a score on both sides", limits=None)
    # An interval that holds the share 2 * level - 1 has the one-sided bound at `level` as its lower end.
    settings = MetricSettings(resamples=_RESAMPLES, seed=seed, level=2 * level - 1)
    return estimates({"gain": statistic}, connected(known), settings)["gain"]


def in_words(gain: Estimate, level: float, sign: int = 1) -> str:
    """`sign` -1: said of what is better when it is lower, whose gain is a fall."""
    if gain.value is None:
        return f"unknown ({gain.reason})"
    side, bound = "lower" if sign > 0 else "upper", "unknown" if gain.low is None else f"{sign * gain.low:+.3f}"
    return f"{sign * gain.value:+.3f} per trace on {gain.n} traces (one-sided {level:.0%} {side} bound {bound})"
