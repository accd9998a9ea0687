"""The SQLite file of an MLflow without a server: made as a whole by one process, or not at all.

MLflow makes its tables in many steps, in the file itself. One that is killed among them leaves a file that no later
start accepts, and two that start together get in each other's way. So the tables are made in a file beside it, under a
lock, and the file gets its name when it is complete.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pipeline.config import PipelineError

_PATIENCE = 300.0
"""Seconds to wait for another process that makes the same store."""
_AT_REST = 10.0
"""Seconds without a change after which nobody is at work on a file that is not complete."""
_BESIDE = ("-journal", "-wal", "-shm")
"""What SQLite keeps beside a file; a new file of that name must not be read with it."""


def ensure_store(uri: str, *, create: bool) -> None:
    """Makes the file that a `sqlite:` URI names, where there is none; other URIs are left alone. A file that a process
    left half made, with nothing in it yet, is put aside as `<name>.incomplete`.

    Raises:
        PipelineError: there is no such file and `create` is not wanted, or another process does not get done with it.
    """
    file = _file_of(uri)
    if file is None or _is_complete(file):
        return
    if not create and not file.exists():
        raise PipelineError(f"there is no MLflow store at {uri}: accepted is the URI of one that is there")
    with _locked(file):
        end = time.monotonic() + _PATIENCE
        while file.exists() and time.time() - file.stat().st_mtime < _AT_REST and time.monotonic() < end:
            # Some other program may be at work on it, such as a server that was just started.
            if _is_complete(file):
                return
            time.sleep(0.2)
        if not _is_complete(file):
            _make(file)


def _file_of(uri: str) -> Path | None:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(uri)
    except (ArgumentError, ValueError):
        return None
    named = url.database if url.get_backend_name() == "sqlite" else None
    return None if named in (None, "", ":memory:") or str(named).startswith("file:") else Path(str(named)).absolute()


def _is_complete(file: Path) -> bool:
    """False where the file is missing, or where MLflow's tables were begun in it and hold nothing. What is no database,
    or that of another program, is not ours to judge."""
    if not file.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=20)) as db:
            tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if tables and not tables & {"experiments", "alembic_version"}:
                return True
            # A store that was ever opened has an experiment, `Default`.
            kept = tables & {"experiments", "registered_models"}
            return any(db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in kept)
    except sqlite3.Error:
        return True


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """SQLite's lock on a file beside it: the system gives it back when the process ends, however it ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = file.with_name(f".{file.name}.lock")  # it stays: who waits for it has it open
    with closing(sqlite3.connect(lock, timeout=_PATIENCE, isolation_level=None)) as db:
        try:
            db.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise PipelineError(
                f"another process has been making the MLflow store {file} for {_PATIENCE:.0f} seconds ({error}): "
                "try again when it has ended"
            ) from error
        yield


def _make(file: Path) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    new = file.with_name(f"{file.name}.new")
    _remove(new, "", *_BESIDE)
    # Only the experiment `Default` keeps its files there, and nothing of ours is in it.
    store = SqlAlchemyStore(database_uri(new), (file.parent / "mlartifacts").as_uri())
    store.engine.dispose()
    if file.exists():
        os.replace(file, file.with_name(f"{file.name}.incomplete"))
        _remove(file, *_BESIDE)
    os.replace(new, file)


def _remove(file: Path, *endings: str) -> None:
    for ending in endings:
        file.with_name(f"{file.name}{ending}").unlink(missing_ok=True)


def database_uri(file: Path) -> str:
    """The URI of an SQLite file. The two characters that mean something in a database URL are escaped."""
    return f"sqlite:///{str(file.absolute()).replace('%', '%25').replace('?', '%3F')}"
