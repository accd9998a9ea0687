"""A table for people to label in, with whatever opens CSV: a row for each trace and each of its spans.

Whoever finds an error fills in the row of its span; `none` as the category of the trace's row says that the run was
read and has no error. Rows may be copied, where a span has several errors. Rows that say nothing are passed over.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from judges.messages import messages_of
from judges.notation import text_of
from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.files.tables import table_rows
from labeled_traces.readers.labels.table import LabelTable
from labeled_traces.readers.labels.table_columns import SAYS, TableForm
from labeled_traces.readers.report import ReadOptions
from labeled_traces.trace import JSON, Span, TraceError

_FILLED = ("category", "dimensions", "score", "impact", "description", "evidence", "rater", "time")
_SHOWN = ("kind", "name", "given", "gave")
COLUMNS = ("trace_id", "span_id", *_SHOWN, *_FILLED)
LONGEST = 2_000
"""Characters of what a span was given or gave; a cell of a spreadsheet has room for 32,767."""
_ENDS = "\r\n"
_MARK = "\ufeff"
"""By which Excel tells UTF-8; without it, it reads and saves another encoding."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def table_lines(rows: Iterable[LabeledTrace], rater: str = "") -> Iterator[str]:
    """The lines of the table. `rater`: stands in every row, so that nobody forgets to say who labelled."""
    yield _MARK + _line(COLUMNS)
    for row in rows:
        root = row.trace.roots[0]
        yield _record(row.trace_id, "", "", "whole run", (_shown(root.inputs), _shown(root.outputs)), rater)
        for span in row.trace.walk():
            texts = _shown(_newest(span)), _shown(span.error or span.outputs)
            yield _record(row.trace_id, span.span_id, str(span.kind), span.name, texts, rater)


def read_table(
    rows: Sequence[LabeledTrace], path: Path, options: ReadOptions
) -> Iterator[tuple[LabeledTrace, LabeledTrace]]:
    """(row, what people said of it) pairs, for the rows of which the table says something.

    Raises:
        TraceError: no row of the table says anything, or of a trace that the data does not have.
    """
    said = [
        (where, {key: _given(value) for key, value in record.items() if key not in _SHOWN})
        for where, record in table_rows(path, options.report)
        if any(_text(record.get(key)) for key in SAYS)
    ]
    if not said:
        raise TraceError(f"{path}: no row says anything: accepted are rows with a category, dimensions or a score")
    table = LabelTable(options)
    table.take(path, said, TableForm())
    bare = ((row.trace_id, replace(row, errors=(), scores=(), clean="unknown", raters=(), metadata={})) for row in rows)
    by_id = {row.trace_id: row for row in rows}
    for trace_id, found in table.join(bare):
        yield by_id[trace_id], found


def _record(trace_id: str, span_id: str, kind: str, name: str, texts: tuple[str, str], rater: str) -> str:
    cells = dict.fromkeys(COLUMNS, "")
    cells |= {"trace_id": _safe(trace_id), "span_id": _safe(span_id), "kind": kind, "rater": rater}
    cells |= {"name": _safe(name), "given": _safe(texts[0]), "gave": _safe(texts[1])}
    return _line(list(cells.values()))


def _newest(span: Span) -> JSON:
    """Of a model's history the last message: the others stand in the rows above."""
    messages = messages_of(span.inputs)
    return messages[-1].get("content") if messages else span.inputs


def _shown(value: JSON) -> str:
    text = "" if value is None else text_of(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} [... {len(text) - LONGEST} characters left out ...]"


def _safe(text: str) -> str:
    """A spreadsheet would run what begins like a formula; the agent's words are not to be run."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _given(value: JSON) -> JSON:
    """What `_safe` made of a text, as it was."""
    made = isinstance(value, str) and value.startswith("'") and value[1:].startswith(_FORMULA)
    return value[1:] if made else value


def _text(value: JSON) -> str:
    return "" if value is None else str(value).strip()


def _line(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator=_ENDS).writerow(cells)  # it quotes the line ends that it knows, and no others
    return out.getvalue().removesuffix(_ENDS)
