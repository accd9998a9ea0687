"""Tables of labels as rows of named cells: CSV and TSV as spreadsheets write them, JSON, JSON Lines, Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from labeled_traces.files import read_text
from labeled_traces.readers.files.parquet import SUFFIX as PARQUET
from labeled_traces.readers.files.parquet import is_parquet, parquet_rows
from labeled_traces.readers.files.records import read_records
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, TraceError

TEXTS = (".csv", ".tsv")
SUFFIXES = (*TEXTS, PARQUET)
"""Beside the JSON ones."""
_ACCEPTED = "a table with a heading, in UTF-8"


def table_rows(path: Path, report: ReadReport) -> Iterator[tuple[str, dict[str, JSON]]]:
    """(place, cells by column) of each row; blank rows are left out. The heading of a CSV file is row 1.

    Raises:
        TraceError: not such a file, a heading that names a column twice, or a row that is no object; names the place.
    """
    suffix = path.suffix.lower()
    if suffix in TEXTS:
        rows = _from_text(path, "\t" if suffix == ".tsv" else None)
    elif is_parquet(path):
        rows = parquet_rows(path, report.leave_out)
    else:
        rows = read_records(path, report)
    for where, row in rows:
        if not isinstance(row, dict):
            raise TraceError(f"{where}: is {type(row).__name__}: accepted is an object, a value for each column")
        if any(value not in (None, "") for value in row.values()):
            yield where, row


def _from_text(path: Path, delimiter: str | None) -> Iterator[tuple[str, JSON]]:
    text = read_text(path, _ACCEPTED)
    heading = text.partition("\n")[0]
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=delimiter or max(",;\t|", key=heading.count), strict=True
    )
    try:
        names = [name.strip() for name in next(reader, [])]
        if not any(names):
            raise TraceError(f"{path}: is empty: accepted is {_ACCEPTED}")
        for name in names:
            if name and names.count(name) > 1:
                raise TraceError(f"{path}, row 1: two columns are called {name!r}: accepted is each name once")
        for number, cells in enumerate(reader, 2):
            if any(cell.strip() for cell in cells[len(names) :]):
                raise TraceError(
                    f"{path}, row {number}: has {len(cells)} cells, the heading {len(names)}: accepted are as many, "
                    "with quotes around a cell that holds the separator"
                )
            padded = [cell.strip() for cell in cells] + [""] * (len(names) - len(cells))
            yield f"{path}, row {number}", dict(zip(names, padded, strict=False))
    except csv.Error as error:
        raise TraceError(f"{path}, line {reader.line_num}: no table ({error}): accepted is {_ACCEPTED}") from None
