"""Champion against challenger on held-out traces: PASS, FAIL or INCONCLUSIVE, from interval bounds alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pipeline.config import PipelineError
from pipeline.explain import unknown
from pipeline.metrics.agreement import NO_VARIATION
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import HIGHER_IS_BETTER, paired_differences, suite_metrics
from pipeline.metrics.table import MatchTable
from pipeline.settings import fill

MOST_TIMES = 100
"""Where more than so many times the traces at hand would be needed, no number is given: there is no gap to speak of."""


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Gates:
    """What a challenger must show.

    `primary` must be better than the champion's and than every control's, each by more than `least_gain`: with enough
    traces a gain of nothing worth having is above 0 as well. `margins`: guard -> by how much it may be worse
    (non-inferiority); an empty mapping has no guards. `scored_share` is the least share of judge calls that gave
    a usable judgment, on both sides.
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
    least_gain: float = 0.01

    def __post_init__(self) -> None:
        for key, name in (("primary", self.primary), *(("margins", name) for name in self.margins)):
            if name not in HIGHER_IS_BETTER:
                raise PipelineError(f"{key}: {unknown(name, HIGHER_IS_BETTER)}")
        for name, margin in self.margins.items():
            if not margin >= 0:
                raise PipelineError(f"margins.{name} is {margin}: accepted is 0 or more")
        if not 0 <= self.least_gain < 1:
            raise PipelineError(f"least_gain is {self.least_gain}: accepted is 0 or more, and below 1")
        if not 0 <= self.scored_share <= 1:
            raise PipelineError(f"scored_share is {self.scored_share}: accepted is 0 to 1")

    @classmethod
    def parse(cls, options: Mapping[str, Any], where: str = "gates") -> Gates:
        """Gates from plain values; guards that `margins` does not name keep their default, null drops a guard.

        Raises:
            PipelineError: an unknown key, or a value that is not accepted; names the key's path.
        """
        margins = options.get("margins")
        if isinstance(margins, Mapping):
            named = {**cls().margins, **margins}
            options = {**options, "margins": {name: margin for name, margin in named.items() if margin is not None}}
        return fill(cls, options, where)


@dataclass(frozen=True)
class Validation:
    """`differences`: challenger minus champion, per metric. `labels_needed`: how many more labelled traces would decide
    an INCONCLUSIVE verdict, None where that cannot be said."""

    verdict: Verdict
    reasons: tuple[str, ...]
    differences: Mapping[str, Estimate]
    labels_needed: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": str(self.verdict),
            "reasons": list(self.reasons),
            "differences": {name: estimate.to_json() for name, estimate in self.differences.items()},
            "labels_needed": self.labels_needed,
        }


@dataclass(frozen=True)
class _Check:
    """One condition. `more` is how many more traces would decide an open one, None where that cannot be said."""

    state: Verdict
    reason: str
    more: int | None = None


def validate(
    champion: MatchTable,
    challenger: MatchTable,
    controls: Mapping[str, MatchTable],
    gates: Gates | None = None,
    settings: MetricSettings | None = None,
    *,
    identical: bool = False,
) -> Validation:
    """The verdict on the rows that all tables hold, judged with repeats that nothing was chosen by.

    PASS: the primary metric rose (lower bound of the paired difference above `least_gain`), it is above every control's
    in the same sense, no guard is worse by its margin or more (by its interval), and enough judgments were usable.
    FAIL: the primary fell (upper bound below 0), or a guard's whole interval is worse than its margin.
    INCONCLUSIVE: anything else, also what cannot be known: an undefined metric, or no change at all (`identical`:
    both sides are the same programs). All conditions must hold together for a PASS, so no correction for their number
    is needed (intersection-union test).

    `labels_needed` supposes that differences stay and intervals shrink with the root of the number of traces n: an
    interval of half-width h whose value lies g from its bound decides at n * (h / g) ** 2 traces.
    """
    gates = gates or Gates()
    differences = paired_differences(challenger, champion, settings)
    if identical:
        reason = "no change to validate: the challenger's programs are the champion's"
        return Validation(Verdict.INCONCLUSIVE, (reason,), differences)
    n = len(challenger.rows)
    checks = [_better(f"{gates.primary} against the champion", gates, differences[gates.primary], n)]
    for name, table in controls.items():
        gain = paired_differences(challenger, table, settings)[gates.primary]
        checks.append(_beats(f"{gates.primary} against the control {name!r}", gates, gain, n))
    sides = _Sides(champion, challenger, settings)
    for name, margin in gates.margins.items():
        checks.append(_not_worse(name, margin, differences[name], n, sides))
    checks += _enough_scored(sides, gates.scored_share)
    states = {check.state for check in checks}
    for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS):
        if verdict in states:
            break
    decisive = [check for check in checks if check.state is verdict]
    reasons = tuple(check.reason for check in decisive)
    return Validation(verdict, reasons, differences, _labels_needed(decisive, verdict))


