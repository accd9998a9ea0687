"""Do raters agree? The share and Krippendorff's alpha, per trace and per span, and how often one finds another's label.

Units are those that two raters have judged: who read the whole run has judged all dimensions and spans of it, who gave
a score its dimension. A rater says "an error" of a dimension with a label of it or a score below 3.

The human ceiling for localization takes one rater's labels for the truth and the other's for a judge's findings, on
traces that both read, and counts as for judges (`detection`, span matcher): labels with a span, matched one to one. The
lenient one also accepts the label's parent or child.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from judges.judgment import Finding, Judgment, Outcome
from labeled_traces.dataset import LabeledTrace
from labeled_traces.groups import connected
from labeled_traces.label import DIMENSIONS, SCORES, ErrorLabel, score_from_impacts
from labeled_traces.raters import all_raters, marked, whole_run
from labeled_traces.trace import Trace
from pipeline.matching import Floats, Ints, Matcher, Pair, SpanMatcher
from pipeline.metrics.agreement import among_raters
from pipeline.metrics.bootstrap import MetricSettings, Statistic, estimates, ratio
from pipeline.metrics.cell import Cell
from pipeline.metrics.detection import detection
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.table import Key, match_judgments

NAMES = tuple(DIMENSIONS)
TOTAL = "total"
MOST_PAIRS = 100
"""Of so many pairs of raters there are figures of their own."""
NOT_BOTH = "no trace that both read"
Estimates = dict[str, dict[str, Estimate]]
"""Dimension or `total` -> metric -> number."""


@dataclass(frozen=True)
class PairOfRaters:
    """`traces`: which both read. `found_by`: (labels of, found by) -> localization and localization_lenient."""

    raters: tuple[str, str]
    traces: int
    agreement: Estimates
    found_by: Mapping[tuple[str, str], Estimates]


@dataclass(frozen=True)
class Agreement:
    """`read`: rater -> how many whole runs. `agreement`: of all raters. `ceiling`: all ordered pairs together. `pairs`:
    those who said something of one trace, with the most such traces first; `more_pairs` further ones are in the figures
    of all raters only."""

    read: Mapping[str, int]
    traces: int
    agreement: Estimates
    ceiling: Estimates
    pairs: tuple[PairOfRaters, ...]
    more_pairs: int = 0


def rater_agreement(rows: Sequence[LabeledTrace], settings: MetricSettings | None = None) -> Agreement:
    """All of it, with intervals that resample whole groups of traces."""
    chosen = settings or MetricSettings()
    names = all_raters(rows)
    readers = [whole_run(row) for row in rows]
    clusters = connected(rows)
    met = _met(rows)

    def with_intervals(parts: Mapping[str, Mapping[str, Statistic]], of: Sequence[str] = clusters) -> Estimates:
        return {name: estimates(statistics, of, chosen) for name, statistics in parts.items()}

    def compared(pair: tuple[str, str], places: Sequence[int]) -> PairOfRaters:
        theirs, of = [rows[t] for t in places], [clusters[t] for t in places]
        return PairOfRaters(
            pair,
            sum(set(pair) <= set(readers[t]) for t in places),
            with_intervals(_agreement(theirs, pair), of),
            {way: with_intervals(_found(theirs, *way), of) for way in (pair, pair[::-1])},
        )

    ways = ((places, _found([rows[t] for t in places], *way)) for p, places in met.items() for way in (p, p[::-1]))
    return Agreement(
        read={name: sum(name in those for those in readers) for name in names},
        traces=sum(len(those) > 1 for those in readers),
        agreement=with_intervals(_agreement(rows, names)),
        ceiling=with_intervals(_summed(len(rows), ways)),
        pairs=tuple(compared(pair, met[pair]) for pair in list(met)[:MOST_PAIRS]),
        more_pairs=max(0, len(met) - MOST_PAIRS),
    )


def _met(rows: Sequence[LabeledTrace]) -> dict[tuple[str, str], list[int]]:
    """Pairs of raters -> the places of the rows of which both said something; those with the most come first."""
    found: dict[tuple[str, str], list[int]] = {}
    for t, row in enumerate(rows):
        for pair in combinations(all_raters([row]), 2):
            found.setdefault(pair, []).append(t)
    return dict(sorted(found.items(), key=lambda one: (-len(one[1]), one[0])))


def _agreement(rows: Sequence[LabeledTrace], names: Sequence[str]) -> dict[str, dict[str, Statistic]]:
    """Of these raters: `error` (nominal), `score` and `impact` (ordinal) of a trace, `span` (nominal) of its spans."""
    # Agreement does not ask who said what, so a trace needs a place for each of its own raters, not for all.
    own = [[name for name in all_raters([row]) if name in names] for row in rows]
    most = max(map(len, own), default=0)
    shape = (len(rows), len(NAMES), most)
    error, impact, score = (np.full(shape, -1, dtype=np.intp) for _ in range(3))
    for t, row in enumerate(rows):
        readers = whole_run(row)
        for r, name in enumerate(own[t]):
            if name in readers:
                error[t, :, r] = impact[t, :, r] = 0
            for label in row.scores:
                if label.rater == name:
                    place = t, NAMES.index(label.dimension), r
                    score[place] = label.score
                    error[place] = label.score < max(SCORES)
            for mark in (mark for mark in marked(row) if mark.rater == name):
                for dimension in mark.dimensions:
                    place = t, NAMES.index(dimension), r
                    error[place], impact[place] = 1, max(impact[place], int(mark.impact))
    spans, owner = _spans(rows, own, most)
    whole = np.arange(len(rows))
    kinds: list[tuple[str, Ints, int, str, Ints]] = [
        ("error", error, 2, "nominal", whole),
        ("impact", impact, 4, "ordinal", whole),
        ("score", score, len(SCORES), "ordinal", whole),
        ("span", spans, 2, "nominal", owner),
    ]
    result: dict[str, dict[str, Statistic]] = {}
    columns = {name: slice(d, d + 1) for d, name in enumerate(NAMES)} | {TOTAL: slice(None)}
    for name, at in columns.items():
        result[name] = {
            f"{kind}_{what}": statistic
            for kind, values, size, level, place in kinds
            for what, statistic in among_raters(values[:, at], size, level, place, len(rows)).items()
        }
    return result


def _spans(rows: Sequence[LabeledTrace], raters: Sequence[Sequence[str]], most: int) -> tuple[Ints, Ints]:
    """(S, D, R) whether a rater marked a span, -1 where they did not read the run; (S) the span's trace. `raters`: of
    each row, at most `most`."""
    values: list[Ints] = [np.zeros((0, len(NAMES), most), dtype=np.intp)]
    for row, names in zip(rows, raters, strict=True):
        readers = whole_run(row)
        given = np.full((len(row.trace.spans), len(NAMES), most), -1, dtype=np.intp)
        places = {span.span_id: place for place, span in enumerate(row.trace.spans)}
        given[:, :, [r for r, name in enumerate(names) if name in readers]] = 0
        for mark in marked(row):
            if mark.span_id is not None and mark.rater in names:
                at = [NAMES.index(name) for name in mark.dimensions]
                given[places[mark.span_id], at, names.index(mark.rater)] = 1
        values.append(given)
    owner = np.repeat(np.arange(len(rows)), [len(row.trace.spans) for row in rows])
    return np.concatenate(values), owner.astype(np.intp)


class _Near:
    """The span matcher of one trace that also accepts the parent and the children of the label's span."""

    name, needs_span = "near", True

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def similarities(self, pairs: Sequence[Pair]) -> Floats:
        near = [self._trace.neighbourhood(error.span_id) if error.span_id else frozenset() for _, error in pairs]
        cited = [not spans.isdisjoint(finding.cited) for spans, (finding, _) in zip(near, pairs, strict=True)]
        return np.array(cited, dtype=np.float64)


