"""Judgments beside labels, matched once: the table that every metric reads.

Counting rules:
- A cell is one (trace, dimension, repeat). A judgment that cannot be used is missing data: its cell counts nowhere
  but in the share that was scored. `not_applicable` is usable: it reports nothing.
- A label counts in the cells of its dimensions. In the suite it counts once per repeat in which at least one of them
  is usable, and is identified if any of those judges identified it.
- Labels without a span count in coverage, not in localization. The span matcher cannot decide them: there they count
  in neither.
- Clean: no label of the table's dimensions (`LabeledTrace.is_clean_of`). Errors outside GPA count nowhere.
- Findings count in precision where people said which errors there are (`LabeledTrace.can_judge`); in localized
  precision not those that match a label without a span.
- What several raters labelled is one label (`LabeledTrace.distinct_errors`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from judges.judgment import HOLISTIC, Finding, Judgment
from labeled_traces.dataset import LabeledTrace
from labeled_traces.groups import connected
from labeled_traces.label import DIMENSIONS, ErrorLabel, score_from_impacts
from pipeline.config import PipelineError
from pipeline.matching import Ints, Matcher, match_cells
from pipeline.metrics.cell import Cell, cites

Bools: TypeAlias = NDArray[np.bool_]
Key: TypeAlias = tuple[str, str, int]
"""(trace id, dimension, repeat)"""


@dataclass(frozen=True)
class MatchTable:
    """T rows (labelled traces), D dimensions, R repeats, and one cell for each judgment. Arrays are made on first use.

    The labels L are those of the table's dimensions, in the order of the rows. `matcher` is the matcher's name.
    """

    matcher: str
    needs_span: bool
    rows: tuple[LabeledTrace, ...]
    dimensions: tuple[str, ...]
    repeats: tuple[int, ...]
    cells: Mapping[Key, Cell]

    def of(self, dimension: str) -> MatchTable:
        """The table of one dimension.

        Raises:
            PipelineError: no judgment of this table is about it.
        """
        if dimension not in self.dimensions:
            raise PipelineError(f"no judgment is about {dimension!r}: there are {', '.join(self.dimensions)}")
        cells = {key: cell for key, cell in self.cells.items() if key[1] == dimension}
        return replace(self, dimensions=(dimension,), cells=cells)

    def subset(self, trace_ids: Collection[str]) -> MatchTable:
        """The table of some of its traces, in its own order."""
        rows = tuple(row for row in self.rows if row.trace_id in trace_ids)
        cells = {key: cell for key, cell in self.cells.items() if key[0] in trace_ids}
        return replace(self, rows=rows, cells=cells)

    def where(self, keep: Bools) -> MatchTable:
        """The table with only the judgments at `keep` (T, D, R); the others are missing data."""
        cells = dict(self.cells)
        for place, cell in self.placed_cells():
            if not keep[place]:
                key = (self.rows[place[0]].trace_id, self.dimensions[place[1]], self.repeats[place[2]])
                cells[key] = replace(cell, usable=False, score=None, findings=(), pairs=())
        return replace(self, cells=cells)

    @property
    def trace_ids(self) -> tuple[str, ...]:
        return tuple(row.trace_id for row in self.rows)

    @property
    def clusters(self) -> tuple[str, ...]:
        """What the bootstrap draws: traces of one group or of one content stay together."""
        return connected(self.rows)

    @cached_property
    def asked(self) -> Bools:
        """(T, D, R): there is a judgment."""
        return self._per_cell(lambda _: 1) > 0

    @cached_property
    def usable(self) -> Bools:
        """(T, D, R): there is a judgment that can be used."""
        return self._per_cell(lambda cell: cell.usable) > 0

    @cached_property
    def scores(self) -> Ints:
        """(T, D, R): 0-3, -1 where there is none."""
        return self._per_cell(lambda cell: -1 if cell.score is None else cell.score, empty=-1)

    @cached_property
    def n_findings(self) -> Ints:
        """(T, D, R)."""
        return self._per_cell(lambda cell: len(cell.findings))

    @cached_property
    def n_decided(self) -> Ints:
        """(T, D, R): findings that are known to be right or wrong."""
        return self._per_cell(lambda cell: cell.decided)

    @cached_property
    def n_placeable(self) -> Ints:
        """(T, D, R): findings that cite the right span or a wrong one."""
        return self._per_cell(lambda cell: cell.placeable)

    @cached_property
    def clean(self) -> Bools:
        """(T): the traces in which any finding is a false alarm."""
        return np.array([row.is_clean_of(self.dimensions) for row in self.rows], dtype=np.bool_)

    @cached_property
    def labels(self) -> tuple[tuple[int, ErrorLabel], ...]:
        """(L): the position of the label's row, the label."""
        return tuple(
            (t, error)
            for t, row in enumerate(self.rows)
            for error in row.distinct_errors
            if not set(self.dimensions).isdisjoint(error.dimensions)
        )

    @cached_property
    def label_rows(self) -> Ints:
        """(L): the position of the label's row."""
        return np.array([t for t, _ in self.labels], dtype=np.intp)

    @cached_property
    def has_span(self) -> Bools:
        """(L)."""
        return np.array([error.span_id is not None for _, error in self.labels], dtype=np.bool_)

    @cached_property
    def impacts(self) -> Ints:
        """(L)."""
        return np.array([error.impact for _, error in self.labels], dtype=np.intp)

    @cached_property
    def decidable(self) -> Bools:
        """(L): the matcher can say whether a finding identifies the label."""
        return self.has_span | (not self.needs_span)

    @cached_property
    def counted(self) -> Bools:
        """(L, D, R): the cells in which a label counts."""
        fits = [[name in error.dimensions for name in self.dimensions] for _, error in self.labels]
        fitting = np.array(fits, dtype=np.bool_).reshape(len(self.labels), len(self.dimensions))
        return (fitting & self.decidable[:, None])[:, :, None] & self.usable[self.label_rows]

    @cached_property
    def identified(self) -> Bools:
        """(L, D, R): a finding is matched to the label."""
        return self._hits(lambda *_: True)

    @cached_property
    def localized(self) -> Bools:
        """(L, D, R): a finding that cites the label's span is matched to it."""
        return self._hits(lambda finding, error, _: cites(finding, error))

    @cached_property
    def near(self) -> Bools:
        """(L, D, R): a finding that cites the label's span, its parent or a child of it is matched to it."""

        def accept(finding: Finding, error: ErrorLabel, row: LabeledTrace) -> bool:
            return error.span_id is not None and not row.trace.neighbourhood(error.span_id).isdisjoint(finding.cited)

        return self._hits(accept)

    def matched(self) -> Iterator[tuple[tuple[int, int, int], Finding]]:
        """Every match: its position in (L, D, R), and the finding."""
        positions: dict[tuple[int, str], list[int]] = {}
        for label, (t, error) in enumerate(self.labels):
            for name in error.dimensions:
                positions.setdefault((t, name), []).append(label)
        for (t, d, r), cell in self.placed_cells():
            for f, e in cell.pairs:
                yield (positions[t, self.dimensions[d]][e], d, r), cell.findings[f]

    def placed_cells(self) -> Iterator[tuple[tuple[int, int, int], Cell]]:
        """Every cell with its position in (T, D, R)."""
        traces = {name: place for place, name in enumerate(self.trace_ids)}
        dimensions = {name: place for place, name in enumerate(self.dimensions)}
        repeats = {repeat: place for place, repeat in enumerate(self.repeats)}
        for (trace_id, dimension, repeat), cell in self.cells.items():
            yield (traces[trace_id], dimensions[dimension], repeats[repeat]), cell

    @cached_property
    def human_scores(self) -> Ints:
        """(S, 3): positions of trace and dimension, score. One row for each rater's score; where people gave none, the
        one that follows from their error labels, if they said which errors there are."""
        scores = []
        for t, row in enumerate(self.rows):
            for d, name in enumerate(self.dimensions):
                given = [label.score for label in row.scores if label.dimension == name]
                if not given and row.can_judge(name):
                    given = [score_from_impacts(error.impact for error in row.errors_of(name))]
                scores += [(t, d, score) for score in given]
        return np.array(scores, dtype=np.intp).reshape(-1, 3)

    def _hits(self, accept: Callable[[Finding, ErrorLabel, LabeledTrace], bool]) -> Bools:
        hits = np.zeros((len(self.labels), len(self.dimensions), len(self.repeats)), dtype=np.bool_)
        for place, finding in self.matched():
            t, error = self.labels[place[0]]
            hits[place] = accept(finding, error, self.rows[t])
        return hits

    def _per_cell(self, value: Callable[[Cell], int], empty: int = 0) -> Ints:
        numbers = np.full((len(self.rows), len(self.dimensions), len(self.repeats)), empty, dtype=np.intp)
        for place, cell in self.placed_cells():
            numbers[place] = value(cell)
        return numbers


