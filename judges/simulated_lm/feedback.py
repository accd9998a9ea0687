"""The lines of `## What went wrong`, read: what was missed, misplaced or reported without cause."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

MISSED = r"- missed: category=(?P<category>[^;]*)"
MISPLACED = r"- misplaced: category=(?P<category>[^;]*); *reported at=(?P<said>[^;]*); *belongs at=(?P<cause>[^;]*)"
SPURIOUS = r"- spurious: .*?the judge said: (?P<complaint>.*)"


@dataclass(frozen=True)
class Feedback:
    """`missed`: category -> how often. `causes`: the place where misplaced errors belong -> how often. `complaints`
    are the explanations of findings on traces without an error."""

    missed: Counter[str]
    causes: Counter[str]
    complaints: tuple[str, ...]


def read_feedback(lines: tuple[str, ...]) -> Feedback:
    found = {
        pattern: [match for line in lines if (match := re.match(pattern, line))]
        for pattern in (MISSED, MISPLACED, SPURIOUS)
    }
    return Feedback(
        missed=Counter(match["category"].strip() for match in found[MISSED]),
        causes=Counter(match["cause"].strip() for match in found[MISPLACED]),
        complaints=tuple(match["complaint"].strip() for match in found[SPURIOUS]),
    )