def _found(rows: Sequence[LabeledTrace], truth: str, finder: str) -> dict[str, dict[str, Statistic]]:
    """How often the finder reports what `truth` labelled. Columns have a line for each of `rows`."""
    both = [t for t, row in enumerate(rows) if {truth, finder} <= set(whole_run(row))]
    metrics = ("localization", "localization_lenient")
    if not both:
        none = Statistic(np.zeros((len(rows), 2)), ratio, 0, NOT_BOTH)
        return {name: dict.fromkeys(metrics, none) for name in (*NAMES, TOTAL)}
    mine = [replace(rows[t], errors=_of(rows[t], truth), scores=(), clean="checked") for t in both]
    said = [_judgments(rows[t], finder) for t in both]
    exact = match_judgments(mine, [one for judgments in said for one in judgments], SpanMatcher())
    cells: dict[Key, Cell] = {}
    for row, judgments in zip(mine, said, strict=True):
        near: Matcher = _Near(row.trace)
        cells |= match_judgments([row], judgments, near).cells
    lenient = replace(exact, cells=cells)
    result: dict[str, dict[str, Statistic]] = {}
    for name in (*NAMES, TOTAL):
        result[name] = {}
        for metric, table in zip(metrics, (exact, lenient), strict=True):
            of_them = detection(table if name == TOTAL else table.of(name))[metric]
            columns = np.zeros((len(rows), 2))
            columns[both] = of_them.columns
            result[name][metric] = replace(of_them, columns=columns)
    return result


def _of(row: LabeledTrace, rater: str) -> tuple[ErrorLabel, ...]:
    return tuple(error for error in marked(row) if error.rater == rater)


def _judgments(row: LabeledTrace, rater: str) -> list[Judgment]:
    """A rater's labels as what the judges of all dimensions would have said."""
    result = []
    for name in NAMES:
        errors = [error for error in _of(row, rater) if name in error.dimensions]
        findings = tuple(
            Finding(name, (error.span_id,) if error.span_id else (), error.description, error.evidence, error.impact)
            for error in errors
        )
        score = score_from_impacts(error.impact for error in errors)
        result.append(Judgment(row.trace_id, name, rater, 0, Outcome.SCORED, score, findings))
    return result


def _summed(
    size: int, parts: Iterable[tuple[Sequence[int], Mapping[str, Mapping[str, Statistic]]]]
) -> dict[str, dict[str, Statistic]]:
    """All ordered pairs of raters as one, over `size` rows. `parts`: (places of their rows, what was found) of each."""
    result: dict[str, dict[str, Statistic]] = {}
    for places, found in parts:
        for name, metrics in found.items():
            for metric, one in metrics.items():
                columns = np.zeros((size, one.columns.shape[1]))
                old = result.setdefault(name, {}).setdefault(metric, replace(one, columns=columns, n=0))
                old.columns[places] += one.columns
                reason = one.reason if old.reason == NOT_BOTH else old.reason
                result[name][metric] = replace(old, n=old.n + one.n, reason=reason)
    return result
