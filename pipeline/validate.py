"""Champion against challenger on held-out traces: PASS, FAIL or INCONCLUSIVE, from interval bounds alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pipeline.gates import Gates
from pipeline.metrics.agreement import NO_VARIATION
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.detection import any_judge
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import HIGHER_IS_BETTER, paired_differences
from pipeline.metrics.table import MatchTable

MOST_TIMES = 10
"""Where more than so many times the traces at hand would be needed, no number is given: there is no gap to speak of."""


class Verdict(StrEnum):
    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


@dataclass(frozen=True)
class Validation:
    """`differences`: challenger minus champion, per metric. `labels_needed`: how many more labelled traces would decide
    an INCONCLUSIVE verdict, None where that cannot be said. `conditions`: `failed`, `open` and `held` -> all, in
    words; `reasons` are those that the verdict follows from."""

    verdict: Verdict
    reasons: tuple[str, ...]
    differences: Mapping[str, Estimate]
    labels_needed: int | None = None
    conditions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

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
    names: tuple[str, str] = ("champion", "challenger"),
) -> Validation:
    """The verdict on the rows that all tables hold, judged with repeats that nothing was chosen by.

    `names`: what the reasons call the two sides.

    PASS: the primary metric rose (lower bound of the paired difference above `least_gain`), it is above every control's
    in the same sense, no guard is worse by its margin or more (by its interval), in no dimension did the primary fall
    by more than its margin, and there were enough tasks and usable judgments.
    FAIL: the primary fell (upper bound below 0), or a guard's or a dimension's whole interval is worse than its margin.
    INCONCLUSIVE: anything else, also what cannot be known: an undefined metric. All conditions must hold together for a
    PASS, so no correction for their number is needed (intersection-union test).

    `labels_needed` supposes that differences stay and intervals shrink with the root of the number of traces n: an
    interval of half-width h whose value lies g from its bound decides at n * (h / g) ** 2 traces.
    """
    gates = gates or Gates()
    differences = paired_differences(challenger, champion, settings)
    n = len(challenger.rows)
    checks = [_better(f"{gates.primary} against the {names[0]}", gates, differences[gates.primary], n)]
    for name, table in controls.items():
        gain = paired_differences(challenger, table, settings)[gates.primary]
        checks.append(_beats(f"{gates.primary} against the control {name.replace('_', ' ')!r}", gates, gain, n))
    sides = _Sides(champion, challenger, settings, names)
    for name, margin in gates.margins.items():
        checks.append(_not_worse(name, margin, differences, n))
    checks += _dimensions(sides, gates)
    checks.append(_together(_enough_groups(challenger, gates)))
    checks.append(_enough_scored(sides, gates.scored_share))
    states = {Verdict.FAIL: "failed", Verdict.INCONCLUSIVE: "open", Verdict.PASS: "held"}
    said = {state: tuple(check.reason for check in checks if check.state is state) for state in states}
    verdict = next(state for state in states if said[state])
    needed = _labels_needed([check for check in checks if check.state is verdict], verdict)
    conditions = {word: said[state] for state, word in states.items()}
    return Validation(verdict, said[verdict], differences, needed, conditions)


@dataclass(frozen=True)
class _Sides:
    champion: MatchTable
    challenger: MatchTable
    settings: MetricSettings | None
    names: tuple[str, str]


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


def _not_worse(name: str, margin: float, differences: Mapping[str, Estimate], n: int) -> _Check:
    difference = differences[name]
    if name.startswith("alpha") and difference.value is None and NO_VARIATION in (difference.reason or ""):
        # A side that always says the same has no alpha. What it is made of, agreement of the repeats, it has.
        name, difference = "raw_agreement", differences["raw_agreement"]
    low, high = _bounds(name, difference)
    if low is None or high is None or difference.value is None:
        without = f"without this guard: gates: {{margins: {{{name}: null}}}}"
        return _Check(Verdict.INCONCLUSIVE, f"{name} cannot be compared: {difference.reason} ({without})")
    allowed = f"allowed is a {'fall' if HIGHER_IS_BETTER[name] else 'rise'} of up to {margin:g}"
    said = f"{name} {_moved(difference.value)} ({difference.low:+.3f} to {difference.high:+.3f}), {allowed}"
    if low > -margin:
        return _Check(Verdict.PASS, said)
    if high < -margin:
        return _Check(Verdict.FAIL, f"{said}: it is larger")
    boundary = -margin if HIGHER_IS_BETTER[name] else margin
    return _Check(Verdict.INCONCLUSIVE, f"{said}: it may be larger", _more(difference, boundary, n))


def _moved(value: float) -> str:
    shown = f"{abs(value):.3f}"
    return "did not change" if float(shown) == 0 else f"{'rose' if value > 0 else 'fell'} by {shown}"


def _dimensions(sides: _Sides, gates: Gates) -> Iterator[_Check]:
    """The suite's metrics do not show that one judge fell silent or noisy. A single dimension seldom has the labels to
    exclude a fall, so it is enough that none is seen: of the primary metric, or of coverage where that is undefined,
    and of false alarms."""
    held: dict[str, float] = {}
    for dimension in sides.challenger.dimensions:
        before, after = sides.champion.of(dimension), sides.challenger.of(dimension)
        found = paired_differences(after, before, sides.settings)
        names = [gates.primary if found[gates.primary].value is not None else "coverage"]
        names += ["false_alarms"] if "false_alarms" in gates.margins else []
        if before.identified.any() and not after.identified.any():
            yield _Check(Verdict.INCONCLUSIVE, f"{dimension}: no label is found any more")
        for name in dict.fromkeys(names):
            yield from _not_seen_to_fall(dimension, name, found[name], gates.dimension_margin, held)
    if held:
        lowest = min(held, key=lambda said: held[said])
        least = f"{gates.dimension_margin:g}"
        yield _Check(
            Verdict.PASS, f"no dimension seen to be worse by more than {least}; the least improvement is {lowest}"
        )


def _not_seen_to_fall(
    dimension: str, name: str, found: Estimate, margin: float, held: dict[str, float]
) -> Iterator[_Check]:
    """What holds goes to `held`, with its gain."""
    if found.value is None:
        yield _Check(Verdict.PASS, f"nothing is shown of {dimension}: {name}: {found.reason}")
        return
    gain, high = found.value if HIGHER_IS_BETTER[name] else -found.value, _bounds(name, found)[1]
    said = f"{dimension}: {name} {_in_words(found)}"
    if gain >= -margin:
        held[said] = gain
    elif high is not None and high < -margin:
        yield _Check(Verdict.FAIL, f"{said}, worse by more than {margin:g}")
    else:
        yield _Check(Verdict.INCONCLUSIVE, f"{said}, seen to be worse by more than {margin:g}")


def _together(checks: Iterator[_Check]) -> _Check:
    """One condition of several: it holds if they all do."""
    found = list(checks)
    failed = [check for check in found if check.state is not Verdict.PASS]
    state = failed[0].state if failed else Verdict.PASS
    reason = "; ".join(check.reason for check in failed or found)
    needs = [check.more for check in failed if check.more is not None]
    return _Check(state, reason, max(needs) if needs and len(needs) == len(failed) else None)


def _enough_groups(table: MatchTable, gates: Gates) -> Iterator[_Check]:
    """Of the traces with a label that the primary metric can count, and of the clean ones."""
    counted = table.decidable if gates.primary.startswith("coverage") else table.has_span
    kinds = {"with a label": {table.trace_ids[t] for t in table.label_rows[counted]}}
    if "false_alarms" in (gates.primary, *gates.margins):
        kinds["without an error"] = {name for name, clean in zip(table.trace_ids, table.clean, strict=True) if clean}
    for what, ids in kinds.items():
        groups = {group for name, group in zip(table.trace_ids, table.clusters, strict=True) if name in ids}
        said = f"{len(groups)} independent tasks {what}"
        if len(groups) >= gates.least_groups:
            yield _Check(Verdict.PASS, said)
            continue
        more = len(table.rows) * (gates.least_groups - len(groups)) / len(groups) if groups else None
        reason = f"{said}, at least {gates.least_groups} are needed"
        yield _Check(Verdict.INCONCLUSIVE, reason, None if more is None else math.ceil(more))


def _enough_scored(sides: _Sides, least: float) -> _Check:
    """Of the judgments of each dimension; and of the labels, since a judge may fail on few traces that hold many."""
    shares: dict[str, float] = {}
    for name, table in zip(sides.names, (sides.champion, sides.challenger), strict=True):
        asked, usable = (cells.sum(axis=(0, 2)) for cells in (table.asked, table.usable))
        shares |= {
            f"{dimension} judgments of the {name}": float(used / all_) if all_ else 0.0
            for dimension, used, all_ in zip(table.dimensions, usable, asked, strict=True)
        }
        if table.decidable.any():
            shares[f"labels of what the {name} read"] = float(any_judge(table.counted)[table.decidable].mean())
    fewest = min(shares, key=lambda known: shares[known])
    said = f"{shares[fewest]:.1%} of the {fewest} can be used"
    if shares[fewest] >= least:
        return _Check(Verdict.PASS, f"{said}, of all others as many or more")
    return _Check(Verdict.INCONCLUSIVE, f"{said}, at least {least:.0%} are needed")


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
    if difference.value is None or difference.low is None:
        return f"unknown ({difference.reason})" if difference.value is None else f"{difference.value:+.3f}"
    return f"{difference.value:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"
