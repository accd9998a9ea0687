"""Tables of labels as rows of named cells: CSV and TSV as spreadsheets write them, JSON, JSON Lines, Parquet."""

from __future__ import annotations

import csv
import io
import re
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
_ACCEPTED = "a table with a heading, in UTF-8 (of a spreadsheet: saved as CSV UTF-8)"
_OWN_FORMS = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How the files begin that spreadsheets write in their own forms."""
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def table_rows(path: Path, report: ReadReport) -> Iterator[tuple[str, dict[str, JSON]]]:
    """(place, cells by column) of each row; blank rows are left out. The heading of a CSV file is row 1.

    Raises:
        TraceError: not such a file, a heading that names a column twice, or a row that is no object; names the place.
    """
    suffix = path.suffix.lower()
    if suffix in TEXTS:
        rows = _from_text(path)
    elif is_parquet(path):
        rows = parquet_rows(path, report.leave_out)
    else:
        rows = read_records(path, report)
    for where, row in rows:
        if not isinstance(row, dict):
            raise TraceError(f"{where}: is {type(row).__name__}: accepted is an object, a value for each column")
        if any(value not in (None, "") for value in row.values()):
            yield where, row


def refuse_spreadsheet(path: Path) -> None:
    """Raises: TraceError, a file in the own form of a spreadsheet, such as .xlsx."""
    if _begins(path, _OWN_FORMS):
        raise TraceError(f"{path}: is in a spreadsheet's own form: accepted is {_ACCEPTED}")


def _begins(path: Path, marks: tuple[bytes, ...]) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4).startswith(marks)
    except OSError:
        return False


def _text(path: Path) -> str:
    """The whole file. Raises: TraceError."""
    refuse_spreadsheet(path)
    if not _begins(path, _UTF16):
        return read_text(path, _ACCEPTED)
    try:
        return path.read_text(encoding="utf-16")
    except UnicodeError as error:
        raise TraceError(f"{path}: not UTF-16 text, as it says ({error}): accepted is {_ACCEPTED}") from None


def _delimiter(text: str, suffix: str) -> str:
    """What parts the cells of the heading, where it stands outside of quotes."""
    heading = re.match(r'(?:[^"\n]++|"[^"]*+")*+', text)
    plain = re.sub(r'"[^"]*"', "", heading[0] if heading else "")
    return "\t" if suffix == ".tsv" and "\t" in plain else max(",;\t|", key=plain.count)


def _from_text(path: Path) -> Iterator[tuple[str, JSON]]:
    text = _text(path)
    said = re.match(r'"?sep=(.)"?\r?\n', text)  # a line of its own, for spreadsheets
    text = text[said.end() :] if said else text
    delimiter = said[1] if said else _delimiter(text, path.suffix.lower())
    first = 2 if said else 1
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        if not any(names):
            raise TraceError(f"{path}: is empty: accepted is {_ACCEPTED}")
        for name in names:
            if name and names.count(name) > 1:
                raise TraceError(f"{path}, row {first}: two columns are called {name!r}: accepted is each name once")
        for number, cells in enumerate(reader, first + 1):
            if any(cell.strip() for cell in cells[len(names) :]):
                raise TraceError(
                    f"{path}, row {number}: has {len(cells)} cells, the heading {len(names)}: accepted are as many, "
                    "with quotes around a cell that holds the separator"
                )
            padded = [cell.strip() for cell in cells] + [""] * (len(names) - len(cells))
            yield f"{path}, row {number}", dict(zip(names, padded, strict=False))
    except csv.Error as error:
        line = reader.line_num + first - 1
        raise TraceError(f"{path}, line {line}: no table ({error}): accepted is {_ACCEPTED}") from None
