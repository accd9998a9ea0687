"""Our judges as the gepa library sees them: data, evaluation, feedback, proposals, acceptance.

The library (0.1.4) swallows and repeats what a proposal raises, takes an empty text for a text, and accepts a change
without effect half of the time; so stops are kept here, proposals are checked here, and acceptance is a paired test.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from gepa.core.adapter import EvaluationBatch, GEPAAdapter

from judges.lm import BudgetExhausted
from judges.program import PARTS, JudgeProgram
from labeled_traces.dataset import LabeledTrace
from pipeline.metrics.cell import Cell
from pipeline.optimizers.base import Trial
from pipeline.optimizers.proposer import Proposal, Proposer, Told
from pipeline.optimizers.scoring import Scorer, Scores
from pipeline.optimizers.selection import gain_p_value

T = TypeVar("T")
Candidate = dict[str, str]
Read = tuple[LabeledTrace, tuple[Cell, ...]]


@dataclass(frozen=True)
class Tools:
    """What the adapter works with."""

    seed: JudgeProgram
    scorer: Scorer
    proposer: Proposer
    repeats: int
    origin: str
    alpha: float


class JudgeAdapter(GEPAAdapter):  # type: ignore[misc]
    """Evaluates, reflects and proposes for one judge. It keeps the bank of trials and what should stop the search.

    Also gepa's acceptance criterion and callback, since both write into the bank.
    """

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self.trials: list[Trial] = []
        self.stop: BaseException | None = None
        self.failures = 0
        self._programs = {_key(tools.seed.parts): tools.seed}
        self._latest: dict[str, Scores] = {}
        self.last = Proposal({})

    # -- evaluation --------------------------------------------------------------------------------------------

    def evaluate(self, batch: list[LabeledTrace], candidate: Candidate, capture_traces: bool = False) -> Any:
        """Scores per trace, the batch's mean where a trace has no usable judgment.

        Raises:
            TooFewUsable: most judgments of the input program cannot be used. (Of a candidate: it is not accepted.)
            BudgetExhausted, LMError: as `Scorer.score`.
        """
        program = self.program(candidate)
        scores = self.tools.scorer.score(program, batch, self.tools.repeats)
        if program is self.tools.seed:
            scores.require_usable()
        self._latest[program.hash] = scores
        cells: dict[str, list[Cell]] = {row.trace_id: [] for row in batch}
        for (trace_id, _, _), cell in scores.table.cells.items():
            cells[trace_id].append(cell)
        return EvaluationBatch(
            outputs=list(scores.by_trace.values()),
            scores=scores.filled,
            trajectories=[(row, tuple(cells[row.trace_id])) for row in batch] if capture_traces else None,
            objective_scores=[dict(row) for row in scores.objectives.values()],
            num_metric_calls=scores.calls,
        )

    def program(self, candidate: Candidate) -> JudgeProgram:
        """The program of a candidate that this adapter was given or has proposed."""
        return self._programs[_key(candidate)]

    # -- reflection --------------------------------------------------------------------------------------------

    def make_reflective_dataset(
        self,
        candidate: Candidate,  # noqa: ARG002 (gepa's signature)
        eval_batch: Any,
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What every part's proposal is made from."""
        return self._guarded(lambda: self._dataset(eval_batch.trajectories, components_to_update), {})

    def _dataset(self, trajectories: Sequence[Read], parts: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        told = Told.of(trajectories, self.tools.seed.dimension)
        return {part: [{"told": told}] for part in parts}

    def propose_new_texts(
        self,
        candidate: Candidate,
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> Candidate:
        """The parts that changed and passed the checks; empty if none did, and gepa then spends nothing on it.

        `failures` counts the proposals in a row that gave nothing, or for which the reflection model gave no reply.
        """
        nothing: Candidate = {}
        self.last = Proposal(nothing)
        texts = self._guarded(lambda: self._propose(candidate, reflective_dataset, components_to_update), nothing)
        self.failures = 0 if texts and self.last.replied else self.failures + 1
        return texts

    def _propose(
        self, candidate: Candidate, dataset: Mapping[str, Sequence[Mapping[str, Any]]], parts: Sequence[str]
    ) -> Candidate:
        parent = self.program(candidate)
        draw = random.Random(f"{self.tools.scorer.context.seed}/examples/{parent.dimension}/{len(self.trials)}")
        self.last = self.tools.proposer.propose(parent, parts, dataset[parts[0]][0]["told"], draw)
        texts = dict(self.last.texts)
        if not texts:
            why = f"refused before any judge call: {self.last.why}"
            self._add(Trial(len(self.trials), None, parent.hash, False, why))
        else:
            child = parent.with_parts(texts, self.tools.origin)
            self._programs.setdefault(_key(child.parts), child)
        return texts

    def _guarded(self, work: Callable[[], T], empty: T) -> T:
        """gepa would log what this raises, and ask again: it is kept instead, and ends the search."""
        if self.stop is not None:
            return empty
        try:
            return work()
        except Exception as error:  # the worker edge: raised again when gepa has returned
            self.stop = error
            return empty

    # -- acceptance (gepa's AcceptanceCriterion) -----------------------------------------------------------------

    def should_accept(self, proposal: Any, state: Any) -> bool:
        """Whether the child's paired gain on its minibatch is above 0 beyond chance, at `alpha`."""
        child = self.program(proposal.candidate)
        parent = self.program(state.program_candidates[proposal.parent_program_ids[0]])
        after = self._latest[child.hash]
        gains = list(after.gains_over(self._latest[parent.hash]).values())
        p = gain_p_value(gains, self.tools.scorer.context.seed)
        gain = float(np.mean(gains)) if gains else None
        accepted = gain is not None and gain > 0 and p <= self.tools.alpha
        reason = f"{'accepted' if accepted else 'rejected'} on its minibatch: "
        if gain is None:
            reason += f"only {after.usable:.0%} of its judgments can be used"
        else:
            reason += f"gain {gain:+.3f} per trace on {len(gains)} traces, p = {p:.2f}"
        reason += "".join(f"; not taken over, {refusal}" for refusal in self.last.refused)
        self._add(Trial(len(self.trials), child, parent.hash, accepted, reason, gain=gain, calls=after.calls))
        return accepted

    # -- gepa's callback -----------------------------------------------------------------------------------------

    def on_valset_evaluated(self, event: Mapping[str, Any]) -> None:
        self._guarded(lambda: self._record_val(event), None)

    def _record_val(self, event: Mapping[str, Any]) -> None:
        program = self.program(event["candidate"])
        scores = self._latest[program.hash]
        if not event["parent_ids"]:
            self._add(Trial(0, program, program.parent, True, "the input program", scores.means, calls=scores.calls))
            return
        last = self.trials[-1]
        self.trials[-1] = replace(last, scores=scores.means, calls=last.calls + scores.calls)

    def _add(self, trial: Trial) -> None:
        self.trials.append(trial)

    @property
    def broken(self) -> BaseException | None:
        """What must be raised to the caller: neither the end of a budget nor a batch without usable judgments."""
        return None if isinstance(self.stop, BudgetExhausted) else self.stop


def _key(candidate: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(candidate[part] for part in PARTS)
