"""The order in which an evaluation's judgments are started, so that prefix caches hit and no slot stays empty."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from typing import TypeAlias

from judges.plan import wants_plan
from judges.program import MLFLOW, JudgeProgram
from judges.prompt import PLAN_DIMENSIONS

Place: TypeAlias = tuple[int, int]
"""Number of a trace, and of one of its readings."""


class CallOrder:
    """The readings of one trace are the same for all: (program, repeat), in the order in which they are to be made.

    All of them share the beginning of their prompts, and the repeats of a judge the whole of it. So one reading goes
    first and warms the cache for the others, and so does each judge's first one for its repeats; whoever has waited for
    one that has ended starts at once if there is room. The same holds for an extracted plan: one reading gets it, then
    those follow that are shown it. Earlier traces go first, but the next trace is begun while there are still `ahead`
    readings that could start: while its first one is made, the others keep no slot empty.

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
    followers: list[list[int]] = [[] for _ in programs]
    for number, program in enumerate(programs):
        shared = _shared(program)
        before = next((leaders[part] for part in shared if part in leaders), None)
        (firsts if before is None else followers[before]).append(number)
        for part in shared:
            leaders.setdefault(part, number)
    return firsts, followers


def _shared(program: JudgeProgram) -> list[Hashable]:
    """What the calls of two readings of a trace have in common where these are equal, from the most to the least.

    The whole prompt; the extracted plan; what stands before the judge's texts with the schema of the reply, which
    providers put before it; and without. In the layout `mlflow` the judge's texts come first.
    """
    knobs = program.knobs
    before = (knobs.model, knobs.endpoint, knobs.trace_tokens)
    if knobs.layout == MLFLOW:
        return [program.hash]
    plan: list[Hashable] = [("plan", before, knobs.max_tokens)] if wants_plan(program) else []
    return [program.hash, *plan, (before, program.dimension in PLAN_DIMENSIONS), before]
