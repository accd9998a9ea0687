"""From what went wrong to new texts of a program: the model's or code's proposal of each part, if the checks pass."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from judges.ledger.ledger_lm import NotInLedger
from judges.lm import LMError
from judges.program import JudgeProgram
from labeled_traces.dataset import LabeledTrace
from pipeline.metrics.cell import Cell
from pipeline.optimizers.examples import ExampleBuilder
from pipeline.optimizers.proposals import ProposalChecks
from pipeline.optimizers.reflection import NoReflection, Reflector, feedback

EXAMPLES = "examples"
"""The part that code proposes, and no model."""


@dataclass(frozen=True)
class Told:
    """What a proposal is made from: feedback lines for the texts; for the examples the categories of missed errors,
    whether anything was spurious, and the traces that it was read from."""

    lines: tuple[str, ...]
    missed: tuple[str, ...]
    spurious: bool
    trace_ids: frozenset[str]

    @classmethod
    def of(cls, read: Iterable[tuple[LabeledTrace, Sequence[Cell]]], dimension: str) -> Told:
        """From traces, each with what the judge said of it in every repeat."""
        read = list(read)
        cells = [cell for _, cells in read for cell in cells]
        return cls(
            lines=tuple(feedback(read, dimension)),
            missed=tuple(error.category for cell in cells for error in cell.missed),
            spurious=any(cell.spurious for cell in cells),
            trace_ids=frozenset(row.trace_id for row, _ in read),
        )


@dataclass(frozen=True)
class Proposal:
    """`texts`: the parts that changed and passed the checks. `refused`: why others are not among them. `replied` is
    False where the reflection model gave no reply."""

    texts: Mapping[str, str]
    refused: tuple[str, ...] = ()
    replied: bool = True

    @property
    def why(self) -> str:
        """Why there is no text."""
        return "; ".join(self.refused) or "nothing was changed"


@dataclass(frozen=True)
class Proposer:
    """Proposes parts of one dimension's programs."""

    reflector: Reflector
    checks: ProposalChecks
    examples: ExampleBuilder

    def propose(self, parent: JudgeProgram, parts: Sequence[str], told: Told, draw: random.Random) -> Proposal:
        """New texts for these parts of the parent.

        Raises:
            BudgetExhausted: as `Reflector.propose`.
            NotInLedger: a replay lacks the reply.
            NoReflection: the reflection model answers nothing.
        """
        changed: dict[str, str] = {}
        refused: list[str] = []
        replied = True
        for part in parts:
            try:
                text = self._text(parent, part, told, draw)
            except (NotInLedger, NoReflection):
                raise
            except LMError as error:
                replied = False
                refused.append(f"{part}: no reply ({error})")
                continue
            if text is None:
                refused.append(f"{part}: the reflection reply holds no text")
            elif text != parent.parts[part]:
                changed[part] = text
        faults = self.checks.refuse(changed)
        refused += [f"{part}: {reason}" for part, reason in faults.items()]
        written = [part for part in parts if part != EXAMPLES]
        self.reflector.texts += len(written)
        self.reflector.useless += [why for why in refused if why.split(":")[0] in written]
        return Proposal({part: text for part, text in changed.items() if part not in faults}, tuple(refused), replied)

    def _text(self, parent: JudgeProgram, part: str, told: Told, draw: random.Random) -> str | None:
        if part == EXAMPLES:
            return self.examples.propose(parent, told.missed, told.spurious, told.trace_ids, draw)
        return self.reflector.propose(part, parent.parts[part], told.lines)
