"""Writes calls to files that a provider takes: one model a file, and none above the provider's limits."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from judges.lm import LMRequest
from labeled_traces.files import check_writable, parse_json, read_lines
from pipeline.batch.calls import Asked, Lines, provider_of
from pipeline.config import PipelineError

LIMITS = {"anthropic": (100_000, 240 * 10**6)}
"""Provider -> most requests and bytes of a batch. Anthropic's 256 MB are for its own form, which is a little longer."""
_OPENAI = (50_000, 200 * 10**6)


class CallFiles:
    """`with CallFiles(path) as files:` and `files.add(request)`: nothing is there before the end, then all of it.

    One file has the name that was given; of several, `calls.jsonl` becomes `calls-1.jsonl`, `calls-2.jsonl` ... What
    an earlier export has left under these names (`earlier`) is replaced. `files`: each, and the model and endpoint of
    its calls.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[Path, tuple[str, str]] = {}
        self.bytes = 0
        self._lines = Lines()
        self.earlier = _earlier(path)
        self._parts: list[tuple[str, IO[bytes], tuple[str, str]]] = []
        self._open: dict[tuple[str, str], _Part] = {}

    def __enter__(self) -> CallFiles:
        check_writable(self.path)
        with _writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            for _name, file, _target in self._parts:
                with suppress(OSError) if kind else _writing(self.path):
                    file.close()
            if kind is None:
                with _writing(self.path):
                    self._publish()
        finally:
            for name, _file, _target in self._parts:
                with suppress(FileNotFoundError):
                    os.unlink(name)

    def add(self, request: LMRequest) -> None:
        line = json.dumps(self._lines.of(request), ensure_ascii=False).encode() + b"\n"
        target = (request.model, request.endpoint)
        part = self._open.get(target)
        with _writing(self.path):
            if part is None or not part.has_room(len(line)):
                part = self._open[target] = self._new(target)
            part.write(line)
        self.bytes += len(line)

    def _new(self, target: tuple[str, str]) -> _Part:
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        file = os.fdopen(handle, "wb")
        self._parts.append((name, file, target))
        return _Part(file, *LIMITS.get(provider_of(*target)[0], _OPENAI))

    def _publish(self) -> None:
        several = len(self._parts) > 1
        for number, (name, _, target) in enumerate(self._parts, 1):
            path = self.path.with_stem(f"{self.path.stem}-{number}") if several else self.path
            os.chmod(name, 0o644)
            os.replace(name, path)
            self.files[path] = target
        for path in self.earlier:
            if path not in self.files:
                path.unlink()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Raises: PipelineError, where the file or one beside it cannot be written."""
    try:
        yield
    except OSError as error:
        raise PipelineError(f"{path}: cannot be written ({error.strerror})") from None


class _Part:
    def __init__(self, file: IO[bytes], most_calls: int, most_bytes: int) -> None:
        self._file = file
        self._calls = most_calls
        self._bytes = most_bytes

    def has_room(self, size: int) -> bool:
        return self._calls > 0 and self._bytes >= size

    def write(self, line: bytes) -> None:
        self._calls -= 1
        self._bytes -= len(line)
        self._file.write(line)


def _earlier(path: Path) -> list[Path]:
    """Files of an earlier export.

    Raises:
        PipelineError: one of the names is taken by something else.
    """
    beside = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    found = [other for other in beside if same_export(path, other) and other.is_file()]
    for other in found:
        if not holds_calls(other):
            raise PipelineError(f"{other} is there and holds no calls of ours: accepted is another --out")
    return found


def same_export(path: Path, other: Path) -> bool:
    """Whether an export to `path` may write the other file."""
    return bool(re.fullmatch(rf"{re.escape(path.stem)}(-\d+)?{re.escape(path.suffix)}", other.name))


def holds_calls(path: Path) -> bool:
    """Whether an export wrote the file, by its first line."""
    try:
        return any(Asked.of(parse_json(line, str(path))) for _, line in _first(path))
    except ValueError:
        return False


def _first(path: Path) -> list[tuple[int, str]]:
    return [line for line, _ in zip(read_lines(path), range(1), strict=False)]
