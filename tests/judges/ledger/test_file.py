"""Tests of opening the ledger's file: paths that cannot be used, and files that are damaged or of something else."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.ledger.steps import Drop, End
from judges.ledger.writer import LedgerWriter
from judges.lm import JudgeError

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel

    Models = type[CountingModel]


REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def test_a_replay_needs_its_ledger(path: Path) -> None:
    with pytest.raises(JudgeError, match="there is no ledger"):
        Ledger(path, read_only=True)
    assert not path.exists()


def test_a_file_of_another_kind_is_no_ledger_and_stays(path: Path) -> None:
    text = b"this is no database at all" * 100
    path.write_bytes(text)
    for read_only in (False, True):
        with pytest.raises(JudgeError, match=r"ledger\.sqlite is not a ledger.*restore a copy"):
            Ledger(path, read_only)
    assert path.read_bytes() == text


def test_a_file_with_a_damaged_page_says_what_to_do(path: Path, counting_model: Models) -> None:
    with LedgerLM(counting_model(), Ledger(path), "run") as lm:
        counting_model.ask(lm, *(counting_model.request(i) for i in range(50)))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(JudgeError, match="damaged"), LedgerLM(counting_model(), Ledger(path), "run") as lm:
        counting_model.ask(lm, counting_model.request(0))


def test_a_truncated_file_says_what_to_do(path: Path, counting_model: Models) -> None:
    with LedgerLM(counting_model(), Ledger(path), "run") as lm:
        counting_model.ask(lm, *(counting_model.request(i) for i in range(50)))
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(JudgeError, match="damaged"), LedgerLM(counting_model(), Ledger(path), "run") as lm:
        counting_model.ask(lm, counting_model.request(0))


def test_a_database_of_something_else_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE experiments (id)")
    before = path.read_bytes()
    with pytest.raises(JudgeError, match="something else"):
        Ledger(path)
    assert path.read_bytes() == before


def test_a_newer_ledger_is_refused(path: Path) -> None:
    Ledger(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(JudgeError, match="version 99: this program reads versions 1 to 3"):
        Ledger(path)


def test_an_empty_file_becomes_a_ledger(path: Path, counting_model: Models) -> None:
    path.touch()
    with LedgerLM(counting_model(), Ledger(path), "run") as lm:
        assert counting_model.ask(lm, counting_model.request())[0].text == "reply 0"


def test_paths_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="is a folder"):
        Ledger(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(JudgeError, match="accepted is a file that can be written"):
        Ledger(tmp_path / "file" / "ledger.sqlite")
    with pytest.raises(JudgeError, match="accepted is a file that can be written"):
        Ledger("/proc/ledger.sqlite")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(JudgeError, match="accepted is a file that can be written"):
        Ledger(tmp_path / "ledger.sqlite")


def test_a_path_with_odd_characters(tmp_path: Path, counting_model: Models) -> None:
    path = tmp_path / "a b?mode=ro#é%41" / "led ger.sqlite"
    with LedgerLM(counting_model(), Ledger(path), "run") as lm:
        counting_model.ask(lm, counting_model.request())
    assert path.is_file()
    assert sorted(file.name for file in path.parent.iterdir()) == ["led ger.sqlite"], "one file once it is closed"


def test_a_replay_leaves_nothing_beside_the_file(path: Path) -> None:
    Ledger(path).close()
    with Ledger(path, read_only=True) as ledger:
        assert ledger.find("unknown") is None
        with pytest.raises(JudgeError, match="readonly"):
            ledger.do(Drop("unknown", End.BILLED))
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_file_that_cannot_be_written_is_replayed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite wants to write beside a file with a write-ahead log even to read it."""
    Ledger(path).close()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Ledger(path, read_only=True) as ledger:
        assert ledger.find("unknown") is None
        assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_full_disk_keeps_what_was_written(path: Path, counting_model: Models) -> None:
    with Ledger(path) as ledger:
        lm = LedgerLM(counting_model(), ledger, "run")
        with closing(sqlite3.connect(path)) as db:
            (pages,) = db.execute("PRAGMA page_count").fetchone()
        writing = writing_connection(ledger)
        writing.execute(f"PRAGMA max_page_count = {pages + 1}")
        with pytest.raises(JudgeError, match="full: free some space"):
            counting_model.ask(lm, *(counting_model.request(i) for i in range(200)))
        writing.execute("PRAGMA max_page_count = 1000000")
        assert 1 < lm.spent().calls < 200
        counting_model.ask(lm, *(counting_model.request(i) for i in range(200)))
        assert lm.spent().calls == 200


