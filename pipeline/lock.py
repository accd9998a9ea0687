"""Keeps two processes from doing the same work side by side."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from judges.ledger.owner import this_process
from pipeline.config import PipelineError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder for this process. The lock is SQLite's on `lock.sqlite`: the system gives it back when the
    process ends, however it ends. `lock.owner` says who holds it, for people.

    Raises:
        PipelineError: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    owner = folder / "lock.owner"
    with closing(sqlite3.connect(folder / "lock.sqlite", timeout=0, isolation_level=None)) as db:
        try:
            db.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            who = owner.read_text(encoding="utf-8") if owner.is_file() else "unknown"
            raise PipelineError(
                f"{folder} is in use by process {who} (host:process:start): accepted is one at a time; try again "
                "when it has ended"
            ) from error
        owner.write_text(this_process(), encoding="utf-8")
        yield
