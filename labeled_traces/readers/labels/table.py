"""Labels from a table, for traces of any format: a row says one thing about one trace.

Columns (see `table_columns`): `trace_id`; `span_id` or `step`; a `category`, which the taxonomy gives its dimensions,
and/or `dimensions`; `impact` (else medium), `description`, `evidence`, `rater`, `time`. Or a `score` 0-3 with one
dimension; with a span, a category or an impact beside it the row is an error as well. Or `none` as category: the rater
read the run and found no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import SCORES, Impact
from labeled_traces.readers.files.records import first_record
from labeled_traces.readers.files.tables import SUFFIXES, TEXTS, refuse_spreadsheet, table_rows
from labeled_traces.readers.labels import table_cells as cells
from labeled_traces.readers.labels.joining import Unknown, id_forms, refuse_unknown, refuse_unread, unread
from labeled_traces.readers.labels.table_columns import TableForm, assign, recognised
from labeled_traces.readers.labels.table_labels import TableLabel, labelled
from labeled_traces.readers.mending.repair import mend_value
from labeled_traces.readers.report import LABEL, ReadOptions, ReadReport
from labeled_traces.trace import JSON, TraceError

T = TypeVar("T")
NO_TIME = "label whose time cannot be read, kept without one"
NOT_SCORED = "dimension to which no score was given, passed over"


def is_table(path: Path, role: Callable[[JSON], str | None], form: TableForm | None) -> bool:
    """Whether a label file is a table. `role`: of the traces' reader, which knows labels of its own format. Records of
    JSON are a table if `form` says so, or if their names do. Raises: TraceError, a spreadsheet in its own form."""
    refuse_spreadsheet(path)
    try:
        record = {} if path.suffix.lower() in TEXTS else next(_inner("", first_record(path)))[1]
    except TraceError:
        return path.suffix.lower() in SUFFIXES
    if path.suffix.lower() in SUFFIXES:
        return role(record) != "labels"
    if not isinstance(record, dict) or role(record) == "labels":
        return False
    parts = [part for value in record.values() for part in (value if isinstance(value, list) else [value])]
    flat = not any(isinstance(part, dict | list) for part in parts)
    return flat and (form is not None or recognised(record))


@dataclass
class LabelTable:
    """What was said, by trace id as the table writes it. `lost`: ids of traces of which a row could not be read.
    `unread`: what is wrong with these rows."""

    options: ReadOptions
    by_trace: dict[str, list[TableLabel]] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    unread: list[str] = field(default_factory=list)
    _taken: dict[str, str] = field(default_factory=dict)
    """Trace id of the table -> the trace that took its labels."""

    @classmethod
    def load(cls, paths: Iterable[Path], form: TableForm, options: ReadOptions) -> LabelTable:
        """Rows that cannot be read are left out, and listed.

        Raises:
            TraceError: a file that is no table, or columns that are not there; steps without their first number.
        """
        table = cls(options)
        for path in paths:
            table.take(path, [row for place in table_rows(path, options.report) for row in _inner(*place)], form)
        return table

    def take(self, path: Path, rows: Sequence[tuple[str, Mapping[str, JSON]]], form: TableForm) -> None:
        """(place, cells by column) pairs of one file. Raises: as `load`; no row of the file can be read."""
        report = self.options.report
        if not rows:
            raise report.nothing_read() or TraceError(f"{path}: holds no row: accepted is at least one label")
        columns = assign(path, list(dict.fromkeys(key for _, row in rows for key in row)), form, report)
        if not any(cells.text(row.get(columns.get("score", ""))) for _, row in rows):
            columns.pop("score", None)  # the table has no scores, so a dimension alone is an error
        _check_steps(rows, columns, form)
        for where, row in rows:
            self._add(where, row, columns, form)
        if not any(self.by_trace.values()):
            if LABEL not in report.counts:
                raise TraceError(f"{report.examples[NOT_SCORED][0]}: {NOT_SCORED}, and so are all rows")
            raise TraceError(f"no row of the labels can be read; first: {report.examples[LABEL][0]}")

    def join(self, rows: Iterable[tuple[str, LabeledTrace]]) -> Iterator[tuple[str, LabeledTrace]]:
        """The rows with their labels. Raises: TraceError, labels that fit two traces or, when all are read, none;
        rows that cannot be read."""
        read: list[str] = []
        forms: dict[str, set[str]] = {}
        for trace_id in self.by_trace:
            for form in id_forms(trace_id):
                forms.setdefault(form, set()).add(trace_id)
        for place, row in rows:
            own = row.trace_id.strip()
            read.append(own)
            names = {own, *(name for form in id_forms(own) for name in forms.get(form, ()))} & self.by_trace.keys()
            taken = [name for name in sorted(names) if self._take(name, own)]
            said = [one for name in taken for one in self.by_trace[name]]
            if taken:
                self.options.report.labelled.add(own)
            lost = not self.lost.isdisjoint(taken)
            yield place, (labelled(row, said, lost, self.options, self.unread) if taken else row)
        refuse_unread(self.options, self.unread)
        left = ((name, said) for name, said in self.by_trace.items() if said and name not in self._taken)
        refuse_unknown(self.options, (Unknown(said[0].where, name, len(said)) for name, said in left), read)

    def _take(self, name: str, trace_id: str) -> bool:
        """Whether the trace gets the labels under this id; one that is written so goes before another form of it."""
        taker = self._taken.setdefault(name, trace_id)
        if taker not in (trace_id, name):
            place = next((said.where for said in self.by_trace[name]), "labels")
            both = f"{name!r} may be the trace {taker!r} and {trace_id!r}"
            raise TraceError(f"{place}: {both}: accepted are ids as the traces write them")
        return taker == trace_id

    def _add(self, where: str, row: Mapping[str, JSON], columns: Mapping[str, str], form: TableForm) -> None:
        trace_id = ""
        try:
            trace_id = _cell(where, row, columns, "trace_id", cells.identity)
            if not trace_id:
                raise TraceError(f"{where}, column {columns['trace_id']!r}: is empty: accepted is the id of a trace")
            known = self.by_trace.setdefault(trace_id, [])
            said = _said(where, trace_id, row, columns, form, self.options)
            if said is None:
                self.options.report.add(NOT_SCORED, where)
            else:
                known.append(said)
        except TraceError as error:
            unread(self.options, error, where, trace_id)
            self.unread.append(str(error))
            self.lost.add(trace_id)


def _inner(where: str, record: JSON) -> Iterator[tuple[str, JSON]]:
    """The rows inside an object around one list of them, `{"labels": [...]}`; else the record."""
    lists = [value for value in record.values() if isinstance(value, list)] if isinstance(record, dict) else []
    rows = lists[0] if len(lists) == 1 else []
    if rows and not recognised(record) and all(isinstance(row, dict) and recognised(row) for row in rows):
        yield from ((f"{where}, record {number}", row) for number, row in enumerate(rows, 1))
    else:
        yield where, record


def _said(
    where: str,
    trace_id: str,
    row: Mapping[str, JSON],
    columns: Mapping[str, str],
    form: TableForm,
    options: ReadOptions,
) -> TableLabel | None:
    """None: a dimension to which no score was given. Raises: TraceError."""

    def cell(name: str, read: Callable[[JSON], T]) -> T:
        return _cell(where, row, columns, name, read)

    def words(name: str, read: Callable[[JSON], str] = cells.text) -> str:
        return str(mend_value(cell(name, read), f"{where}, {name}", options))

    category, dimensions = words("category", cells.named), cell("dimensions", cells.dimensions)
    is_none = dimensions is None or category.casefold() == cells.NONE
    category, named = "" if category.casefold() == cells.NONE else category, dimensions or ()
    span, step = _position(cell("span_id", cells.identity), cell("step", cells.identity), "step" in columns, form)
    impact, score = cell("impact", cells.impact), cell("score", cells.score)
    placed = bool(category or span or step is not None or impact is not None)
    if named and score is None and not placed and not is_none and columns.get("score") in row:
        if not cell("score", cells.text) and (words("description") or words("evidence")):
            raise TraceError(
                f"{where}: a dimension without a score: accepted is one, `N/A`, or an impact if it has failed"
            )
        return None
    _check(where, (is_none, score, named, placed or bool(named and score is None)))
    is_error = placed or (score is None and not is_none)
    if is_error and impact is None:
        if score is not None:
            impact = Impact(max(SCORES) - score)
        else:
            options.report.add("label without an impact, medium taken", where)
    if is_error and not (named or category):
        raise TraceError(f"{where}: an error of no kind: accepted is a category or dimensions beside it")
    if is_error and not named:
        category = options.category(category, where)
        named = options.taxonomy.dimensions_of(category)
    return TableLabel(
        where=where,
        trace_id=trace_id,
        span=span,
        step=step,
        dimensions=named,
        category=category or ", ".join(named),
        impact=impact or Impact.MEDIUM,
        description=words("description"),
        evidence=words("evidence"),
        rater=words("rater", cells.named),
        time=_time(cell, options.report),
        score=score,
        is_error=is_error,
        nothing=is_none and score is None,
    )


def _time(cell: Callable[[str, Callable[[JSON], float | None]], float | None], report: ReadReport) -> float | None:
    """When it was said. A label without its time is still a label. Raises: TraceError, if the read is strict."""
    try:
        return cell("time", cells.time)
    except TraceError as error:
        report.leave_out(error, NO_TIME)
        return None


def _check(where: str, row: tuple[bool, int | None, Sequence[str], bool]) -> None:
    """Raises: TraceError, a row that says nothing, or things that contradict each other."""
    is_none, score, named, is_error = row
    best = score == max(SCORES)
    if is_none and is_error:
        raise TraceError(
            f"{where}: says `{cells.NONE}` and marks an error: accepted is `{cells.NONE}` of the whole run alone, or "
            "score 3 of one dimension"
        )
    if score is not None and len(named) != 1:
        raise TraceError(f"{where}: a score of {len(named)} dimensions: accepted is a score with one dimension")
    if score is not None and ((is_none and not best) or (is_error and best)):
        raise TraceError(f"{where}: score {score} contradicts what else the row says: 3 means no error, 0-2 an error")
    if score is None and not is_none and not is_error:
        raise TraceError(
            f"{where}: says nothing: accepted are a category, dimensions, a score with a dimension, or `{cells.NONE}`"
        )


def _position(span: str, step: str, has_steps: bool, form: TableForm) -> tuple[str, int | None]:
    """The span's id, and the step counted from 0. Where no column counts steps, numbers in `span_id` may do so."""
    if form.steps_from is None:
        return span or step, None
    if span and not has_steps:
        span, step = "", span
    number = cells.step(step)
    if number is None or number < form.steps_from:
        return span or step, None
    return span, number - form.steps_from


def _check_steps(rows: Sequence[tuple[str, Mapping[str, JSON]]], columns: Mapping[str, str], form: TableForm) -> None:
    column = columns.get("step")
    if column is None or form.steps_from is not None:
        return
    for where, row in rows:
        counts = cells.step(cells.text(row.get(column))) is not None
        if counts and not cells.text(row.get(columns.get("span_id", ""))):
            raise TraceError(
                f"{where}, column {column!r}: counts steps, but from where? accepted is --steps-from 0 where the first "
                "message or span of a trace is step 0, or --steps-from 1"
            )


def _cell(where: str, row: Mapping[str, JSON], columns: Mapping[str, str], name: str, read: Callable[[JSON], T]) -> T:
    column = columns.get(name)
    try:
        return read(None if column is None else row.get(column))
    except TraceError as error:
        raise TraceError(f"{where}, column {column!r}: {error}") from None
