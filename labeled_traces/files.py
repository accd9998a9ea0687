"""Reading and writing text files line by line, with errors that name file and line."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from labeled_traces.trace import JSON, TraceError


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Line numbers (from 1) and lines, one in memory at a time; blank lines are left out. Only `\\n` ends a line.

    Raises:
        TraceError: no such file, a folder, unreadable, or not UTF-8 text.
    """
    return ((number, line) for number, line in _all_lines(path) if line.strip())


def read_text(path: Path) -> str:
    """The whole file. Raises as `read_lines` does."""
    return "".join(line for _, line in _all_lines(path))


def _all_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                try:
                    # Some writers let a lone surrogate through as three bytes: read, and left to whoever reads on.
                    line = raw.decode("utf-8", "surrogatepass")
                except UnicodeDecodeError as error:
                    raise TraceError(f"{path}, line {number}: not UTF-8 text ({error.reason}): {_ACCEPTED}") from None
                yield number, line.removeprefix("\ufeff") if number == 1 else line
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}): {_ACCEPTED}") from None


_ACCEPTED = "accepted is a JSON or JSON Lines file in UTF-8"


def parse_json(text: str, where: str) -> JSON:
    """Raises: TraceError, naming `where`, if the text is not one JSON value or is nested too deeply to read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise TraceError(f"{where}: nested too deeply to read") from None
    except ValueError as error:
        raise TraceError(f"{where}: not JSON ({error})") from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes a file as a whole or not at all: a kill or an error on the way leaves what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(line)
                file.write("\n")
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
