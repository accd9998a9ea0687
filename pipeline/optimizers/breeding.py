"""How a candidate is made: parts of two parents, or one parent with parts that the reflection model has rewritten."""

from __future__ import annotations

import random
from collections.abc import Container
from dataclasses import dataclass, replace

from judges.program import PARTS, JudgeProgram
from labeled_traces.dataset import LabeledTrace
from pipeline.metrics.cell import Cell
from pipeline.optimizers.archive import Member
from pipeline.optimizers.objective import consistency
from pipeline.optimizers.proposer import Proposal, Proposer, Told
from pipeline.optimizers.scoring import Scores

ORIGIN = "evolution"


@dataclass(frozen=True)
class Bred:
    """A candidate, its first parent and how it was made; `program` is None where nothing came of it.

    `proposal`: what the reflection model made of the parent, None of a crossover.
    """

    parent: Member
    program: JudgeProgram | None
    how: str
    proposal: Proposal | None = None

    @property
    def refused(self) -> tuple[str, ...]:
        """What of the proposal was not taken over, and why."""
        return self.proposal.refused if self.proposal else ()


@dataclass(frozen=True)
class Breeder:
    """`crossover`: the share of candidates with two parents. `part_rate`: see `EvolutionSettings`."""

    proposer: Proposer
    crossover: float
    part_rate: float

    def breed(self, parents: tuple[Member, Member], known: Container[str], draw: random.Random) -> Bred:
        """A program that is not `known` (by its hash). Two parents that cannot be crossed give a mutation.

        Raises:
            BudgetExhausted, NotInLedger: as `Proposer.propose`.
        """
        if draw.random() < self.crossover:
            child = crossed(parents[0].program, parents[1].program, draw)
            if child is not None and child.hash not in known:
                taken = [part for part in PARTS if child.parts[part] != parents[0].program.parts[part]]
                how = f"takes {', '.join(taken)} from {parents[1].program.hash}"
                return Bred(parents[0], child, how)
        return self._mutated(parents[0], known, draw)

    def _mutated(self, parent: Member, known: Container[str], draw: random.Random) -> Bred:
        parts = [part for part in PARTS if draw.random() < self.part_rate] or [draw.choice(list(PARTS))]
        told = Told.of(unstable_first(parent.scores), parent.program.dimension)
        proposal = self.proposer.propose(parent.program, parts, told, draw)
        if not proposal.texts:
            return Bred(parent, None, "refused", proposal)
        child = parent.program.with_parts(proposal.texts, ORIGIN)
        if child.hash in known:
            copy = (*proposal.refused, "it is a copy of an earlier candidate")
            return Bred(parent, None, "refused", replace(proposal, refused=copy))
        return Bred(parent, child, f"rewrites {', '.join(proposal.texts)}", proposal)


def crossed(better: JudgeProgram, other: JudgeProgram, draw: random.Random) -> JudgeProgram | None:
    """Of the parts in which the parents differ at least one from each; None where they differ in fewer than two."""
    differing = [part for part in PARTS if better.parts[part] != other.parts[part]]
    if len(differing) < 2:
        return None
    taken = draw.sample(differing, draw.randint(1, len(differing) - 1))
    return better.with_parts({part: other.parts[part] for part in taken}, ORIGIN)


def unstable_first(scores: Scores) -> list[tuple[LabeledTrace, list[Cell]]]:
    """The traces with what was said of them in every repeat; those first in which the repeats differ most.

    What went wrong there is told first, and so is what the judge gets wrong each time: the aim is to agree with people,
    not with the mean of one's own readings.
    """
    cells: dict[str, list[Cell]] = {row.trace_id: [] for row in scores.table.rows}
    for (trace_id, _, _), cell in scores.table.cells.items():
        cells[trace_id].append(cell)
    values = consistency(scores)
    known = {trace_id: 1.0 if value is None else value for trace_id, value in values.items()}
    rows = sorted(scores.table.rows, key=lambda row: known[row.trace_id])
    return [(row, cells[row.trace_id]) for row in rows]
