"""Candidates are judged on fresh repeats and scored per trace. Shared by every optimiser that searches."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from judges.program import JudgeProgram, JudgeSuite
from labeled_traces.dataset import LabeledTrace
from pipeline.evaluate import evaluate
from pipeline.held_out import texts_of
from pipeline.metrics.table import MatchTable, match_judgments
from pipeline.metrics.trace_scores import trace_scores
from pipeline.optimizers.base import SearchContext

LEAST_USABLE = 0.5
"""A batch with a smaller share of usable judgments says nothing of a candidate."""
MOST_LOST = 0.1
"""A candidate that loses a larger share of its replies than the other side is no gain, whatever the rest says."""


class TooFewUsable(RuntimeError):
    """Most judgments of the input program cannot be used, so no candidate can be compared with it."""


PerTrace: TypeAlias = "Callable[[Scores], Mapping[str, float | None]]"
"""A value of each trace, None where it has none; higher is better."""


@dataclass(frozen=True)
class Scores:
    """One candidate on a batch of traces.

    `by_trace`: the per-trace score in [0, 1], None where no judgment is usable. `objectives`: per trace `coverage`,
    `localization` and `precision`, each only where it is defined. `calls` is the number of judgments.
    """

    table: MatchTable
    by_trace: Mapping[str, float | None]
    objectives: Mapping[str, Mapping[str, float]]
    calls: int

    @classmethod
    def of(cls, table: MatchTable, calls: int) -> Scores:
        """Of a table with one dimension."""
        dimension = table.dimensions[0]
        return cls(table, trace_scores(table, dimension), _objectives(table, dimension), calls)

    def with_readings(self, other: Scores) -> Scores:
        """The same traces with the repeats of both."""
        repeats = tuple(sorted({*self.table.repeats, *other.table.repeats}))
        cells = {**self.table.cells, **other.table.cells}
        return Scores.of(replace(self.table, repeats=repeats, cells=cells), self.calls + other.calls)

    @property
    def usable(self) -> float:
        """The share of judgments that can be used."""
        return float(self.table.usable.sum() / max(1, self.calls))

    @property
    def mean(self) -> float | None:
        known = [score for score in self.by_trace.values() if score is not None]
        return float(np.mean(known)) if known else None

    @property
    def filled(self) -> list[float]:
        """One score per trace; a trace without a usable judgment has the mean of the others: missing, not zero."""
        mean = self.mean or 0.0
        return [mean if score is None else score for score in self.by_trace.values()]

    @property
    def means(self) -> dict[str, float]:
        """`score` and each objective, averaged over the traces where it is defined."""
        means = {} if self.mean is None else {"score": self.mean}
        for name in ("coverage", "localization", "precision"):
            values = [row[name] for row in self.objectives.values() if name in row]
            if values:
                means[name] = float(np.mean(values))
        return means

    def require_usable(self) -> Scores:
        """Returns itself.

        Raises:
            TooFewUsable: fewer than half of the judgments can be used.
        """
        if self.usable < LEAST_USABLE:
            name = self.table.dimensions[0]
            raise TooFewUsable(
                f"{self.usable:.0%} of {self.calls} {name} judgments can be used: to compare candidates, at least "
                f"{LEAST_USABLE:.0%} are needed"
            )
        return self

    def gains_over(self, before: Scores, value: PerTrace = lambda scores: scores.by_trace) -> dict[str, float]:
        """Trace id -> gain in a value, for the traces that have it on both sides. Empty where this side lost too many
        replies: a candidate must not win by failing on hard traces."""
        if self.usable < max(LEAST_USABLE, before.usable - MOST_LOST):
            return {}
        ours, theirs = value(self), value(before)
        return {
            trace_id: new - old
            for trace_id, new in ours.items()
            if new is not None and (old := theirs.get(trace_id)) is not None
        }


class Scorer:
    """Judges candidates of one dimension. Every call takes repeat numbers that no earlier call of this search used."""

    def __init__(self, context: SearchContext, dimension: str) -> None:
        self.context = context
        self.dimension = dimension
        self.calls = 0
        self.next_repeat = context.evaluate.first_repeat

    def score(self, program: JudgeProgram, rows: Sequence[LabeledTrace], repeats: int) -> Scores:
        """Judges the rows `repeats` times.

        Raises:
            BudgetExhausted: the run's budget ended.
            LMError: no call succeeded at all.
            LeakageError: a text of the program, wherever it is from, was copied from a locked trace.
        """
        if self.context.seal is not None:
            self.context.seal.check(texts_of(program))
        settings = replace(self.context.evaluate, repeats=repeats, first_repeat=self.next_repeat)
        self.next_repeat += repeats
        calls = len(rows) * repeats
        self.calls += calls
        judgments = evaluate(JudgeSuite({program.dimension: program}), rows, self.context.lm, settings)
        return Scores.of(match_judgments(rows, judgments, self.context.matcher), calls)


def choose_rows(
    rows: Sequence[LabeledTrace], dimension: str, cap: int, seed: int, clean_each: float = 1.0
) -> list[LabeledTrace]:
    """At most `cap` traces that carry signal: those with labels of the dimension, up to half of the cap or more where
    clean ones are scarce, and for each of them `clean_each` clean ones.

    Which ones, where there are too many, is drawn with the seed; the order is that of `rows`.
    """
    draw = random.Random(f"{seed}/{dimension}")
    labelled = [row for row in rows if row.errors_of(dimension)]
    clean = [row for row in rows if row.is_clean_of((dimension,))]
    n_labelled = min(len(labelled), max(cap - len(clean), (cap + 1) // 2))
    n_clean = int(min(len(clean), n_labelled * clean_each, cap - n_labelled))
    chosen = {row.trace_id for row in (*draw.sample(labelled, n_labelled), *draw.sample(clean, n_clean))}
    return [row for row in rows if row.trace_id in chosen]


def _objectives(table: MatchTable, dimension: str) -> dict[str, dict[str, float]]:
    """Per trace, over its usable repeats; what has nothing to count on a trace is left out."""
    names = ("coverage", "localization", "precision")
    hits = {trace_id: np.zeros((2, len(names))) for trace_id in table.trace_ids}
    for (trace_id, name, _), cell in table.cells.items():
        if name == dimension and cell.usable and cell.complete:
            placed = [error for error in cell.errors if error.span_id is not None]
            decidable = placed if table.needs_span else cell.errors
            hits[trace_id][0] += (len(cell.pairs), len(cell.located), len(cell.pairs))
            hits[trace_id][1] += (len(decidable), len(placed), len(cell.findings))
    return {
        trace_id: {name: float(top / all_) for name, top, all_ in zip(names, *sums, strict=True) if all_}
        for trace_id, sums in hits.items()
    }
