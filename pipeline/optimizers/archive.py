"""A behaviour archive: the best program of each kind, so that a search does not narrow down to one kind.

Source: Mouret and Clune, Illuminating search spaces by mapping elites, 2015, arXiv 1504.04909
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from judges.program import JudgeProgram
from pipeline.optimizers.scoring import Scores

Niche: TypeAlias = tuple[int, int]
"""Prompt length and precision, each as a step of its scale."""

PRECISION_STEPS = 5
LENGTH_STEPS = 4
"""Half octaves to either side of the input's length; what lies beyond shares the last one."""


@dataclass(frozen=True)
class Member:
    """A program, what was read of it, and its mean gain per trace over the input program."""

    program: JudgeProgram
    scores: Scores
    gain: float


class Archive:
    """At most one member in each niche: that with the larger gain, the earlier one in a tie. It is never empty."""

    def __init__(self, founder: Member) -> None:
        self._founder_length = prompt_length(founder.program)
        self._members: dict[Niche, Member] = {}
        self.offer(founder)

    def offer(self, member: Member) -> bool:
        """Whether it is kept."""
        niche = self.niche(member)
        holder = self._members.get(niche)
        if holder is not None and holder.gain >= member.gain:
            return False
        self._members[niche] = member
        return True

    def niche(self, member: Member) -> Niche:
        ratio = prompt_length(member.program) / self._founder_length
        length = max(-LENGTH_STEPS, min(LENGTH_STEPS, round(2 * math.log2(ratio))))
        # Of a judge that reports nothing the precision is undefined: it claims no step above the lowest.
        precision = member.scores.means.get("precision", 0.0)
        return length, min(PRECISION_STEPS - 1, int(precision * PRECISION_STEPS))

    @property
    def members(self) -> list[Member]:
        """Best first."""
        return best_first(self._members.values())


def best_first(members: Iterable[Member]) -> list[Member]:
    """By gain; the earlier one first in a tie."""
    return sorted(members, key=lambda member: -member.gain)


def prompt_length(program: JudgeProgram) -> int:
    """Characters of the parts, of the examples those that are shown."""
    texts = (program.rubric, program.architecture_notes, program.output_template)
    return sum(len(text) for text in (*texts, *(str(example) for example in program.shown_examples)))
