"""Tests of where a ledger may be: a path, or the URL of a PostgreSQL database without a password."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.budget import Budget, Usage
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.ledger.place import place_of
from judges.ledger.steps import Reserve
from judges.ledger.writer import LedgerWriter
from judges.lm import JudgeError
from judges.models.connect import open_lm

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel
    from tests.postgres_server import PostgresServer

    Models = type[CountingModel]
    RunSql = Callable[..., list[Any]]

SECRET = "hunter2hunter2"


def test_paths_and_urls() -> None:
    assert place_of("a/b.sqlite") == Path("a/b.sqlite")
    for url in ("postgresql://me@host:5433/db?sslmode=require", "postgres://host/db"):
        assert place_of(url) == url


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{SECRET}@host/db",
        f"postgresql://me:@host/db?password={SECRET}",
        f"postgresql://host/db?user=me&password={SECRET}",
        f"postgresql://host/db?sslpassword={SECRET}",
        f"mysql://me:{SECRET}@host/db",
        f"postgresql://me:{SECRET}@[host/db",
        f"postgresql://me:{SECRET}@host",
    ],
)
def test_a_url_that_cannot_be_is_refused_without_its_password(url: str, tmp_path: Path) -> None:
    for use in (place_of, Ledger, lambda place: open_lm(place, "run")):
        with pytest.raises(JudgeError, match=r"accepted is") as caught:
            use(url)
        assert SECRET not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (".", "is a folder"),
        ("..", "is a folder"),
        ("/", "is a folder"),
        ("gone/..", "is a folder"),
        ("there", "ledger there is a folder"),
        ("", "place is empty"),
        (" ", "place is empty"),
        ("/dev/null", "is a device"),
    ],
)
def test_a_path_at_which_no_file_can_be(place: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    for use in (place_of, Ledger, lambda place: open_lm(place, "run", Budget(calls=1))):
        with pytest.raises(JudgeError, match=f"{said}.*accepted is"):
            use(place)


def test_a_password_is_told_where_to_go() -> None:
    with pytest.raises(JudgeError, match=r"holds a password.*PGPASSWORD, ~/\.pgpass or a service file"):
        place_of(f"postgresql://me:{SECRET}@host/db")


def test_a_database_that_is_not_there(postgres: PostgresServer) -> None:
    with pytest.raises(JudgeError, match=r'database "nowhere" does not exist: make it first: createdb nowhere'):
        Ledger(postgres.url("nowhere"))
    with pytest.raises(JudgeError, match="accepted is a PostgreSQL database that can be reached"):
        Ledger("postgresql://me@127.0.0.1:1/db")


def test_a_replay_makes_no_ledger_in_a_database(postgres: PostgresServer) -> None:
    url = postgres.empty()
    with pytest.raises(JudgeError, match="there is no ledger in"):
        Ledger(url, read_only=True)
    with postgres.connect("postgres") as db:
        assert db.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'gpa_judges'").fetchone() is None


def test_a_newer_ledger_in_a_database_is_refused(postgres: PostgresServer) -> None:
    url = postgres.empty()
    Ledger(url).close()
    with postgres.connect("postgres") as db:
        db.execute("COMMENT ON TABLE gpa_judges.calls IS 'gpa-judges ledger 99'")
    with pytest.raises(JudgeError, match="'gpa-judges ledger 99': this program reads 'gpa-judges ledger 3'"):
        Ledger(url)


def test_an_old_ledger_in_a_database_gets_what_it_lacks(postgres: PostgresServer, counting_model: Models) -> None:
    url = postgres.empty()
    with LedgerLM(counting_model(), Ledger(url), "run") as lm:
        counting_model.ask(lm, counting_model.request())
    with postgres.connect("postgres") as db:
        db.execute("ALTER TABLE gpa_judges.runs DROP COLUMN assumed, DROP COLUMN unsure")
        db.execute("UPDATE gpa_judges.runs SET cost = cost + 2000000000, calls = calls + 1, failed = 1")
        db.execute("COMMENT ON TABLE gpa_judges.calls IS 'gpa-judges ledger 2'")
    with Ledger(url) as ledger:
        spent = ledger.spent("run")
    assert (spent.cost, spent.assumed, spent.unsure) == (0.003, 0.002, 1)
    with Ledger(url, read_only=True) as ledger:
        assert ledger.spent("run").assumed == 0.002


def test_a_user_who_may_only_read_can_replay(postgres: PostgresServer, counting_model: Models) -> None:
    url = postgres.empty()
    with LedgerLM(counting_model(), Ledger(url), "run") as lm:
        counting_model.ask(lm, counting_model.request())
    with postgres.connect("postgres") as db:
        db.execute("DROP ROLE IF EXISTS reader")
        db.execute("CREATE ROLE reader LOGIN")
        db.execute("GRANT USAGE ON SCHEMA gpa_judges TO reader")
        db.execute("GRANT SELECT ON ALL TABLES IN SCHEMA gpa_judges TO reader")
    place = url.replace("tester@", "reader@")
    with Ledger(place, read_only=True) as ledger:
        assert ledger.find(counting_model.request().key) is not None
    denied = pytest.raises(JudgeError, match=r"permission denied.*accepted is a user who may write")
    with denied, LedgerLM(counting_model(), Ledger(place), "run") as lm:
        counting_model.ask(lm, counting_model.request(1))
    with postgres.connect("postgres") as db:
        db.execute("DROP OWNED BY reader")


def test_a_lost_connection_loses_no_reply(postgres: PostgresServer, counting_model: Models, run_sql: RunSql) -> None:
    url = postgres.empty()
    lost = 0

    def reply(request: Any) -> Any:
        nonlocal lost
        with postgres.connect("postgres") as db:
            others = "application_name = 'gpa-judges ledger' AND pid <> pg_backend_pid()"
            lost += len(db.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}").fetchall())
        return counting_model()._reply(request)

    model = counting_model(reply)
    with LedgerLM(model, Ledger(url), "run", Budget(calls=2)) as lm:
        counting_model.ask(lm, *(counting_model.request(number) for number in range(2)))
        assert lost >= 2
        assert lm.spent() == Usage(2, 30, 0.002)
    assert run_sql(url, "SELECT COUNT(*) FROM calls WHERE status = 'done'") == [(2,)]


class CutAt:
    """A connection that breaks when its commit of this number is done, before it can say so."""

    def __init__(self, raw: Any, commit: int) -> None:
        self._raw = raw
        self._left = commit

    def execute(self, text: str, *values: Any) -> Any:
        import psycopg

        ended = self._raw.execute(text, *values)
        if text == "COMMIT":
            self._left -= 1
            if self._left == 0:
                self._raw.close()
                raise psycopg.OperationalError("server closed the connection unexpectedly")
        return ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


@pytest.mark.parametrize("commit", [1, 2], ids=["reserved", "completed"])
def test_a_commit_whose_answer_is_lost_counts_once(
    postgres: PostgresServer, counting_model: Models, commit: int
) -> None:
    model = counting_model()
    with LedgerLM(model, Ledger(postgres.empty()), "run", Budget(calls=3)) as lm:
        assert lm.ledger._group is not None
        assert isinstance(lm.ledger._group._writer, LedgerWriter)
        writer = lm.ledger._group._writer
        for number in range(3):
            writer._db.raw = cut = CutAt(writer._db.raw, commit)
            counting_model.ask(lm, counting_model.request(number))
            assert cut.closed
        assert (len(model.asked), lm.spent(), lm.ledger.failed("run")) == (3, Usage(3, 45, 0.003), 0)


def test_values_that_one_database_refuses_keep_back_no_others(place: Path | str, counting_model: Models) -> None:
    """A run's name with a character that is none: that call fails, those that were written with it do not."""
    with Ledger(place) as ledger:
        requests = [counting_model.request(number) for number in range(20)]
        runs = ["run"] * 10 + ["\ud83d"] + ["run"] * 9
        steps = [
            Reserve(request.key, request, run, Usage(1, 1), Budget())
            for request, run in zip(requests, runs, strict=True)
        ]
        ends = [ledger.do(step) for step in steps]
        failed = [number for number, end in enumerate(ends) if end.exception() is not None]
        assert failed == [10]
