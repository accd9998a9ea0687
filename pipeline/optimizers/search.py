"""What every search has: its traces, its scorer, and how it ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from judges.judgment import HOLISTIC
from judges.program import JudgeProgram
from labeled_traces.split import Development
from pipeline.config import PipelineError
from pipeline.optimizers.base import OptimizationResult, SearchContext, Trial, check_input
from pipeline.optimizers.reflection import Reflector
from pipeline.optimizers.scoring import Scorer, choose_rows
from pipeline.optimizers.selection import Selection, SelectionRule


class SearchSettings(Protocol):
    """What the settings of every search have. Traces: at most so many, half of them without labels of the dimension."""

    @property
    def max_calls(self) -> int: ...
    @property
    def train_traces(self) -> int: ...
    @property
    def val_traces(self) -> int: ...
    @property
    def min_labels(self) -> int: ...
    @property
    def selection(self) -> SelectionRule: ...


class Search(ABC):
    """One search of one dimension's program; `name` is the optimiser's, `versions` are those of its libraries, `unit`
    is what it reads one after the other."""

    name: str
    unit: str
    versions: Mapping[str, str]

    def __init__(
        self, settings: SearchSettings, program: JudgeProgram, development: Development, context: SearchContext
    ) -> None:
        """Raises:
        LeakageError: as `check_input`.
        PipelineError: the program is the holistic one.
        """
        check_input(program, development, context)
        if program.dimension == HOLISTIC:
            raise PipelineError(f"{self.name} searches the judge of one dimension: the holistic judge is a baseline")
        self.program = program
        self.development = development
        self.context = context
        self.train, self.val = (
            choose_rows(list(rows), program.dimension, most, context.seed)
            for rows, most in ((development.trainset, settings.train_traces), (development.valset, settings.val_traces))
        )
        self.scorer = Scorer(context, program.dimension)
        self.reflector = Reflector(context, program.dimension)
        self._min_labels = settings.min_labels
        self._max_calls = settings.max_calls

    def hindrance(self) -> str | None:
        """Why nothing can be searched, if so: known before the first call."""
        dimension, least = self.program.dimension, self._min_labels
        for name, rows in (("trainset", self.train), ("valset", self.val)):
            labelled = sum(bool(row.errors_of(dimension)) for row in rows)
            if labelled < least:
                there = f"{labelled} traces of the {name} have one of {dimension}"
                return f"too few labels: {there}, at least {least} are needed in trainset and valset each (min_labels)"
        if self.affordable < 1:
            said = f"max_calls {self._max_calls} does not pay for one {self.unit}"
            return f"{said}: {self.floor(1)} judge calls for each dimension do"
        return None

    @abstractmethod
    def floor(self, count: int) -> int:
        """The most judge calls that so many units need, with all that is read beside them."""

    @property
    def affordable(self) -> int:
        """How many units `max_calls` pays for, if each of them goes all the way."""
        none, one = self.floor(0), self.floor(1)
        return max(0, (self._max_calls - none) // (one - none))

    def kept(self, reason: str) -> Selection:
        """The input program, and why."""
        return Selection(self.program, False, reason)

    def cut_short(self, trials: Sequence[Trial]) -> Selection:
        """The input program, because the search ended before its selection."""
        found = len(best_first(trials))
        return self.kept(f"the search was cut short before a gain could be proved ({found} candidates are kept)")

    def result(
        self,
        selection: Selection,
        stop_reason: str,
        trials: Sequence[Trial] = (),
        *,
        exhausted: bool = False,
        warnings: tuple[str, ...] = (),
    ) -> OptimizationResult:
        return OptimizationResult(
            program=selection.program,
            improved=selection.improved,
            reason=selection.reason,
            stop_reason=stop_reason,
            optimizer=self.name,
            trials=tuple(trials),
            gain=selection.gain,
            judge_calls=self.scorer.calls,
            reflection_calls=self.reflector.calls,
            texts=self.reflector.texts,
            useless=tuple(self.reflector.useless),
            exhausted=exhausted,
            warnings=(*warnings, *self._useless()),
            versions=self.versions,
        )

    def _useless(self) -> Iterator[str]:
        """Some refused texts are part of every search."""
        texts, useless = self.reflector.texts, self.reflector.useless
        if 2 * len(useless) > texts:
            yield (
                f"{len(useless)} of {texts} texts of the reflection model {self.context.reflection_model} could not be "
                f"tried: {useless[0]}"
            )


def shown_traces(*programs: JudgeProgram) -> set[str]:
    """The traces that the programs' examples come from: no fair place to read those programs on."""
    return {str(example.get("trace_id")) for program in programs for example in program.shown_examples}


def best_first(trials: Sequence[Trial]) -> list[JudgeProgram]:
    """Accepted candidates by their mean score, without the input program (the first trial); the earlier one first in a
    tie."""
    found = [trial for trial in trials[1:] if trial.accepted and trial.program is not None and trial.scores]
    ordered = sorted(found, key=lambda trial: (-trial.scores["score"], trial.number))
    return [trial.program for trial in ordered if trial.program is not None]
