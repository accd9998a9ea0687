"""Where a command's words and files go."""

from __future__ import annotations

import filecmp
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from judges.redact import hide_in_urls
from pipeline.terminal import printable


class Output:
    """Results for people go to stdout, or to stderr where stdout belongs to a JSON document; progress to stderr.
    Nothing that is printed can steer a terminal: names and texts come from traces."""

    def __init__(self, command: str, *, json_wanted: bool) -> None:
        self._command = command
        self._json = json_wanted

    def say(self, line: str) -> None:
        """Progress."""
        print(f"{self._command}: {printable(hide_in_urls(line))}", file=sys.stderr, flush=True)

    def result(self, text: str, document: Any, *, painted: bool = False) -> None:
        """What the command is for, once: as text for people, and as a document where that is wanted.

        Args:
            painted: the text has colours, and whoever wrote them has made the rest printable.
        """
        text = hide_in_urls(text)
        print(text if painted else printable(text), file=sys.stderr if self._json else sys.stdout, flush=True)
        self._print_document(document)

    def fail(self, kind: str, message: str, code: int) -> int:
        """An error; returns the exit code."""
        message = hide_in_urls(message)
        print(printable(f"{' '.join(filter(None, ('gpa-judges', self._command)))}: {message}"), file=sys.stderr)
        self._print_document({"error": {"kind": kind, "message": message, "exit_code": code}})
        return code

    def _print_document(self, document: Any) -> None:
        if self._json:
            print(json.dumps(document, indent=1, ensure_ascii=True, allow_nan=False), flush=True)


def save_new(path: Path, save: Callable[[Path], object], *, force: bool) -> None:
    """Saves a file, but not over another one, unless forced to. The same content again is no other file.

    Raises:
        PipelineError: a file with another content is there.
    """
    if path.exists() and not force:
        with tempfile.TemporaryDirectory() as folder:
            save(new := Path(folder) / path.name)
            check_same(path, new)
    save(path)


def check_same(path: Path, new: Path) -> None:
    """Raises: PipelineError, if the file `path` is there with another content than the file `new`."""
    from pipeline.config import PipelineError

    if path.exists() and not filecmp.cmp(path, new, shallow=False):
        raise PipelineError(f"{path} is there with another content: accepted is a new name, or --force")
