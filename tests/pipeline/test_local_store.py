"""Real stores and real processes: MLflow makes its tables in dozens of steps, which takes a second or two."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from pipeline.config import PipelineError
from pipeline.local_store import database_uri, ensure_store
from pipeline.tracking import refusals

ROOT = Path(__file__).parents[2]
OPEN = """
import sys
from pathlib import Path
from pipeline.config import TrackingConfig
from pipeline.tracking import Tracker
output = Path(sys.argv[1])
(output / sys.argv[2]).mkdir(parents=True, exist_ok=True)
print(Tracker.open(output / sys.argv[2], TrackingConfig(), output, sys.argv[2]).run_id)
"""
DIE_IN_MIGRATION = """
import os, signal, sys
left = [int(sys.argv[3])]
from alembic.runtime.migration import HeadMaintainer
update = HeadMaintainer.update_to_step
def counted(self, step):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return update(self, step)
HeadMaintainer.update_to_step = counted
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def runs(output: Path) -> set[str]:
    with closing(sqlite3.connect(output / "mlflow.db")) as db:
        return {row[0] for row in db.execute("SELECT run_uuid FROM runs")}


def test_killed_while_the_tables_are_made_then_started_twice_at_once(tmp_path: Path) -> None:
    for steps in (0, 30):
        process = start(DIE_IN_MIGRATION + OPEN, tmp_path, "killed", steps)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (tmp_path / "mlflow.db").exists()
        assert (tmp_path / "mlflow.db.new").exists()
    both = [start(OPEN, tmp_path, name) for name in ("one", "two")]
    said = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert runs(tmp_path) == {out.strip() for out, _ in said}
    assert {path.name for path in tmp_path.iterdir()} == {"killed", "one", "two", "mlflow.db", ".mlflow.db.lock"}


def test_a_store_that_was_left_half_made_is_put_aside(tmp_path: Path) -> None:
    file = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE experiments (experiment_id INTEGER)")
    os.utime(file, (time.time() - 60,) * 2)
    with refusals("x"):
        ensure_store(database_uri(file), create=True)
        assert (tmp_path / "mlflow.db.incomplete").is_file()
        made = file.read_bytes()
        ensure_store(database_uri(file), create=True)
    assert file.read_bytes() == made


@pytest.mark.parametrize("statement", ["CREATE TABLE mine (x)", "CREATE TABLE experiments (x)"])
def test_what_holds_something_is_left_alone(tmp_path: Path, statement: str) -> None:
    file = tmp_path / "of others.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute(statement)
        db.execute(f"INSERT INTO {statement.split()[2]} VALUES (1)")
        db.commit()
    before = file.read_bytes()
    ensure_store(database_uri(file), create=True)
    assert file.read_bytes() == before


def test_a_reader_makes_no_store(tmp_path: Path) -> None:
    uri = database_uri(tmp_path / "typo.db")
    with pytest.raises(PipelineError, match="there is no MLflow store at"):
        ensure_store(uri, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "databricks", "sqlite://", "sqlite:///:memory:", "a:b:c"])
def test_other_stores_are_not_made(uri: str) -> None:
    ensure_store(uri, create=False)