def test_another_process_that_comes_and_goes_takes_nothing_away(path: Path, counting_model: Models) -> None:
    """SQLite's locks are POSIX's: a process that closes the file anywhere loses all that it has on it, and then the
    next who leaves removes the write-ahead log."""
    come_and_go = [sys.executable, "-c", f"from judges.ledger.store import Ledger; Ledger({str(path)!r}).close()"]
    requests = [counting_model.request(number) for number in range(3)]
    with LedgerLM(counting_model(), Ledger(path), "run") as lm, Ledger(path, read_only=True):
        for request in requests:
            counting_model.ask(lm, request)
            subprocess.run(come_and_go, cwd=REPOSITORY, check=True)
            with LedgerLM(counting_model(), Ledger(path, read_only=True), "run", mode="replay") as replay:
                counting_model.ask(replay, request)
    with LedgerLM(counting_model(), Ledger(path, read_only=True), "run", mode="replay") as replay:
        assert len(counting_model.ask(replay, *requests)) == 3


def writing_connection(ledger: Ledger) -> sqlite3.Connection:
    """It writes in a thread of its own, when it is given something to write."""
    assert ledger._group is not None
    writer = ledger._group._writer
    assert isinstance(writer, LedgerWriter)
    connection: sqlite3.Connection = writer._db.raw
    return connection


@pytest.mark.parametrize("how", ["removed", "moved", "replaced"])
def test_a_file_that_is_gone_while_it_is_used_says_so(path: Path, counting_model: Models, how: str) -> None:
    """SQLite would go on writing where nobody can read it: all replies from then on would be paid again."""
    model = counting_model()
    lm = LedgerLM(model, Ledger(path), "run")
    counting_model.ask(lm, counting_model.request(0))
    if how == "replaced":
        Ledger(path.with_name("other.sqlite")).close()
        path.with_name("other.sqlite").replace(path)
    elif how == "moved":
        path.rename(path.with_name("other.sqlite"))
    else:
        path.unlink()
    with pytest.raises(JudgeError, match=r"the file was removed, moved or replaced: put it back, then start again"):
        counting_model.ask(lm, counting_model.request(1))
    assert len(model.asked) == 1, "nothing more is paid"
    lm.close()


def test_a_reply_that_could_not_be_written_is_asked_for_again(path: Path, counting_model: Models) -> None:
    """By the same process: nobody waits for ever for the call that has ended."""
    with Ledger(path) as ledger:
        model = counting_model()
        lm = LedgerLM(model, ledger, "run")
        assert ledger._group is not None
        assert isinstance(ledger._group._writer, LedgerWriter)
        raw = ledger._group._writer._db.raw
        raw.execute("CREATE TEMP TRIGGER full BEFORE UPDATE ON main.calls BEGIN SELECT RAISE(FAIL, 'disk full'); END")
        with pytest.raises(JudgeError, match="disk full"):
            counting_model.ask(lm, counting_model.request())
        raw.execute("DROP TRIGGER full")
        assert counting_model.ask(lm, counting_model.request())[0].text == "reply 0"
        assert (len(model.asked), lm.spent().calls, ledger.failed("run")) == (2, 2, 1), "both were paid"
