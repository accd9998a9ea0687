"""Alternative texts for the `examples` part: small sets of examples, drawn from the trainset alone."""

from __future__ import annotations

import random
from collections.abc import Sequence

from judges.program import JudgeProgram
from pipeline.optimizers.proposals import ProposalChecks

_DRAWS = 4
"""So many draws for each set that is wanted: equal ones count once."""


def example_sets(
    program: JudgeProgram, catalogue: Sequence[tuple[str, str]], checks: ProposalChecks, count: int, seed: int
) -> list[str]:
    """At most `count` texts of `examples`, all different: the program's own first, the others from the catalogue.

    A set shows at most as many examples as the program's knobs, errors of different categories, and half of the time a
    clean one. Sets that the checks refuse are left out.
    """
    sets = [program.examples]
    if program.knobs.max_examples == 0 or not catalogue:
        return sets
    draw = random.Random(f"{seed}/example sets/{program.dimension}")
    for _ in range(_DRAWS * count):
        text = "\n".join(_draw_set(catalogue, program.knobs.max_examples, draw))
        if text not in sets and not checks.refuse({"examples": text}):
            sets.append(text)
    return sets[:count]


def _draw_set(catalogue: Sequence[tuple[str, str]], most: int, draw: random.Random) -> list[str]:
    first: dict[str, str] = {}
    for category, line in draw.sample(list(catalogue), len(catalogue)):
        first.setdefault(category, line)
    clean = first.pop("", None)
    size = draw.randint(1, most)
    if clean is None or (first and draw.random() < 0.5):
        return list(first.values())[:size]
    return [*list(first.values())[: size - 1], clean]