def match_judgments(rows: Sequence[LabeledTrace], judgments: Sequence[Judgment], matcher: Matcher) -> MatchTable:
    """Matches every judgment's findings to the labels of its dimension, one to one.

    A holistic judgment is split into the seven dimensions by its findings; the score of each follows from their
    severities. The table's dimensions are those that the judgments are about.

    Raises:
        PipelineError: a trace id twice, a judgment of a trace that is not in `rows`, two judgments for one cell, or a
            holistic finding without a known dimension.
    """
    by_id = {row.trace_id: row for row in rows}
    if len(by_id) < len(rows):
        raise PipelineError("a trace id occurs twice in the rows: accepted is each trace once")
    cells: dict[Key, Cell] = {}
    for judgment in judgments:
        if judgment.trace_id not in by_id:
            raise PipelineError(f"a judgment is about trace {judgment.trace_id!r}, which is not in the rows")
        for name, cell in _split(judgment, by_id[judgment.trace_id]):
            key = (judgment.trace_id, name, judgment.repeat)
            if key in cells:
                raise PipelineError(
                    f"two judgments are about trace {key[0]!r}, {name}, repeat {key[2]}: accepted is one suite a table"
                )
            cells[key] = cell
    named = {name for _, name, _ in cells}
    return MatchTable(
        matcher=matcher.name,
        needs_span=matcher.needs_span,
        rows=tuple(rows),
        dimensions=tuple(name for name in DIMENSIONS if name in named),
        repeats=tuple(sorted({repeat for _, _, repeat in cells})),
        cells=_match(cells, matcher),
    )


