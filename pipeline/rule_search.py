"""The decision rule, searched by replay: raw judgments are filtered anew and counted, no call is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from judges.decision import DecisionRule
from judges.judgment import Judgment
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import Impact
from pipeline.matching import Matcher, match_cells
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.cell import Cell
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import paired_differences
from pipeline.metrics.table import MatchTable, match_judgments


@dataclass(frozen=True)
class RuleSettings:
    """The grid, and what a rule must keep: `keep` times the coverage and the localization of the raw findings."""

    severities: tuple[Impact, ...] = tuple(Impact)
    confidences: tuple[int, ...] = (0, 40, 50, 60, 70, 80, 90)
    judges: tuple[int, ...] = (1, 2)
    per_trace: tuple[int | None, ...] = (None, 3, 2, 1)
    keep: float = 1.0
    metrics: MetricSettings = field(default_factory=MetricSettings)

    @property
    def rules(self) -> Iterator[DecisionRule]:
        """Every rule of the grid, laxer ones first; the first one changes nothing."""
        yield DecisionRule()
        for rule in product(self.severities, self.confidences, self.judges, self.per_trace):
            if DecisionRule(*rule) != DecisionRule():
                yield DecisionRule(*rule)


@dataclass(frozen=True)
class RuleResult:
    """`rule` changes nothing where `improved` is False. `gain`: localized F1 minus that of the raw findings, paired.

    `tried` counts the rules, `before` and `after` hold f1, coverage and localization of raw findings and best rule.
    """

    rule: DecisionRule
    improved: bool
    reason: str
    tried: int
    gain: Estimate | None
    before: Mapping[str, float]
    after: Mapping[str, float]


@dataclass(frozen=True)
class _Counts:
    """Sums over traces and repeats, as `pipeline.metrics.detection` counts them for the suite."""

    identified: int = 0
    decidable: int = 0
    localized: int = 0
    placed: int = 0
    located: int = 0
    findings: int = 0

    @property
    def metrics(self) -> dict[str, float]:
        recall = self.localized / self.placed if self.placed else 0.0
        share = self.located / self.findings if self.findings else 0.0
        f1 = 2 * recall * share / (recall + share) if recall + share else 0.0
        return {
            "f1": f1,
            "coverage": self.identified / self.decidable if self.decidable else 0.0,
            "localization": recall,
        }


def search_rule(
    judgments: Sequence[Judgment],
    rows: Sequence[LabeledTrace],
    matcher: Matcher,
    settings: RuleSettings | None = None,
) -> RuleResult:
    """The rule with the largest localized F1 on the development split, among those that keep enough of the errors.

    `judgments`: raw ones of a suite, any number of repeats. The rule is taken only if the paired interval of its gain
    lies above 0. Of rules that do equally well the laxest is taken.
    """
    settings = settings or RuleSettings()
    raw = match_judgments(rows, judgments, matcher)
    replay = _Replay(raw, matcher)
    rules = list(settings.rules)
    before = replay.counts(judgments).metrics
    best, best_metrics = rules[0], before
    too_strict: list[DecisionRule] = []
    for rule in rules[1:]:
        if any(_reports_no_more(rule, other) for other in too_strict):
            continue
        metrics = replay.counts(rule.apply(judgments)).metrics
        if any(metrics[name] < settings.keep * before[name] for name in ("coverage", "localization")):
            too_strict.append(rule)
        elif metrics["f1"] > best_metrics["f1"] + 1e-12:
            best, best_metrics = rule, metrics
    if best == rules[0]:
        reason = "no rule of the grid has a larger F1 and keeps the errors: all findings are reported"
        return RuleResult(best, False, reason, len(rules), None, before, before)
    gain = paired_differences(match_judgments(rows, best.apply(judgments), matcher), raw, settings.metrics)["f1"]
    found = f"f1 {before['f1']:.3f} to {best_metrics['f1']:.3f}"
    if gain.low is None or gain.low <= 0:
        reason = f"no gain shown: {found} with the best rule, but the interval of the difference holds 0"
        return RuleResult(rules[0], False, reason, len(rules), gain, before, best_metrics)
    reason = f"{found} ({gain.value:+.3f}, {settings.metrics.level:.0%} interval {gain.low:+.3f} to {gain.high:+.3f})"
    return RuleResult(best, True, reason, len(rules), gain, before, best_metrics)


def _reports_no_more(rule: DecisionRule, other: DecisionRule) -> bool:
    """Whether all that `rule` reports is reported by `other` too, so that it finds no more errors. A limit per trace is
    comparable with no limit alone: where a stricter rule drops a finding, the limit lets another one in."""
    return (
        (other.max_per_trace is None or rule == other)
        and rule.min_severity >= other.min_severity
        and rule.min_confidence >= other.min_confidence
        and rule.min_judges >= other.min_judges
    )


class _Replay:
    """Counts filtered judgments. What is left of a judgment's findings is matched once, then remembered."""

    def __init__(self, raw: MatchTable, matcher: Matcher) -> None:
        self._raw = raw
        self._matcher = matcher
        self._known: dict[tuple[object, ...], Cell] = {}
        self._labels = {
            (row.trace_id, name): [n for n, error in enumerate(row.distinct_errors) if name in error.dimensions]
            for row in raw.rows
            for name in raw.dimensions
        }

    def counts(self, judgments: Sequence[Judgment]) -> _Counts:
        cells = self._cells(judgments)
        labels: dict[tuple[str, int, int], tuple[bool, bool]] = {}
        located = findings = 0
        for (trace_id, name, repeat), cell in cells.items():
            if not cell.usable:
                continue
            findings += cell.placeable
            located += len(cell.located)
            hit = dict.fromkeys((e for _, e in cell.pairs), False)
            hit |= {e: cell.errors[e].span_id in cell.findings[f].cited for f, e in cell.pairs}
            for e, n in enumerate(self._labels[trace_id, name]):
                seen, pointed = labels.get((trace_id, n, repeat), (False, False))
                labels[trace_id, n, repeat] = (seen or e in hit, pointed or hit.get(e, False))
        return self._summed(labels, located, findings)

    def _summed(self, labels: Mapping[tuple[str, int, int], tuple[bool, bool]], located: int, findings: int) -> _Counts:
        errors = {row.trace_id: row.distinct_errors for row in self._raw.rows}
        counts = _Counts(located=located, findings=findings)
        sums = [0, 0, 0, 0]
        for (trace_id, n, _), (seen, pointed) in labels.items():
            placed = errors[trace_id][n].span_id is not None
            decidable = placed or not self._raw.needs_span
            for i, mark in enumerate((seen and decidable, decidable, pointed and placed, placed)):
                sums[i] += mark
        return replace(counts, identified=sums[0], decidable=sums[1], localized=sums[2], placed=sums[3])

    def _cells(self, judgments: Sequence[Judgment]) -> dict[tuple[str, str, int], Cell]:
        """The cells of the judgments; those whose findings were not seen before are matched together."""
        keys = {}
        new: dict[tuple[object, ...], Cell] = {}
        for judgment in judgments:
            cell_key = (judgment.trace_id, judgment.dimension, judgment.repeat)
            key = (*cell_key, *judgment.findings)
            keys[cell_key] = key
            if key not in self._known and key not in new:
                raw = self._raw.cells[cell_key]
                new[key] = replace(raw, findings=judgment.findings if raw.usable else (), pairs=())
        open_cells = [key for key, cell in new.items() if cell.findings and cell.errors]
        pairs = match_cells([(new[key].findings, new[key].errors) for key in open_cells], self._matcher)
        self._known |= new | {
            key: replace(new[key], pairs=tuple(found)) for key, found in zip(open_cells, pairs, strict=True)
        }
        return {cell_key: self._known[key] for cell_key, key in keys.items()}
