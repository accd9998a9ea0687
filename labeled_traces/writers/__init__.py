"""Labelled traces as files of other systems.

Each trace that was written is read back, and what a reader makes otherwise of it is kept beside it (see
`readers/mending/original.py`), so that our readers give the very row. To add a form: a module with `record`, and a line
in WRITERS.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from labeled_traces.dataset import LabeledTrace
from labeled_traces.files import write_lines
from labeled_traces.readers import READERS, sniff
from labeled_traces.readers.mending.original import differences
from labeled_traces.readers.report import ReadOptions
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import JSON, TraceError
from labeled_traces.writers import mlflow, otlp
from labeled_traces.writers.ids import HexIds

Writer: TypeAlias = Callable[[LabeledTrace, HexIds, Mapping[str, str], bool], dict[str, JSON]]
"""(row, its ids in the file, what is kept beside its spans, with labels) -> the record."""

WRITERS: dict[str, Writer] = {"mlflow": mlflow.record, "otlp": otlp.record}


@dataclass
class Written:
    """What a file holds. `renamed`: traces with an id of the trace or of a span that was no hex; `kept`: traces with
    something that the form has no place for."""

    traces: int = 0
    spans: int = 0
    labels: int = 0
    renamed: int = 0
    kept: int = 0


def write(rows: Iterable[LabeledTrace], form: str, path: Path, *, labels: bool = True) -> Written:
    """Writes JSON Lines, a trace a line, one in memory at a time; the file appears as a whole or not at all.

    Args:
        form: a name of WRITERS.
        labels: whether labels, raters, groups, answers and metadata are written too.

    Raises:
        TraceError: an unknown form, a trace that cannot be written as JSON, or a place that cannot be written.
    """
    if form not in WRITERS:
        raise TraceError(f"form {form!r} is unknown: accepted are {', '.join(WRITERS)}")
    written = Written()
    write_lines(path, _lines(rows, form, labels, written))
    return written


def _lines(rows: Iterable[LabeledTrace], form: str, labels: bool, written: Written) -> Iterator[str]:
    taken: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for given in rows:
            row = given if labels else LabeledTrace(replace(given.trace, metadata={}), clean="unknown")
            ids = HexIds.of(row.trace, taken)
            taken.add(ids.trace)
            line = _line(WRITERS[form](row, ids, {}, labels), row)
            kept = differences(row, _read_back(line, Path(folder) / "trace.jsonl", row.trace_id), ids.spans)
            written.traces += 1
            written.spans += len(row.trace.spans)
            written.labels += len(row.errors) + len(row.scores)
            written.renamed += any(old != new for old, new in ids.spans.items()) or ids.trace not in row.trace_id
            written.kept += bool(kept)
            yield _line(WRITERS[form](row, ids, kept, labels), row) if kept else line


def _read_back(line: str, path: Path, trace_id: str) -> LabeledTrace:
    """As import reads it, before what is kept beside it is put back."""
    path.write_text(line, encoding="utf-8")
    reader = READERS[sniff(path)]
    options = ReadOptions(load_taxonomy(reader.taxonomy))
    rows = [row for _, row in reader.read([path], options)]
    if len(rows) != 1:
        said = "; ".join(options.report.lines()) or f"{len(rows)} traces instead of one"
        raise TraceError(f"trace {trace_id!r}: cannot be read back as it was written: {said}")
    return rows[0]


def _line(record: JSON, row: LabeledTrace) -> str:
    try:
        return json.dumps(record, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TraceError(f"trace {row.trace_id!r}: cannot be written as JSON ({error})") from None
