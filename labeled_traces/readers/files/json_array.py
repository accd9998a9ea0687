"""The items of a JSON array too large to be read at once, one at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from labeled_traces.trace import JSON, TraceError

LARGEST = 16_000_000
"""Bytes of a file that is read at once, whatever it holds."""
_PIECE = 1_000_000
_OPENS = re.compile(r'\ufeff?\s*(?:\[|\{\s*"data"\s*:\s*\[)')
_SPACE = re.compile(r"\s*")


def is_large_array(path: Path) -> bool:
    """Whether a file of more than LARGEST bytes begins as an array, or as `{"data": [...]}`, with an object in it."""
    try:
        if path.stat().st_size <= LARGEST:
            return False
        with _open(path) as file:
            head = file.read(1_000)
    except (OSError, UnicodeDecodeError):
        return False
    opens = _OPENS.match(head)
    return opens is not None and head[opens.end() :].lstrip()[:1] == "{"


def read_array(path: Path) -> Iterator[JSON]:
    """The items. After the array only what closes it may stand.

    Raises:
        TraceError: damage; what stands before it has been given. Names how many items that were.
    """
    decoder = json.JSONDecoder()
    count = 0
    with _open(path) as file:
        text = file.read(_PIECE)
        opens = _OPENS.match(text)
        at = opens.end() if opens else 0
        piece = _PIECE
        while True:
            try:
                item, end = decoder.raw_decode(text, _after(text, at))
                end = _after(text, end)
                mark = text[end : end + 1]
                if mark not in (",", "]"):
                    raise ValueError("accepted are a comma and ]" if mark else "it is cut off")
            except RecursionError:
                raise TraceError(f"{path}, record {count + 1}: nested too deeply to read") from None
            except (ValueError, UnicodeDecodeError) as error:
                more = file.read(piece)
                if not more:
                    message = f"{path}, record {count + 1}: not JSON ({error}): {count} records before it were read"
                    raise TraceError(message) from None
                text, at, piece = text[at:] + more, 0, piece * 2
                continue
            count += 1
            yield item
            at, piece = end + 1, _PIECE
            if mark == "]":
                if opens and opens[0].endswith("[") and "{" not in opens[0] and (text[at:] + file.read(_PIECE)).strip():
                    raise TraceError(f"{path}: more stands after its array: accepted is one array a file")
                return
            if at > len(text) // 2:
                text, at = text[at:], 0


def _open(path: Path) -> TextIO:
    return path.open(encoding="utf-8", errors="surrogatepass", newline="\n")


def _after(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
