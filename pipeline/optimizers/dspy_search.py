"""MIPROv2 of the DSPy library, one run per dimension, on our ledger and budget.

It proposes instructions once, from examples and a summary of the trainset, and then searches the pairs of an
instruction and a set of examples. It does not learn from what a judge got wrong: for that there is `gepa`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

import numpy as np

from judges.lm import BudgetExhausted
from judges.program import PARTS, JudgeProgram
from labeled_traces.split import Development
from pipeline.config import PipelineError
from pipeline.optimizers.base import NOT_SEARCHED, OptimizationResult, SearchContext, Trial
from pipeline.optimizers.example_sets import example_sets
from pipeline.optimizers.examples import ExampleBuilder
from pipeline.optimizers.proposals import ProposalChecks
from pipeline.optimizers.scoring import Scores, TooFewUsable
from pipeline.optimizers.search import Search, best_first
from pipeline.optimizers.selection import Selection, SelectionRule

RANDOM_TRIALS = 10
"""Optuna's TPE draws so many trials at random before it begins to model them."""


@dataclass(frozen=True)
class DspySettings:
    """Settings of one dimension's search.

    `max_calls`: judgments, never exceeded (a plan extraction, or the second try of a cut reply, is a call of the run's
    budget but not of this number); `max_trials`: readings of candidates on the valset, each `repeats` times a trace.
    `candidates`: how many instructions, and how many sets of examples, there are to choose from, the input program's
    included. `part`: the part that is the instructions. `train_traces`, `val_traces`: at most so many traces, half of
    them without labels of the dimension. `min_labels`: fewer labelled traces in train or val, and nothing is searched.
    """

    max_calls: int = 2_000
    max_trials: int = 24
    candidates: int = 6
    repeats: int = 2
    part: str = "rubric"
    train_traces: int = 60
    val_traces: int = 30
    min_labels: int = 4
    selection: SelectionRule = field(default_factory=SelectionRule)

    def __post_init__(self) -> None:
        for name in ("max_calls", "max_trials", "repeats", "min_labels"):
            if getattr(self, name) < 1:
                raise PipelineError(f"dspy setting {name} is {getattr(self, name)}: accepted is 1 or more")
        for name in ("candidates", "train_traces", "val_traces"):
            if getattr(self, name) < 2:
                raise PipelineError(f"dspy setting {name} is {getattr(self, name)}: accepted is 2 or more")
        texts = [part for part in PARTS if part != "examples"]
        if self.part not in texts:
            raise PipelineError(f"dspy setting part is {self.part!r}: accepted are {', '.join(texts)}")


class DspyOptimizer:
    """The `dspy` optimiser."""

    name = "dspy"

    def __init__(self, settings: DspySettings | None = None) -> None:
        self.settings = settings or DspySettings()

    def optimize(self, program: JudgeProgram, development: Development, context: SearchContext) -> OptimizationResult:
        """As `Optimizer.optimize`.

        Raises:
            PipelineError: the dspy library is not installed, or the program is the holistic one.
        """
        return _Search(self.settings, program, development, context).run()

    def hindrance(self, program: JudgeProgram, development: Development, context: SearchContext) -> str | None:
        """As `Search.hindrance`."""
        return _Search(self.settings, program, development, context).hindrance()


@dataclass
class _Candidate:
    """A program with all its readings on the valset."""

    program: JudgeProgram
    readings: list[Scores] = field(default_factory=list)

    @property
    def scores(self) -> dict[str, float]:
        """The means of its readings."""
        means = [scores.means for scores in self.readings]
        names = dict.fromkeys(name for row in means for name in row)
        return {name: float(np.mean([row[name] for row in means if name in row])) for name in names}

    def gain_over(self, base: _Candidate) -> float | None:
        """The mean paired gain per trace, over all readings of both; None where one of its readings lost too many
        replies to say."""
        gains = [_mean(reading.gains_over(before)) for reading in self.readings for before in base.readings]
        known = [gain for gain in gains if gain is not None]
        return float(np.mean(known)) if len(known) == len(gains) else None


