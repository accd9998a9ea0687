"""Labelled traces written one at a time, so that no more than one is in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from labeled_traces.dataset import LabeledTrace, from_json, twice, with_plain_ids
from labeled_traces.dataset import line as as_line
from labeled_traces.files import check_writable, parse_json
from labeled_traces.trace import TraceError


class RowFile:
    """What `Dataset.save` writes of the same rows. The file has its name only after `keep`; before, `new` is its place.

    Raises (every method): TraceError, where no file can be written.
    """

    def __init__(self, path: Path) -> None:
        check_writable(path)
        self.path = path
        self._at: dict[str, tuple[str, int, int]] = {}
        """Trace id -> the place that the row came from, its first byte, its length."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        except OSError as error:
            raise TraceError(f"{path}: cannot be written ({error.strerror})") from None
        self.new = Path(name)
        self._file = os.fdopen(handle, "w+b")

    def __enter__(self) -> RowFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        with suppress(FileNotFoundError):
            self.new.unlink()

    def fill(
        self,
        rows: Iterable[tuple[str, LabeledTrace]],
        warn: Callable[[str], None],
        leave_out: Callable[[TraceError], None],
        written: Callable[[LabeledTrace], None],
    ) -> RowFile:
        """Writes (place, row) pairs, each id once, as `Dataset.from_places` keeps them. `written` gets those rows."""
        end = 0
        for place, row in with_plain_ids(rows, leave_out):
            if row.trace_id in self._at:
                twice(self._at[row.trace_id][0], self._row(row.trace_id), place, row, warn, leave_out)
                continue
            text = as_line(row) + b"\n"
            try:
                self._file.write(text)
            except OSError as error:
                raise TraceError(f"{self.path}: cannot be written ({error.strerror})") from None
            self._at[row.trace_id] = (place, end, len(text))
            end += len(text)
            written(row)
        self._file.flush()
        return self

    def __len__(self) -> int:
        return len(self._at)

    def __iter__(self) -> Iterator[LabeledTrace]:
        return (self._row(trace_id) for trace_id in self._at)

    def keep(self) -> None:
        try:
            self._file.close()
            os.chmod(self.new, 0o644)
            os.replace(self.new, self.path)
        except OSError as error:
            raise TraceError(f"{self.path}: cannot be written ({error.strerror})") from None

    def _row(self, trace_id: str) -> LabeledTrace:
        self._file.flush()
        place, start, length = self._at[trace_id]
        return from_json(parse_json(os.pread(self._file.fileno(), length, start).decode(), place), place)