@dataclass(frozen=True)
class _Sides:
    champion: MatchTable
    challenger: MatchTable
    settings: MetricSettings | None

    def unvaried(self, name: str) -> bool:
        """Whether a metric is undefined on both sides for want of variation, with all repeats in agreement."""
        both = [suite_metrics(table, self.settings) for table in (self.champion, self.challenger)]
        return all(
            metrics[name].value is None
            and NO_VARIATION in (metrics[name].reason or "")
            and metrics["raw_agreement"].value == 1.0
            for metrics in both
        )


def _better(what: str, gates: Gates, difference: Estimate, n: int) -> _Check:
    low, high = _bounds(gates.primary, difference)
    if low is None or high is None or difference.value is None:
        return _Check(Verdict.INCONCLUSIVE, f"{what} cannot be compared: {difference.reason}")
    said = f"{what}: {_in_words(difference)}"
    if low > gates.least_gain:
        return _Check(Verdict.PASS, f"{said}, which is a gain")
    if high < 0:
        return _Check(Verdict.FAIL, f"{said}, which is a loss")
    boundary = gates.least_gain if HIGHER_IS_BETTER[gates.primary] else -gates.least_gain
    reason = f"{said}: neither a gain above {gates.least_gain:g} nor a loss is shown"
    return _Check(Verdict.INCONCLUSIVE, reason, _more(difference, boundary, n))


def _beats(what: str, gates: Gates, difference: Estimate, n: int) -> _Check:
    """As `_better`, but to lose against a control is no FAIL: the champion may lose against it as well."""
    check = _better(what, gates, difference, n)
    if check.state is not Verdict.FAIL:
        return check
    return _Check(
        Verdict.INCONCLUSIVE, f"{check.reason}: a trivial judge does better, so the metric shows nothing here"
    )


def _not_worse(name: str, margin: float, difference: Estimate, n: int, sides: _Sides) -> _Check:
    low, high = _bounds(name, difference)
    if low is None or high is None or difference.value is None:
        if sides.unvaried(name):
            return _Check(Verdict.PASS, f"guard {name}: no variation on either side, all repeats agree")
        return _Check(Verdict.INCONCLUSIVE, f"guard {name} cannot be compared: {difference.reason}")
    said = f"guard {name}: {_in_words(difference)}"
    if low > -margin:
        return _Check(Verdict.PASS, f"{said}, within its margin of {margin:g}")
    if high < -margin:
        return _Check(Verdict.FAIL, f"{said}, worse than its margin of {margin:g}")
    boundary = -margin if HIGHER_IS_BETTER[name] else margin
    reason = f"{said}: it may be worse by more than its margin of {margin:g}"
    return _Check(Verdict.INCONCLUSIVE, reason, _more(difference, boundary, n))


def _enough_scored(sides: _Sides, least: float) -> Iterator[_Check]:
    for name, table in (("champion", sides.champion), ("challenger", sides.challenger)):
        asked = int(table.asked.sum())
        share = float(table.usable.sum()) / asked if asked else 0.0
        said = f"{share:.1%} of the {name}'s {asked} judgments can be used"
        if share >= least:
            yield _Check(Verdict.PASS, said)
        else:
            yield _Check(Verdict.INCONCLUSIVE, f"{said}, at least {least:.0%} are needed")


def _bounds(name: str, difference: Estimate) -> tuple[float | None, float | None]:
    """The interval of the improvement: turned round where lower is better."""
    if HIGHER_IS_BETTER[name] or difference.low is None or difference.high is None:
        return difference.low, difference.high
    return -difference.high, -difference.low


def _more(difference: Estimate, boundary: float, n: int) -> int | None:
    if difference.value is None or difference.low is None or difference.high is None:
        return None
    gap = abs(difference.value - boundary)
    half = (difference.high - difference.low) / 2
    if gap == 0 or half / gap > math.sqrt(MOST_TIMES):
        return None
    return max(1, math.ceil(round(n * (half / gap) ** 2, 6)) - n)


def _labels_needed(decisive: list[_Check], verdict: Verdict) -> int | None:
    """The largest need of the open conditions; None if one of them cannot say, or nothing is open."""
    needs = [check.more for check in decisive]
    known = [need for need in needs if need is not None]
    return max(known) if verdict is Verdict.INCONCLUSIVE and len(known) == len(needs) else None


def _in_words(difference: Estimate) -> str:
    return f"{difference.value:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"
