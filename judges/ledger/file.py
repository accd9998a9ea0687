"""Opens the ledger's SQLite file, and says in plain words what is wrong with one that cannot be used."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from functools import partial
from pathlib import Path

from judges.ledger.connection import Connection, schema
from judges.ledger.tables import SINCE_2, VERSION
from judges.lm import JudgeError

log = logging.getLogger(__name__)

APPLICATION_ID = 0x67706A31
BUSY_SECONDS = 60.0
_MOVED = "the file was removed, moved or replaced"

# The tables of version 1 lack these.
_SINCE_1 = ("ALTER TABLE calls ADD COLUMN sent TEXT", "ALTER TABLE calls ADD COLUMN reasoning_tokens BIGINT")
_OLD_OWNERS = "INSERT INTO workers SELECT DISTINCT owner, owner, ? FROM calls WHERE status = 'pending'"


def connect(path: Path, read_only: bool) -> Connection:
    """Opens the file, and makes it where it is not there. `read_only`: the file is there and nothing is written.
    An old file gets what it lacks, or is read as it is.

    Raises:
        JudgeError: the path cannot be used, or the file is damaged, newer than this program, or not a ledger.
    """
    if read_only and not path.is_file():
        raise JudgeError(f"there is no ledger {path}: accepted is one in which a run has kept its calls")
    # Only SQLite may open the file: when a process closes a file, all locks end that it has on it. The next who leaves
    # would then take itself for the last, and remove the write-ahead log with what this process has written.
    try:
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
        raw = _open(path, read_only)
    except (OSError, sqlite3.Error) as error:
        raise explain(error, path) from error
    return Connection(raw, "sqlite", _Begin(raw, path), (sqlite3.Error,), partial(explain, path=path))


def check_kept(path: Path, capped: bool) -> None:
    """Looks whether the file is still there where there was one (see `note_use`); warns where it is not.

    Raises:
        JudgeError: it is not, and the run is `capped`: nobody knows what was spent.
    """
    if not _note(path).exists() or (path.is_file() and path.stat().st_size):
        return
    said = (
        f"ledger {path} is gone or empty, though there was one: what its calls cost is no longer known, and they will "
        "be made and paid again"
    )
    if capped:
        raise JudgeError(
            f"{said}, so the budget cannot be kept: put the file back, or delete {_note(path)} to begin anew with the "
            "whole budget"
        )
    log.warning("%s", said)


def note_use(path: Path) -> None:
    """Leaves a note beside the file, so that its loss does not look like a run that has spent nothing."""
    if not _note(path).exists():
        _note(path).write_text(
            f"Calls to models were made here: their replies and cost are in {path.name}.\n"
            "This note tells the loss of that file from a new beginning with the whole budget. Delete both.\n"
        )


def _note(path: Path) -> Path:
    return path.with_suffix(".spent")


def explain(error: Exception, path: Path) -> JudgeError:
    """What a failure of the file means, and what to do."""
    text = str(error)
    if "locked" in text:
        advice = f"another process has held it for {BUSY_SECONDS:.0f} s; end that process, or give another path"
    elif "not a database" in text:
        return JudgeError(
            f"{path} is not a ledger, nor any SQLite file: accepted is a ledger, or a path without a file (of a ledger "
            "whose beginning was damaged: restore a copy)"
        )
    elif "malformed" in text:
        advice = (
            "the file is damaged; restore a copy, or save what is readable with "
            f"`sqlite3 {path} .recover`, or move it away to begin a new one (its replies are then paid again)"
        )
    elif _MOVED in text:
        advice = "put it back, then start again; accepted is a file that stays where it is while a run uses it"
    elif "closed" in text:
        advice = "it was closed before this call; open it again"
    elif "full" in text:
        advice = "free some space and start again: what was written before is kept"
    else:
        advice = "accepted is a file that can be written, in a folder that can be written, on a local disk"
    return JudgeError(f"ledger {path}: {text}: {advice}")


def _open(path: Path, read_only: bool) -> sqlite3.Connection:
    db = _raw(f"{path.absolute().as_uri()}?{_access(path) if read_only else 'mode=rwc'}")
    try:
        old = _check(db, path) if read_only or not _is_empty(db) else False
        if read_only:
            if old:
                # What it lacks is added to a copy.
                file, db = db, _raw(":memory:")
                file.backup(db)
                file.close()
                _complete(db)
            db.execute("PRAGMA query_only = ON")
        else:
            _use_write_ahead_log(db)
            if old or _is_empty(db):
                db.execute("BEGIN IMMEDIATE")
                _complete(db)
                db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _raw(address: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        address, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    # A damaged text is one damaged row, and no failure of all that are read with it.
    db.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    return db


class _Begin:
    """The write-ahead log survives a kill as it is; only a power cut needs a flush to the disk.

    SQLite goes on writing to a file that was removed: all that is paid from then on would be lost.
    """

    def __init__(self, db: sqlite3.Connection, path: Path) -> None:
        self._db = db
        self._path = path.absolute()
        self._file = _place_on_disk(self._path)
        self._lasting: bool | None = None

    def __call__(self, lasting: bool) -> float:
        if _place_on_disk(self._path) != self._file:
            raise sqlite3.OperationalError(_MOVED)
        if lasting != self._lasting:
            self._db.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
            self._lasting = lasting
        self._db.execute("BEGIN IMMEDIATE")
        return time.time()


def _place_on_disk(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _complete(db: sqlite3.Connection) -> None:
    """Makes what is missing of the tables, in a new file or an old one."""
    is_new = _is_empty(db)
    version = db.execute("PRAGMA user_version").fetchone()[0]
    for statement in schema("sqlite"):
        db.execute(statement)
    if not is_new and version == 1:
        for statement in _SINCE_1:
            db.execute(statement)
        # Such a process kept its hold for an hour.
        db.execute(_OLD_OWNERS, (time.time() + 3600.0,))
    if not is_new and version < 3:
        for statement in SINCE_2:
            db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def _access(path: Path) -> str:
    """How to read a file that is not to be written. Even readers of a write-ahead log leave files beside it unless they
    may remove them; where nothing can be written, nobody else can write either."""
    if os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
        return "mode=rw"
    return "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"


def _is_empty(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master").fetchone() is None


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """SQLite does not wait for its lock here, and several processes may open a new file at once."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _check(db: sqlite3.Connection, path: Path) -> bool:
    """Whether it is an old one. Raises: JudgeError, where it cannot be used."""
    application, version = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if application != APPLICATION_ID:
        raise JudgeError(f"{path} is an SQLite file of something else: accepted is a ledger, or a path without a file")
    if version not in range(1, VERSION + 1):
        raise JudgeError(f"ledger {path} has version {version}: this program reads versions 1 to {VERSION}")
    return bool(version < VERSION)
