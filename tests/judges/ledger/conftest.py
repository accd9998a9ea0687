"""Where a ledger is kept in the tests, and ways to its rows."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from judges.ledger.budget import Budget, Usage
from judges.ledger.lease import LEASE_SECONDS
from judges.ledger.ledger_lm import Ledger
from judges.ledger.steps import Reserve
from judges.lm import LMRequest


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Of a new ledger, in a file and in a database: what a ledger promises holds for both."""
    if request.param == "sqlite":
        return tmp_path / "ledger.sqlite"
    url: str = request.getfixturevalue("postgres").empty()
    return url


@pytest.fixture
def ledger(place: Path | str) -> Iterator[Ledger]:
    with Ledger(place) as ledger:
        yield ledger


@pytest.fixture(scope="session")
def run_sql() -> Callable[..., list[Any]]:
    """Runs a statement behind the ledger's back: place, statement with `?` for values, values."""
    return _run_sql


def _run_sql(place: Path | str, statement: str, *values: Any) -> list[Any]:
    if isinstance(place, Path):
        with closing(sqlite3.connect(place)) as db, db:
            return db.execute(statement, values).fetchall()
    import psycopg

    with psycopg.connect(place, options="-c search_path=gpa_judges") as connection:
        cursor = connection.execute(statement.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="session")
def leave_pending() -> Callable[..., None]:
    """Leaves a call pending: ledger, request, process, and how many seconds ago that process renewed its lease."""
    return _leave_pending


def _leave_pending(ledger: Ledger, request: LMRequest, process: str, age: float = 0.0) -> None:
    ledger.do(Reserve(request.key, request, "run", Usage(1, 1000, 0.5), Budget())).result()
    _run_sql(ledger.path, "UPDATE calls SET owner = 'theirs' WHERE key = ?", request.key)
    if process:
        expires = time.time() + LEASE_SECONDS - age
        _run_sql(ledger.path, "INSERT INTO workers VALUES ('theirs', ?, ?)", process, expires)
