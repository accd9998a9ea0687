"""What every optimiser takes and gives back. It sees the development split and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from judges.lm import LM
from judges.program import JudgeProgram
from labeled_traces.dataset import LabeledTrace
from labeled_traces.sealed import Seal
from labeled_traces.split import Development, LeakageError
from pipeline.evaluate import EvaluateSettings
from pipeline.held_out import texts_of
from pipeline.matching import Matcher
from pipeline.metrics.estimate import Estimate


@dataclass(frozen=True)
class SearchContext:
    """What a search runs with.

    `lm` answers the judges and the reflection prompts. `evaluate` gives concurrency, progress and the first repeat that
    is fresh to this search; an optimiser chooses repeats itself. `locked` holds the ids of the testset's traces: none
    of them may turn up in a search; `seal` knows what they say: no text that a search tries may say it. `bank`:
    programs of the same dimension that earlier searches on the same development split tried, better ones first; their
    parts have passed the checks of a proposal.
    """

    lm: LM
    matcher: Matcher
    reflection_model: str = "simulated/default"
    reflection_endpoint: str = ""
    evaluate: EvaluateSettings = field(default_factory=EvaluateSettings)
    seed: int = 0
    locked: frozenset[str] = frozenset()
    seal: Seal | None = None
    bank: tuple[JudgeProgram, ...] = ()


@dataclass(frozen=True)
class Trial:
    """One candidate that was proposed. `program` is None where the proposal was refused before it cost a judge call.

    `scores` are means over the traces that candidates are compared on (`score`, `coverage`, `localization`, `precision`
    and what else the optimiser goes by), empty where the candidate did not get so far; `gain` is its mean paired gain
    over its parent. `calls` counts judge calls spent on it. `parent` is the hash of the program that it was made from.
    """

    number: int
    program: JudgeProgram | None
    parent: str | None
    accepted: bool
    reason: str
    scores: Mapping[str, float] = field(default_factory=dict)
    gain: float | None = None
    calls: int = 0


NOT_SEARCHED = "nothing was searched"
"""The `stop_reason` where a search was hindered before its first call."""


@dataclass(frozen=True)
class OptimizationResult:
    """`program` is the best one found, or the input itself with `improved` False: no gain found is a result.

    `reason` says in words why this program; `stop_reason` why the search ended. `gain` is the paired difference to the
    input program of what the optimiser raises (the per-trace score, or its `objective`), with fresh repeats.
    `exhausted` is True where the run's budget ended it. `optimizer` and `versions` name what really ran. `texts`: how
    many the reflection model was to write; `useless`: why some of them could not even be tried.
    """

    program: JudgeProgram
    improved: bool
    reason: str
    stop_reason: str
    optimizer: str
    trials: tuple[Trial, ...] = ()
    gain: Estimate | None = None
    judge_calls: int = 0
    reflection_calls: int = 0
    texts: int = 0
    useless: tuple[str, ...] = ()
    exhausted: bool = False
    warnings: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


class Optimizer(Protocol):
    """Searches a program; returns a new one and leaves its input unchanged. Equal seeds give equal results.

    Settings are a frozen dataclass that the constructor takes as `settings`: see `pipeline.settings.build_optimizer`.
    One that never asks the reflection model says so with `reflects = False`; one that can tell before the first call
    that there is nothing to search says why in `hindrance`, which takes what `optimize` takes.
    """

    name: str

    def optimize(self, program: JudgeProgram, development: Development, context: SearchContext) -> OptimizationResult:
        """Returns the best program found, with every trial.

        Raises:
            LeakageError: anything but a `Development`, a locked trace in it, a trace that is in both of its parts, or a
                candidate that says what a locked trace says.
            LMError: the set-up is broken, no judge call gives a usable reply.
        """
        ...


def check_input(program: JudgeProgram, development: object, context: SearchContext) -> Development:
    """Returns the development split.

    Raises:
        LeakageError: as `check_development`; or the program, or one of the bank, holds what a locked trace says.
    """
    checked = check_development(development, context.locked)
    if context.seal is not None:
        context.seal.check(texts_of(program))
        for known in context.bank:
            context.seal.check(
                {f"in the bank of earlier programs, {name}": text for name, text in texts_of(known).items()}
            )
    return checked


def check_development(development: object, locked: frozenset[str] = frozenset()) -> Development:
    """Returns the development split.

    Raises:
        LeakageError: it is something else, it holds a locked trace, or its two parts share a trace (by id or content).
    """
    if not isinstance(development, Development):
        raise LeakageError(
            f"an optimiser was given a {type(development).__name__}: accepted is a Development, which a split "
            "manifest makes and which holds no held-out trace"
        )
    train, val = list(development.trainset), list(development.valset)
    seen = sorted({row.trace_id for row in (*train, *val)} & locked)
    if seen:
        raise LeakageError(f"{len(seen)} held-out traces are in the development split, first {seen[0]!r}")
    shared = _marks(train) & _marks(val)
    if shared:
        raise LeakageError(f"trainset and valset share traces, by id or content: {sorted(shared)[0]!r}")
    return development


def _marks(rows: list[LabeledTrace]) -> set[str]:
    return {row.trace_id for row in rows} | {row.trace.content_hash for row in rows}
