"""The records of one JSON document too large to be read at once, one at a time: an array, or a mapping around one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from labeled_traces.compressed import is_gzip
from labeled_traces.files import parse_json
from labeled_traces.trace import JSON, TraceError

LARGEST = 16_000_000
"""Bytes of a file that is read at once, whatever it holds."""
_PIECE = 1_000_000
_HEAD = 1_000
_BATCHES = {
    "resourceSpans": {"scopeSpans": {"spans": None}},
    "resource_spans": {"scope_spans": {"spans": None}},
    "resourceLogs": {"scopeLogs": {"logRecords": None}},
    "resource_logs": {"scope_logs": {"log_records": None}},
}
"""Lists inside of lists: each of the innermost items is a batch of its own."""
_LISTS = {"data": None, "runs": None}
"""Lists whose items are records."""
_OPENS = re.compile(
    rf'\ufeff?\s*(?:\[|\{{(?:.*?[,\s])??"(?:{"|".join((*_LISTS, *_BATCHES))})"\s*:\s*\[)\s*\{{', re.DOTALL
)


def is_large_array(path: Path) -> bool:
    """Whether a file of more than LARGEST bytes is an array of objects, or one mapping around one; no JSON Lines."""
    try:
        if path.stat().st_size <= LARGEST or is_gzip(path):
            return False
        with _open(path) as file:
            if _OPENS.match(file.read(_HEAD)) is None:
                return False
            file.seek(0)
            lines = [file.readline(LARGEST) for _ in range(2)]  # the first may be damaged
    except (OSError, UnicodeDecodeError):
        return False
    return lines[0].lstrip("\ufeff \t")[:1] == "[" or not any(map(_is_whole, lines))


def _is_whole(line: str) -> bool:
    if not line.endswith("\n"):
        return False
    try:
        parse_json(line.removeprefix("\ufeff"), "")
    except TraceError:
        return False
    return True


def read_array(path: Path, taken: Callable[[int], object] = bool) -> Iterator[JSON]:
    """The items, those of `_BATCHES` each as a batch of one. After an array only what closes it may stand.

    Args:
        taken: gets how much more has been read, in characters.

    Raises:
        TraceError: damage; what stands before it has been given. Names how many items that were.
    """
    with _open(path) as file:
        text = _Text(file, path, taken)
        is_array = text.peek() == "["
        while text.peek():
            for record in _array(text, None, ()) if is_array else _object(text, {**_LISTS, **_BATCHES}, ()):
                text.count += 1
                yield record
            if is_array and text.peek():
                raise TraceError(f"{path}: more stands after its array: accepted is one array a file")


def _array(text: _Text, inner: JSON, above: tuple[str, ...]) -> Iterator[JSON]:
    """The items of an array; of its objects those of the lists in `inner`. `above`: the keys that lead to it."""
    text.take("[")
    if text.peek() == "]" and above:
        text.take("]")
        return
    while True:
        if inner is not None and text.peek() == "{":
            yield from _object(text, inner, above)
        else:
            yield _wrapped(text.value(), above)
        if text.take(",", "]") == "]":
            return


def _object(text: _Text, inner: JSON, above: tuple[str, ...]) -> Iterator[JSON]:
    """The items of the lists that `inner` names; the object itself if it has none."""
    rest: dict[str, JSON] = {}
    found = False
    text.take("{")
    mark = text.take("}") if text.peek() == "}" else ","
    while mark == ",":
        key = text.key()
        if key in inner and text.peek() == "[" and not (key in _LISTS and "trace_id" in rest):
            found = True
            yield from _array(text, inner[key], () if key in _LISTS else (*above, key))
        else:
            rest[key] = text.value()
        mark = text.take(",", "}")
    if not found:
        yield _wrapped(rest, above)


def _wrapped(item: JSON, above: tuple[str, ...]) -> JSON:
    for key in reversed(above):
        item = {key: [item]}
    return item


class _Text:
    """A text that is read piece by piece. `count`: the records so far."""

    def __init__(self, file: TextIO, path: Path, taken: Callable[[int], object]) -> None:
        self._file, self._path, self._taken = file, path, taken
        self._text, self._at = "", 0
        self._decode = json.JSONDecoder().raw_decode
        self.count = 0
        if self.peek() == "\ufeff":
            self._at += 1

    def peek(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            self._at = _after(self._text, self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(_PIECE):
                return ""

    def take(self, *marks: str) -> str:
        """Raises: TraceError, if none of the marks stands here."""
        mark = self.peek()
        if mark not in marks:
            raise self._damage(f"accepted is {' or '.join(marks)}" if mark else "it is cut off")
        self._at += 1
        return mark

    def value(self) -> JSON:
        """Raises: TraceError, if no value stands here, or one of which nobody knows where it ends."""
        piece = _PIECE
        while True:
            self.peek()
            try:
                value, end = self._decode(self._text, self._at)
                if _after(self._text, end) < len(self._text) or not self._more(piece):
                    self._at = end
                    return value
            except RecursionError:
                raise TraceError(f"{self._path}, record {self.count + 1}: nested too deeply to read") from None
            except ValueError as error:
                if not self._more(piece):
                    raise self._damage(str(error)) from None
            piece *= 2

    def key(self) -> str:
        """Raises: TraceError, if no text and colon stand here."""
        if self.peek() != '"':
            raise self._damage("accepted is a text in quotes, as a key")
        key = str(self.value())
        self.take(":")
        return key

    def _more(self, piece: int) -> bool:
        try:
            more = self._file.read(piece)
        except UnicodeDecodeError as error:
            raise self._damage(str(error)) from None
        self._taken(len(more))
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)

    def _damage(self, what: str) -> TraceError:
        place = f"{self._path}, record {self.count + 1}"
        return TraceError(f"{place}: not JSON ({what}): {self.count} records before it were read")


_SPACE = re.compile(r"[ \t\r\n]*")


def _after(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _open(path: Path) -> TextIO:
    return path.open(encoding="utf-8", errors="surrogatepass", newline="\n")