class _Search(Search):
    """One search: what it may spend, and what it has read."""

    name = DspyOptimizer.name
    unit = "trial"

    def __init__(
        self, settings: DspySettings, program: JudgeProgram, development: Development, context: SearchContext
    ) -> None:
        super().__init__(settings, program, development, context)
        self.settings = settings
        self.versions = _versions()
        self.checks = ProposalChecks(program, development, context.seal)
        self.refused: list[str] = []
        self.failures: list[str] = []
        self.candidates: dict[str, _Candidate] = {}
        self.told: list[float] = []

    def run(self) -> OptimizationResult:
        if (hindrance := self.hindrance()) is not None:
            return self.result(self.kept(hindrance), NOT_SEARCHED)
        try:
            stop_reason = self._searched()
            candidates = best_first(self.trials)
            selection = self.settings.selection.select(self.program, candidates, self.val, self.scorer)
        except (BudgetExhausted, TooFewUsable) as stop:
            return self._end(self.cut_short(self.trials), str(stop), exhausted=isinstance(stop, BudgetExhausted))
        return self._end(selection, stop_reason)

    def _searched(self) -> str:
        """Runs MIPROv2; returns why it ended.

        Raises:
            BudgetExhausted, TooFewUsable, LMError: as `Scorer.score`.
        """
        from pipeline.optimizers.dspy_lm import Engine, Stopped, borrowed
        from pipeline.optimizers.dspy_mipro import JudgeMIPRO

        settings, seed = self.settings, self.context.seed
        catalogue = ExampleBuilder(self.train).catalogue(self.program.dimension)
        sets = example_sets(self.program, catalogue, self.checks, settings.candidates, seed)
        trials = min(settings.max_trials, self.affordable)
        engine = Engine(self.reflector, self.failures)
        try:
            with borrowed(engine) as lm:
                mipro = JudgeMIPRO(lm, self.read, self.passing, settings.candidates, seed)
                shown = [line for _, line in catalogue]
                mipro.search(
                    self.program, settings.part, sets, shown, trials, f"MIPROv2 of dspy {self.versions['dspy']}"
                )
        except Stopped as stop:
            raise stop.cause from None
        if not self.candidates:
            return f"there is nothing to choose from: {'; '.join(self.refused) or 'nothing new was proposed'}"
        return f"{trials} trials were made ({'max_trials' if trials == settings.max_trials else 'max_calls'})"

    # -- what MIPROv2 asks for ----------------------------------------------------------------------------------

    def passing(self, instructions: Sequence[str]) -> list[str]:
        """The instructions without doubles and without those that the checks refuse; the first is the input's own."""
        own, *proposed = instructions
        passed = [own]
        self.reflector.texts += len(proposed)
        for text in proposed:
            reason = self.checks.refuse({self.settings.part: text}).get(self.settings.part)
            if reason is not None:
                self.refused.append(f"{self.settings.part}: {reason}")
                self.reflector.useless.append(self.refused[-1])
            elif text not in passed:
                passed.append(text)
        return passed

    def read(self, program: JudgeProgram) -> float:
        """A new reading of a program on the valset, as its score: the input program's mean plus the mean paired gain.

        A reading that lost too many replies says nothing; since MIPROv2 wants a number it gets the lowest so far.

        Raises:
            BudgetExhausted, TooFewUsable, LMError: as `Scorer.score`.
        """
        scores = self.scorer.score(program, self.val, self.settings.repeats)
        if not self.candidates:
            scores.require_usable()
        self.candidates.setdefault(program.hash, _Candidate(program)).readings.append(scores)
        base = self.base.readings[0]
        gain = _mean(scores.gains_over(base))
        self.told.append(min(self.told) if gain is None else (base.mean or 0.0) + gain)
        return self.told[-1]

    @property
    def base(self) -> _Candidate:
        """The input program, which is read first."""
        return next(iter(self.candidates.values()))

    # -- how it ends ---------------------------------------------------------------------------------------------

    @property
    def trials(self) -> list[Trial]:
        """The input program, then each candidate with all its readings, then what was refused."""
        found = [self._trial(number, candidate) for number, candidate in enumerate(self.candidates.values())]
        refused = [
            Trial(number, None, self.program.hash, False, f"refused before any judge call: {reason}")
            for number, reason in enumerate(self.refused, len(found))
        ]
        return [*found, *refused]

    def _trial(self, number: int, candidate: _Candidate) -> Trial:
        calls = sum(scores.calls for scores in candidate.readings)
        if number == 0:
            parent = self.program.parent
            return Trial(0, self.program, parent, True, "the input program", candidate.scores, calls=calls)
        gain = candidate.gain_over(self.base)
        accepted = gain is not None and gain > 0
        usable = min(scores.usable for scores in candidate.readings)
        said = f"only {usable:.0%} of its judgments can be used" if gain is None else f"gain {gain:+.3f} per trace"
        reason = f"{'accepted' if accepted else 'rejected'} on the valset, read {len(candidate.readings)} times: {said}"
        return Trial(
            number, candidate.program, self.program.hash, accepted, reason, candidate.scores, gain=gain, calls=calls
        )

    def _end(self, selection: Selection, stop_reason: str, *, exhausted: bool = False) -> OptimizationResult:
        return self.result(
            selection,
            stop_reason,
            self.trials,
            exhausted=exhausted,
            warnings=self._warnings(),
        )

    # -- what it costs -------------------------------------------------------------------------------------------

    def floor(self, count: int) -> int:
        return (1 + count) * len(self.val) * self.settings.repeats + self.settings.selection.calls(len(self.val))

    def _warnings(self) -> tuple[str, ...]:
        trials = min(self.settings.max_trials, self.affordable)
        few = f"{trials} trials are all drawn at random: the search models them from {RANDOM_TRIALS + 1} on"
        failed = f"{len(self.failures)} replies of the reflection model are missing, the first one: "
        return (
            *([few] if trials <= RANDOM_TRIALS else []),
            *([failed + self.failures[0]] if self.failures else []),
        )


def _mean(gains: Mapping[str, float]) -> float | None:
    return float(np.mean(list(gains.values()))) if gains else None


def _versions() -> dict[str, str]:
    """The installed libraries' versions.

    Raises:
        PipelineError: they are not installed; nothing else runs in their place.
    """
    try:
        import dspy  # noqa: F401
        import optuna  # noqa: F401

        return {name: version(name) for name in ("dspy", "optuna")}
    except ImportError as error:
        raise PipelineError(
            f"optimizer dspy needs the dspy library ({error}): pip install 'dspy[optuna]>=3.4'"
        ) from error
