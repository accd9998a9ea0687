"""Evolution of a judge towards consistency: the same verdict in every repeat, with what it finds kept.

Every candidate is read on traces of the trainset that no example shows; the last word has a paired test on other traces
with fresh repeats. Nothing is kept but in the ledger: an equal search asks the same calls again and gets their replies.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import numpy as np

from judges.lm import BudgetExhausted
from judges.program import JudgeProgram
from labeled_traces.dataset import LabeledTrace
from labeled_traces.groups import connected
from labeled_traces.split import Development
from pipeline.optimizers.archive import Member, best_first
from pipeline.optimizers.base import NOT_SEARCHED, OptimizationResult, SearchContext, Trial
from pipeline.optimizers.breeding import Bred, Breeder
from pipeline.optimizers.evolution_settings import EvolutionSettings
from pipeline.optimizers.examples import ExampleBuilder
from pipeline.optimizers.islands import Islands
from pipeline.optimizers.objective import Change, Objective, consistency_objective
from pipeline.optimizers.proposals import ProposalChecks
from pipeline.optimizers.proposer import Proposer
from pipeline.optimizers.scoring import Scores, TooFewUsable, choose_rows
from pipeline.optimizers.search import Search, shown_traces
from pipeline.optimizers.selection import Selection, gain_p_value

__all__ = ["EvolutionOptimizer", "EvolutionSettings"]

FEW_ROUNDS = 2
"""A budget for fewer rounds of all islands than this is warned of: nothing can migrate and be built upon."""
_RESERVE = 1 / 3
"""The share of labelled train traces that is kept for examples and for the proof."""


class EvolutionOptimizer:
    """The `evolution` optimiser."""

    name = "evolution"

    def __init__(self, settings: EvolutionSettings | None = None) -> None:
        self.settings = settings or EvolutionSettings()

    @property
    def objective(self) -> Objective:
        """What it raises, and what it must keep."""
        return consistency_objective(self.settings.margins)

    def optimize(self, program: JudgeProgram, development: Development, context: SearchContext) -> OptimizationResult:
        """As `Optimizer.optimize`. `gain` is in consistency, `TraceConsistency.value`.

        Raises:
            PipelineError: the program is the holistic one.
        """
        return _Search(self.settings, self.objective, program, development, context).run()

    def hindrance(self, program: JudgeProgram, development: Development, context: SearchContext) -> str | None:
        """As `Search.hindrance`."""
        return _Search(self.settings, self.objective, program, development, context).hindrance()


class _Search(Search):
    """One evolution: the traces it reads on, what it may spend, its islands and its trials."""

    name = EvolutionOptimizer.name
    unit = "candidate"

    def __init__(
        self,
        settings: EvolutionSettings,
        objective: Objective,
        program: JudgeProgram,
        development: Development,
        context: SearchContext,
    ) -> None:
        super().__init__(settings, program, development, context)
        self.settings = settings
        self.versions = {}
        self.train, self.val = self._rows()
        self.objective = objective
        checks = ProposalChecks(program, development, context.seal)
        proposer = Proposer(self.reflector, checks, ExampleBuilder(list(development.trainset)))
        self.breeder = Breeder(proposer, settings.crossover, settings.part_rate)
        self.known: set[str] = set()
        self.trials: list[Trial] = []

    def _rows(self) -> tuple[list[LabeledTrace], list[LabeledTrace]]:
        """The traces to search on, and those to prove on: val, and train traces of groups that are not searched on.

        What the input program shows is in neither. A share of the labelled train traces is reserved, since examples of
        errors can be made only from traces that no candidate is read on.
        """
        settings, dimension, seed = self.settings, self.program.dimension, self.context.seed
        shown = shown_traces(self.program)
        train = [row for row in self.development.trainset if row.trace_id not in shown]
        labelled = [row.trace_id for row in train if row.errors_of(dimension)]
        reserve = set(random.Random(f"{seed}/reserve/{dimension}").sample(labelled, int(len(labelled) * _RESERVE)))
        pool = [row for row in train if row.trace_id not in reserve]
        search = choose_rows(pool, dimension, settings.train_traces, seed, settings.clean_each)
        groups = dict(zip((row.trace_id for row in train), connected(train), strict=True))
        taken = {groups[row.trace_id] for row in search}
        others = [*self.development.valset, *(row for row in train if groups[row.trace_id] not in taken)]
        return search, choose_rows(others, dimension, settings.val_traces, seed, clean_each=math.inf)

    def run(self) -> OptimizationResult:
        if (hindrance := self.hindrance()) is not None:
            return self.result(self.kept(hindrance), NOT_SEARCHED)
        exhausted = False
        try:
            stop_reason = self._evolve()
            selection = self._selected()
        except (BudgetExhausted, TooFewUsable) as stop:
            exhausted, stop_reason = isinstance(stop, BudgetExhausted), str(stop)
            selection = self.cut_short(self.trials)
        return self.result(selection, stop_reason, self.trials, exhausted=exhausted, warnings=self._warnings())

    # -- the search ----------------------------------------------------------------------------------------------

    def _evolve(self) -> str:
        """Fills the islands; returns why it ended."""
        settings = self.settings
        self.base = self._score(self.program, 2 * settings.repeats).require_usable()
        self.known.add(self.program.hash)
        name = f"{self.context.seed}/evolution/{self.program.dimension}"
        self.islands = Islands(settings.islands, Member(self.program, self.base, 0.0), name)
        means = self._means(self.base)
        self._add(self.program, self.program.parent, True, "the input program", scores=means, calls=self.base.calls)
        margin, found = settings.margins.coverage, means.get("coverage", 0.0)
        if found <= margin:
            return f"the input finds {found:.0%} of the labels: with a margin of {margin:g} a silent judge would pass"
        if means.get("consistency") == 1.0:
            return f"the input says the same in every repeat on all {len(self.train)} traces"
        turn, failures, why = 0, 0, ""
        while (reason := self._done(turn, failures, why)) is None:
            island = turn % settings.islands
            if turn and turn % (settings.islands * settings.migrate_every) == 0:
                self.islands.migrate()
            bred = self.breeder.breed(self.islands.parents(island), self.known, self.islands.draws[island])
            if bred.proposal is not None:
                failed = bred.program is None or not bred.proposal.replied
                failures, why = (failures + 1 if failed else 0), bred.proposal.why
            self._try(bred, island, why)
            turn += 1
        return reason

    def _done(self, turn: int, failures: int, why: str) -> str | None:
        settings = self.settings
        if failures >= settings.max_failures:
            return f"{failures} proposals in a row failed: {why}"
        if turn >= settings.max_candidates:
            return f"{turn} candidates were made (max_candidates)"
        if self.scorer.calls + self._candidate_calls + self._last_calls > settings.max_calls:
            return f"the next candidate might pass {settings.max_calls} judge calls (max_calls)"
        return None

    def _try(self, bred: Bred, island: int, why: str) -> None:
        """Reads a candidate and offers it to its island; `why` says why there is none."""
        parent = bred.parent
        if bred.program is None:
            self._add(None, parent.program.hash, False, f"{bred.how} before any judge call: {why}")
            return
        self.known.add(bred.program.hash)
        scores = self._score(bred.program)
        gains = list(scores.gains_over(parent.scores, self.objective.value).values())
        p = gain_p_value(gains, self.context.seed)
        gain = float(np.mean(gains)) if gains else None
        change = Change.of(self.objective, scores, self.base)
        said = "" if gain is None else f", consistency {gain:+.3f} per trace over its parent (p = {p:.2f})"
        fate = self._offer(Member(bred.program, scores, change.gain or 0.0), change, island)
        self._add(
            bred.program,
            parent.program.hash,
            not change.faults and gain is not None and gain > 0 and p <= self.settings.alpha,
            f"{bred.how}{said}; {fate}" + "".join(f"; not taken over, {refusal}" for refusal in bred.refused),
            scores=self._means(scores),
            gain=gain,
            calls=scores.calls,
        )

    def _offer(self, member: Member, change: Change, island: int) -> str:
        """What becomes of a candidate, in words."""
        if change.faults:
            return f"cannot stay: {', '.join(change.faults)}"
        if self.islands.archives[island].offer(member):
            return f"stays on island {island}"
        return f"cannot stay on island {island}: a program of its length and precision is more consistent"

    def _selected(self) -> Selection:
        """The best members are read once more, so that luck does not choose; one is then proved on other traces."""
        again = []
        for member in [member for member in self.islands.members if member.gain > 0][: self.settings.reread]:
            scores = member.scores.with_readings(self._score(member.program))
            change = Change.of(self.objective, scores, self.base)
            if not change.faults and change.gain is not None and change.gain > 0:
                again.append(Member(member.program, scores, change.gain))
        if not again:
            return self.kept("no gain found: no candidate is more consistent than the input and finds what it finds")
        rule, programs = self.settings.selection, [member.program for member in best_first(again)]
        shown = shown_traces(*programs[: rule.finalists])
        rows = [row for row in self.val if row.trace_id not in shown]
        return rule.select(self.program, programs, rows, self.scorer, self.objective)

    def _score(self, program: JudgeProgram, repeats: int | None = None) -> Scores:
        return self.scorer.score(program, self.train, repeats or self.settings.repeats)

    def _means(self, scores: Scores) -> dict[str, float]:
        known = [value for value in self.objective.value(scores).values() if value is not None]
        return {**scores.means, "consistency": float(np.mean(known))} if known else scores.means

    def _add(
        self,
        program: JudgeProgram | None,
        parent: str | None,
        accepted: bool,
        reason: str,
        *,
        scores: Mapping[str, float] | None = None,
        gain: float | None = None,
        calls: int = 0,
    ) -> None:
        self.trials.append(Trial(len(self.trials), program, parent, accepted, reason, scores or {}, gain, calls))

    # -- what it costs -------------------------------------------------------------------------------------------

    @property
    def _candidate_calls(self) -> int:
        return len(self.train) * self.settings.repeats

    @property
    def _last_calls(self) -> int:
        """The most that the choice can cost: the second reading and the proof."""
        return self.settings.reread * self._candidate_calls + self.settings.selection.calls(len(self.val))

    def floor(self, count: int) -> int:
        return (2 + count) * self._candidate_calls + self._last_calls

    def _warnings(self) -> tuple[str, ...]:
        enough = FEW_ROUNDS * self.settings.islands
        if self.affordable >= enough:
            return ()
        return (
            f"max_calls {self.settings.max_calls} pays for {self.affordable} candidates on {self.settings.islands} "
            f"islands, so nothing can spread and be built upon: {enough} candidates need at least "
            f"{self.floor(enough)} judge calls",
        )
