"""JSON records out of files: JSON Lines, one JSON value, or a JSON array, with small damage mended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from labeled_traces.files import parse_json, read_lines, read_text
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, TraceError

SUFFIXES = (".json", ".jsonl", ".ndjson")
# A text, or a comma that stands before a closing bracket.
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[\]}])', re.DOTALL)


def expand(paths: Iterable[Path]) -> list[Path]:
    """Files as they are, folders as the JSON and JSON Lines files in them, each file once.

    Raises:
        TraceError: a path that does not exist, or a folder without such files.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
            if not inside:
                raise TraceError(f"{path}: a folder without {', '.join(SUFFIXES)} files")
            files += inside
        elif path.exists():
            files.append(path)
        else:
            raise TraceError(f"{path}: no such file or folder")
    return list({file.resolve(): file for file in files}.values())


def read_records(path: Path, report: ReadReport) -> Iterator[tuple[str, JSON]]:
    """(place, record) pairs. JSON Lines are streamed; an array gives its items; `{"data": [...]}` the items of `data`.

    Raises:
        TraceError: an empty file, or one that is not JSON; names file and line.
    """
    lines = read_lines(path)
    try:
        first = next(lines)
    except StopIteration:
        raise TraceError(f"{path}: is empty: accepted is a JSON or JSON Lines file") from None
    try:
        parse_json(_without_trailing_commas(first[1])[0], "")
    except TraceError:
        yield from _items(str(path), _parse(read_text(path), str(path), report))  # a value over several lines
        return
    for number, line in chain([first], lines):
        where = f"{path}, line {number}"
        yield from _items(where, _parse(line, where, report))


def first_record(path: Path) -> JSON:
    """Raises: TraceError, as `read_records` does."""
    return next((record for _, record in read_records(path, ReadReport())), None)


def _items(where: str, value: JSON) -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict) and isinstance(value.get("data"), list) and "trace_id" not in value:
        value = value["data"]
    if isinstance(value, list):
        yield from ((f"{where}, record {number}", item) for number, item in enumerate(value, 1))
    else:
        yield where, value


def _parse(text: str, where: str, report: ReadReport) -> JSON:
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
