"""Records out of files: JSON Lines, a JSON value or array (also in gzip), small damage mended; or rows of Parquet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from labeled_traces.compressed import SUFFIX as GZIP
from labeled_traces.files import parse_json, read_lines, read_text
from labeled_traces.readers.files.json_array import is_large_array, read_array
from labeled_traces.readers.files.parquet import SUFFIX as PARQUET
from labeled_traces.readers.files.parquet import is_parquet, parquet_records
from labeled_traces.readers.report import FILE, ReadReport
from labeled_traces.trace import JSON, TraceError

Read = TypeVar("Read")
OTHER_FILE = "file in a folder that is no JSON or Parquet, left out"
_TEXTS = (".json", ".jsonl", ".ndjson")
SUFFIXES = (*_TEXTS, PARQUET)
# A text, or a comma that stands before a closing bracket.
# Possessive: a backtracking repeat keeps some hundred bytes for each character of a long text.
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]++|\\.)*+")|,(?=\s*[\]}])', re.DOTALL)


def expand(paths: Iterable[Path], report: ReadReport | None = None, suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    """Files as they are, folders as the files with these suffixes in them, each file once.

    Args:
        report: is told of the other files of a folder.

    Raises:
        TraceError: a path that does not exist, or a folder without such files.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file())
            records = [file for file in inside if _suffix(file) in suffixes]
            if not records:
                raise TraceError(f"{path}: a folder without {', '.join(suffixes)} files")
            for other in inside:
                if report is not None and _suffix(other) not in suffixes:
                    report.add(OTHER_FILE, str(other))
            files += records
        elif path.exists():
            files.append(path)
        else:
            raise TraceError(f"{path}: no such file or folder")
    return list({file.resolve(): file for file in files}.values())


def _suffix(path: Path) -> str:
    name = Path(path.stem) if path.suffix.lower() == GZIP else path
    packed = name is not path and name.suffix.lower() not in _TEXTS
    return GZIP if packed else name.suffix.lower()


def read_files(paths: Iterable[Path], report: ReadReport) -> Iterator[tuple[str, JSON]]:
    """The records of several files, see `read_records`; a file that cannot be read is left out."""
    for path in paths:
        try:
            yield from read_records(path, report)
        except TraceError as error:
            report.leave_out(error, FILE)


def read_each(
    records: Iterable[tuple[str, JSON]], read: Callable[[JSON, str], Read], report: ReadReport
) -> Iterator[tuple[str, Read]]:
    """(place, what `read` makes of the record and its place) pairs; records of which it raises TraceError are left out.

    Raises:
        TraceError: of the first such record, if the read is strict.
    """
    for where, record in records:
        try:
            found = read(record, where)
        except TraceError as error:
            report.leave_out(error)
            continue
        yield where, found


def read_records(path: Path, report: ReadReport) -> Iterator[tuple[str, JSON]]:
    """(place, record) pairs. JSON Lines and Parquet are streamed, as are large documents of OTLP; an array gives its
    items; `{"data": [...]}` the items of `data`.

    Raises:
        TraceError: an empty file, or one without JSON; names file and line. Single bad lines are left out.
    """
    if is_parquet(path):
        yield from parquet_records(path, report.leave_out)
        return
    if is_large_array(path):
        yield from _large_array(path, report)
        return
    lines = read_lines(path, report.leave_out, report.taken)
    first = next(lines, None)
    if first is None:
        raise TraceError(f"{path}: is empty: accepted is a JSON or JSON Lines file")
    number, line = first
    try:
        values = _items(f"{path}, line {number}", parse_mended(line, f"{path}, line {number}", report))
    except TraceError as error:
        text = read_text(path)
        try:
            yield from _items(str(path), parse_mended(text, str(path), report))  # a value over several lines
            return
        except TraceError:
            if not any(_is_object(other) for other in text.split("\n")):
                raise
        report.leave_out(error)
        values = iter(())
    yield from values
    for number, line in lines:
        where = f"{path}, line {number}"
        try:
            value = parse_mended(line, where, report)
        except TraceError as error:
            report.leave_out(error)
            continue
        yield from _items(where, value)


def _large_array(path: Path, report: ReadReport) -> Iterator[tuple[str, JSON]]:
    """One item after the other; where there is damage, the rest as a whole, which may mend it."""
    count = 0
    try:
        for count, item in enumerate(read_array(path, report.taken), 1):
            yield f"{path}, record {count}", item
    except TraceError as error:
        try:
            value = parse_mended(read_text(path), str(path), report)
        except TraceError:
            raise error from None
        whole = list(_items(str(path), value))
        if whole and whole[0][1] is value and count:
            raise
        yield from whole[count:]


def first_record(path: Path) -> JSON:
    """Raises: TraceError, as `read_records` does."""
    return next((record for _, record in read_records(path, ReadReport())), None)


def _is_object(line: str) -> bool:
    try:
        return isinstance(parse_json(line, ""), dict)
    except TraceError:
        return False


def _items(where: str, value: JSON) -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict) and isinstance(value.get("data"), list) and "trace_id" not in value:
        value = value["data"]
    if isinstance(value, list):
        yield from ((f"{where}, record {number}", item) for number, item in enumerate(value, 1))
    else:
        yield where, value


def parse_mended(text: str, where: str, report: ReadReport) -> JSON:
    """A JSON text, without the commas that stand before a closing bracket. Raises: TraceError, if it is none."""
    try:
        return parse_json(text, where)
    except TraceError:
        mended, commas = _without_trailing_commas(text)
        if not commas:
            raise
        value = parse_json(mended, where)
        report.add("trailing comma", where, commas)
        return value


def _without_trailing_commas(text: str) -> tuple[str, int]:
    found = sum(match[1] is None for match in _TRAILING_COMMA.finditer(text))
    return (_TRAILING_COMMA.sub(lambda match: match[1] or "", text) if found else text), found
