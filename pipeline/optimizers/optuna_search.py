"""Search over knobs, and over what other optimisers left: which of their texts and examples go together.

One number is maximised, the mean gain per trace over the input program, and no vector: the test that decides in the end
is on this number, which holds coverage, localization and precision already. Measured on the simulated model (7
dimensions, 3 seeds, 1,200 judgments each), four objectives found no better programs (0.919, standard error 0.005) than
one (0.918), nor did points cut short after a third of the traces (0.920) or a random sampler (0.920): at this cost the
noise of a reading decides, so the simplest is used, and no candidate is believed before the selection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np

from judges.judge import estimate_call
from judges.lm import BudgetExhausted
from judges.program import JudgeProgram
from labeled_traces.dataset import LabeledTrace
from labeled_traces.split import Development
from labeled_traces.trace import text_hash
from pipeline.optimizers.base import NOT_SEARCHED, OptimizationResult, SearchContext, Trial
from pipeline.optimizers.optuna_settings import OptunaSettings
from pipeline.optimizers.scoring import Scores, TooFewUsable
from pipeline.optimizers.search import Search, shown_traces
from pipeline.optimizers.selection import Selection
from pipeline.optimizers.space import Space, example_lines, fresh_examples, gathered, useful_limits
from pipeline.optimizers.study import Study, open_study

__all__ = ["OptunaOptimizer", "OptunaSettings"]

FEW_PROGRAMS = 5
"""A budget for fewer programs than this is warned of."""
_SAMPLE = 12
"""Traces on which the length of a program's prompts is estimated."""
Limits = Mapping[str, float]


class OptunaOptimizer:
    """The `optuna` optimiser."""

    name = "optuna"
    reflects = False

    def __init__(self, settings: OptunaSettings | None = None) -> None:
        self.settings = settings or OptunaSettings()

    def optimize(self, program: JudgeProgram, development: Development, context: SearchContext) -> OptimizationResult:
        """As `Optimizer.optimize`. A trial's `gain` is over the input program.

        Raises:
            PipelineError: the program is the holistic one, or the storage refuses.
        """
        return _Search(self.settings, program, development, context).run()

    def hindrance(self, program: JudgeProgram, development: Development, context: SearchContext) -> str | None:
        """As `Search.hindrance`."""
        return _Search(self.settings, program, development, context).hindrance()