def _split(judgment: Judgment, row: LabeledTrace) -> Iterator[tuple[str, Cell]]:
    """The judgment's cells, still without matches: one, or seven of a holistic judgment."""
    if judgment.dimension != HOLISTIC:
        findings = judgment.findings if judgment.usable else ()
        yield judgment.dimension, _cell(judgment.usable, judgment.score, findings, row, judgment.dimension)
        return
    unknown = {finding.dimension for finding in judgment.findings} - set(DIMENSIONS)
    if unknown:
        raise PipelineError(
            f"a holistic finding on trace {judgment.trace_id!r} is about {sorted(unknown)[0]!r}: "
            f"accepted are {', '.join(DIMENSIONS)}"
        )
    for name in DIMENSIONS:
        findings = tuple(finding for finding in judgment.findings if judgment.usable and finding.dimension == name)
        score = score_from_impacts(finding.severity for finding in findings) if judgment.usable else None
        yield name, _cell(judgment.usable, score, findings, row, name)


def _cell(usable: bool, score: int | None, findings: tuple[Finding, ...], row: LabeledTrace, name: str) -> Cell:
    return Cell(usable, score, findings, row.errors_of(name), complete=row.can_judge(name))


def _match(cells: Mapping[Key, Cell], matcher: Matcher) -> dict[Key, Cell]:
    """The cells with their matches. Only those that have both findings and labels are put before the matcher."""
    open_cells = [key for key, cell in cells.items() if cell.findings and cell.errors]
    groups = [(cells[key].findings, cells[key].errors) for key in open_cells]
    matched = dict(zip(open_cells, match_cells(groups, matcher), strict=True))
    return {key: replace(cell, pairs=matched.get(key, ())) for key, cell in cells.items()}
