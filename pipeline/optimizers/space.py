"""The points that the optuna search can try: which variant of each text, which examples, which knobs."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest

from judges.plan import wants_plan
from judges.program import JudgeProgram
from judges.render import render
from labeled_traces.dataset import LabeledTrace
from labeled_traces.sealed import Seal
from labeled_traces.split import Development
from pipeline.optimizers.examples import ExampleBuilder
from pipeline.optimizers.proposals import ProposalChecks

TEXTS = ("rubric", "architecture_notes", "output_template")
Point = dict[str, int]
"""Parameter -> the place of its value."""


@dataclass(frozen=True)
class Space:
    """`variants`: part -> its texts; of `examples` single ones (lines). What the input program has comes first, so the
    point of zeros has its texts and knobs. At most `slots` examples are shown, in the order of the slots."""

    seed: JudgeProgram
    variants: Mapping[str, Sequence[str]]
    trace_tokens: Sequence[int]
    temperatures: Sequence[float]
    slots: int
    origin: str

    @property
    def sizes(self) -> dict[str, int]:
        """Parameter -> how many values it has, numbered from 0. Better texts have smaller numbers (the bank's order),
        so near numbers are alike; a text that comes later changes no number."""
        lines = len(self.variants["examples"])
        return {
            **{part: len(self.variants[part]) for part in TEXTS},
            "examples": 1 + min(self.slots, lines),
            **{f"example_{slot}": max(1, lines) for slot in range(min(self.slots, lines))},
            "trace_tokens": len(self.trace_tokens),
            "temperature": len(self.temperatures),
            "plan_extraction": 1 + wants_plan(self.seed.with_knobs(plan_extraction=True)),
        }

    def program(self, point: Point) -> JudgeProgram:
        """The program at a point; an example that two slots name is shown once."""
        if point == self.point(self.seed):
            return self.seed
        chosen = [point[f"example_{slot}"] for slot in range(point["examples"])]
        lines = [self.variants["examples"][number] for number in dict.fromkeys(chosen)]
        knobs = self.seed.knobs
        return replace(
            self.seed,
            **{part: self.variants[part][point[part]] for part in TEXTS},
            examples="\n".join(lines),
            knobs=replace(
                knobs,
                max_examples=max(knobs.max_examples, len(lines)),
                trace_tokens=self.trace_tokens[point["trace_tokens"]],
                temperature=self.temperatures[point["temperature"]],
                plan_extraction=knobs.plan_extraction != bool(point["plan_extraction"]),
            ),
            parent=self.seed.hash,
            origin=self.origin,
        )

    def point(self, program: JudgeProgram) -> Point:
        """Where a program lies, or one as near as can be: with its texts and examples where they are variants."""
        point = dict.fromkeys(self.sizes, 0)
        point |= {part: _place(self.variants[part], program.parts[part]) for part in TEXTS}
        known = [line for line in example_lines(program) if line in self.variants["examples"]][: self.slots]
        point["examples"] = len(known)
        point |= {f"example_{slot}": _place(self.variants["examples"], line) for slot, line in enumerate(known)}
        return point


def _place(values: Sequence[str], value: str) -> int:
    return values.index(value) if value in values else 0


def example_lines(program: JudgeProgram) -> list[str]:
    """The examples that a program shows, as they are written, in the order of the text."""
    return [line for line in program.examples.split("\n") if line.strip()][: program.knobs.max_examples]


def gathered(seed: JudgeProgram, bank: Iterable[JudgeProgram], fresh: Sequence[str]) -> dict[str, list[str]]:
    """Part -> the different texts of the input program and of the bank, in this order; examples as single lines, the
    `fresh` ones last."""
    programs = [seed, *bank]
    texts = {part: list(dict.fromkeys(program.parts[part] for program in programs)) for part in TEXTS}
    lines = [line for program in programs for line in example_lines(program)]
    return {**texts, "examples": list(dict.fromkeys([*lines, *fresh]))}


def fresh_examples(
    program: JudgeProgram, development: Development, count: int, seed: int, seal: Seal | None = None
) -> list[str]:
    """At most `count` examples made from the trainset that pass the checks: one of each category of the dimension's
    errors, the most frequent first, and one of a clean trace, and so on."""
    catalogue = ExampleBuilder(list(development.trainset)).catalogue(program.dimension)
    random.Random(f"{seed}/fresh examples/{program.dimension}").shuffle(catalogue)
    by_category: dict[str, list[str]] = {}
    for category, line in catalogue:
        by_category.setdefault(category, []).append(line)
    ordered = sorted(by_category, key=lambda category: (not category, -len(by_category[category]), category))
    in_turn = chain.from_iterable(zip_longest(*(by_category[category] for category in ordered)))
    checks = ProposalChecks(program, development, seal)
    return list(islice((line for line in in_turn if line and not checks.refuse({"examples": line})), count))


def useful_limits(limit: int, factors: Sequence[float], rows: Sequence[LabeledTrace]) -> list[int]:
    """The program's own limit of the rendered trace first, then its multiples that show another text of some trace."""
    limits = [limit]
    shown = {limit: [render(row.trace, limit).text for row in rows]}
    for factor in factors:
        other = max(256, round(limit * factor))
        texts = [render(row.trace, other).text for row in rows]
        if texts not in shown.values():
            shown[other] = texts
            limits.append(other)
    return limits