class _Search(Search):
    """One search: its points, what it may spend, and how it ends."""

    name = OptunaOptimizer.name
    unit = "program beside the input"

    def __init__(
        self, settings: OptunaSettings, program: JudgeProgram, development: Development, context: SearchContext
    ) -> None:
        super().__init__(settings, program, development, context)
        self.settings = settings
        self.versions = {"optuna": version("optuna")}
        self.trials: list[Trial] = []
        self._known: dict[str, tuple[float | None, Limits]] = {}

    def run(self) -> OptimizationResult:
        if (hindrance := self.hindrance()) is not None:
            return self.result(self.kept(hindrance), NOT_SEARCHED)
        exhausted = False
        with open_study(self._study_name, self.context.seed, self.settings.storage) as study:
            try:
                stop_reason = self._searched(study)
                selection = self._selected()
            except (BudgetExhausted, TooFewUsable) as stop:
                exhausted, stop_reason = isinstance(stop, BudgetExhausted), str(stop)
                selection = self.cut_short(self.trials)
        return self.result(selection, stop_reason, self.trials, exhausted=exhausted, warnings=self._warnings())

    @property
    def _study_name(self) -> str:
        """Of all that gives a value its meaning: points of another search must not be taken for this one's."""
        settings = {name: value for name, value in asdict(self.settings).items() if name in _MEANING}
        evaluate = (self.context.evaluate.seed, self.context.evaluate.first_repeat, self.context.seed)
        data = [row.trace_id for row in self.train], self.development.trainset.hash, self.context.matcher.name
        content = json.dumps([self.program.hash, settings, evaluate, data], sort_keys=True, default=list)
        return f"{self.program.dimension}-{text_hash(content)[:12]}"

    # -- the search ----------------------------------------------------------------------------------------------

    def _searched(self, study: Study) -> str:
        """Tries points; returns why it ended."""
        self.space = space = self._space(study)
        self.base = self._read(self.program, 0).require_usable()
        self.most_tokens = self._tokens(self.program) * (1 + self.settings.more_tokens)
        self._known[self.program.hash] = (0.0, self._limits(self.program))
        for tried in study.tried:
            self._recall(space.program(dict(tried.point)), tried.record)
        programs = (self.program, *self.context.bank[: self.settings.starts])
        starts = [space.point(program) for program in programs]
        while (reason := self._done(study)) is None:
            asked = study.ask(space.sizes, starts)
            program = space.program(asked.params)
            record: dict[str, Any] = {}
            if asked.number == 0:
                record = self._record(self.base, True, "the input program", 0.0)
            elif program.hash not in self._known:
                record = self._tried(program, asked.number)
            value, limits = self._known[program.hash]
            study.tell(asked, value, record, limits)
            self._add(program, record)
        return reason

    def _done(self, study: Study) -> str | None:
        points = len(study.tried)
        if points >= self.settings.trials:
            again = points - len(self.trials)
            return f"{points} points were tried (trials)" + (f", {again} of them again" if again else "")
        if self.scorer.calls + self._program_calls + self._selection_calls > self.settings.max_calls:
            return f"the next program might pass {self.settings.max_calls} judge calls (max_calls)"
        return None

    def _tried(self, program: JudgeProgram, number: int) -> dict[str, Any]:
        """Reads a program that is within its limits; what is kept of it."""
        limits = self._limits(program)
        broken = [f"{name} {1 + excess:.2f} times what is allowed" for name, excess in limits.items() if excess > 0]
        if broken:
            self._known[program.hash] = (None, limits)
            return self._record(None, False, f"refused before any judge call: {', '.join(broken)}", None)
        scores = self._read(program, number)
        gains = scores.gains_over(self.base)
        gain = float(np.mean(list(gains.values()))) if gains else None
        self._known[program.hash] = (gain, limits)
        if gain is None:
            return self._record(scores, False, f"only {scores.usable:.0%} of its judgments can be used", None)
        reason = f"gain {gain:+.3f} per trace over the input on {len(gains)} traces"
        return self._record(scores, gain > 0, reason, gain)

    @staticmethod
    def _record(scores: Scores | None, accepted: bool, reason: str, gain: float | None) -> dict[str, Any]:
        means, calls = ({}, 0) if scores is None else (scores.means, scores.calls)
        return {"accepted": accepted, "reason": reason, "gain": gain, "scores": means, "calls": calls}

    def _add(self, program: JudgeProgram, record: Mapping[str, Any]) -> None:
        if record:
            self.trials.append(Trial(len(self.trials), program, self._parent(program), **record))

    def _parent(self, program: JudgeProgram) -> str | None:
        return program.parent if program is self.program else self.program.hash

    def _recall(self, program: JudgeProgram, record: Mapping[str, Any]) -> None:
        """A program that was tried before this process: its calls count against the budget."""
        self._add(program, record)
        if record and program is not self.program:
            self._known[program.hash] = (record["gain"], self._limits(program))
            self.scorer.calls += record["calls"]

    def _read(self, program: JudgeProgram, number: int) -> Scores:
        """Its scores on the traces that it shows no example of; a point's repeats follow from its number."""
        self.scorer.next_repeat = self.context.evaluate.first_repeat + number * self.settings.repeats
        return self.scorer.score(program, self._rows(program), self.settings.repeats)

    def _rows(self, program: JudgeProgram) -> list[LabeledTrace]:
        shown = shown_traces(program)
        return [row for row in self.train if row.trace_id not in shown]

    def _limits(self, program: JudgeProgram) -> Limits:
        """Constraint -> excess, 0 or less where it is kept: how long its prompts are, and how many traces its examples
        come from, half of the traces at most."""
        shown = 1 - len(self._rows(program)) / len(self.train)
        return {"prompt tokens": self._tokens(program) / self.most_tokens - 1, "traces shown": 2 * shown - 1}

    def _tokens(self, program: JudgeProgram) -> float:
        return float(np.mean([estimate_call(program, row.trace)[0] for row in self.train[:_SAMPLE]]))

    def _space(self, study: Study) -> Space:
        """Raises:
        PipelineError: as `Study.in_order`.
        """
        settings, program = self.settings, self.program
        fresh = fresh_examples(program, self.development, settings.fresh_examples, self.context.seed, self.context.seal)
        most = {part: settings.pool if part == "examples" else settings.variants for part in program.parts}
        found = gathered(program, self.context.bank, fresh)
        return Space(
            program,
            study.in_order({part: texts[: most[part]] for part, texts in found.items()}),
            useful_limits(program.knobs.trace_tokens, settings.trace_limits, self.train),
            list(dict.fromkeys([program.knobs.temperature, *settings.temperatures])),
            max(settings.max_examples, len(example_lines(program))),
            f"optuna {self.versions['optuna']}",
        )

    # -- what it costs, and how it ends --------------------------------------------------------------------------

    @property
    def _program_calls(self) -> int:
        return len(self.train) * self.settings.repeats

    @property
    def _selection_calls(self) -> int:
        return self.settings.selection.calls(len(self.val))

    def floor(self, count: int) -> int:
        return (1 + count) * self._program_calls + self._selection_calls

    def _warnings(self) -> tuple[str, ...]:
        said = []
        if self.affordable < FEW_PROGRAMS:
            said.append(
                f"max_calls {self.settings.max_calls} pays for {self.affordable} programs beside the input: "
                f"{FEW_PROGRAMS} programs need at least {self.floor(FEW_PROGRAMS)} judge calls"
            )
        if not self.context.bank:
            said.append("no step before this one left texts to choose from: only examples and knobs are searched")
        return tuple(said)

    def _selected(self) -> Selection:
        found = [trial for trial in self.trials[1:] if trial.accepted and trial.program is not None]
        if not found:
            return self.kept("no gain found: no program was better than the input on the traces that were searched on")
        ordered = sorted(found, key=lambda trial: -(trial.gain or 0.0))
        programs = [trial.program for trial in ordered if trial.program is not None]
        self.scorer.next_repeat = self.context.evaluate.first_repeat + self.settings.trials * self.settings.repeats
        return self.settings.selection.select(self.program, programs, self.val, self.scorer)


_MEANING = ("repeats", "max_examples", "temperatures", "trace_limits", "more_tokens")
"""The settings on which the meaning of a point or of its value depends."""
