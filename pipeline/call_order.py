"""The order in which an evaluation's judgments are started, so that prefix caches hit and no slot stays empty."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TypeAlias

from judges.plan import wants_plan
from judges.program import MLFLOW, JudgeProgram

Place: TypeAlias = tuple[int, int]
"""Number of a trace, and of one of its readings."""


class CallOrder:
    """The readings of one trace are the same for all: (program, repeat), in the order in which they are to be made.

    Judges and repeats of a trace share the beginning of their prompts. One reading goes first and warms the cache of
    it; when it has ended the others follow, at once if there is room. The same holds for an extracted plan: one reading
    gets it, then those follow that are shown it. Earlier traces go first, but the next trace is begun while there are
    still `ahead` readings that could start, so that its first reading, which the others wait for, keeps no slot empty.

    Nothing is made before it is needed: what is kept is as large as the traces that are begun.
    """

    def __init__(self, traces: int, readings: Sequence[tuple[JudgeProgram, int]], ahead: int) -> None:
        self._traces = traces
        self._ahead = ahead
        self._firsts, self._followers = _dependencies([program for program, _ in readings])
        self._begun = 0
        self._ready: list[Place] = []

    def take(self) -> Place | None:
        """What is to be started now; None where all that is left waits for readings that were taken."""
        firsts = len(self._firsts)
        if len(self._ready) < self._ahead and firsts and self._begun < self._traces * firsts:
            trace, number = divmod(self._begun, firsts)
            self._begun += 1
            return trace, self._firsts[number]
        return heapq.heappop(self._ready) if self._ready else None

    def ended(self, place: Place) -> int:
        """To be called once for each that was taken. Returns how many may start now that had to wait for it."""
        trace, reading = place
        for follower in self._followers[reading]:
            heapq.heappush(self._ready, (trace, follower))
        return len(self._followers[reading])


def _dependencies(programs: Sequence[JudgeProgram]) -> tuple[list[int], list[list[int]]]:
    """The readings that wait for none, and for each reading those that wait for it."""
    leaders: dict[Hashable, int] = {}
    firsts: list[int] = []
    followers: dict[int, list[int]] = defaultdict(list)
    for number, program in enumerate(programs):
        prefix, plan = _prefix(program), _plan(program)
        # Whoever has shown the plan has warmed the prefix as well.
        before = leaders.get(plan, leaders.get(prefix))
        (firsts if before is None else followers[before]).append(number)
        leaders.setdefault(prefix, number)
        if plan is not None:
            leaders.setdefault(plan, number)
    return firsts, [followers[number] for number in range(len(programs))]


def _prefix(program: JudgeProgram) -> Hashable:
    """Equal where the prompts of one trace begin alike: in the layout `mlflow` those of one judge alone."""
    knobs = program.knobs
    alone = program.dimension if knobs.layout == MLFLOW else None
    return knobs.model, knobs.endpoint, knobs.trace_tokens, alone


def _plan(program: JudgeProgram) -> Hashable:
    """Equal where one plan extraction serves; None where none is shown."""
    return (_prefix(program), program.knobs.max_tokens) if wants_plan(program) else None
