"""Champion against challenger on held-out traces: PASS, FAIL or INCONCLUSIVE, from interval bounds alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.metrics.estimate import Estimate
from pipeline.metrics.table import MatchTable, MetricSettings, paired_differences, suite_metrics


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Gates:
    """What a challenger must show.

    `primary` must rise (lower bound of the paired difference above 0). `margins`: a guard may be worse by less than
    its margin (non-inferiority: the interval's worse bound stays inside it); the guards and margins can be changed, an
    empty mapping has none. `scored_share` is the least share of judge calls that gave a score, on either side.
    """

    primary: str = "f1"
    margins: Mapping[str, float] = field(
        default_factory=lambda: {
            "coverage": 0.05,
            "localization": 0.05,
            "false_alarms": 0.05,
            "alpha": 0.1,
            "agreement": 0.05,
        }
    )
    scored_share: float = 0.95


@dataclass(frozen=True)
class Validation:
    """`differences` are challenger minus champion, per metric. `labels_needed` is how many more labelled traces would
    decide an INCONCLUSIVE verdict, None where that cannot be said."""

    verdict: Verdict
    reasons: tuple[str, ...]
    differences: Mapping[str, Estimate]
    labels_needed: int | None = None


def validate(
    champion: MatchTable,
    challenger: MatchTable,
    controls: Mapping[str, MatchTable],
    gates: Gates | None = None,
    settings: MetricSettings | None = None,
    *,
    identical: bool = False,
) -> Validation:
    """Judges the challenger on the rows that both tables hold. `identical`: both sides are the same programs."""
    raise NotImplementedError
