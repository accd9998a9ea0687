"""Tests of databases that are set up in another way than ours, and of users who may do little in them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from judges.ledger.budget import Budget, Usage
from judges.ledger.file import APPLICATION_ID
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.lm import JudgeError, LMReply

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel
    from tests.postgres_server import PostgresServer

    Models = type[CountingModel]

Make = Callable[..., str]


@pytest.fixture
def make(postgres: PostgresServer) -> Iterator[Make]:
    """Makes a database: options of CREATE DATABASE, settings. Returns its URL."""
    made: list[str] = []

    def create(options: str = "", **settings: str) -> str:
        name = f"other_{len(made)}"
        with postgres.connect("postgres") as db:
            db.execute(f"DROP DATABASE IF EXISTS {name}")
            db.execute(f"CREATE DATABASE {name} TEMPLATE template0 {options}")
            for setting, value in settings.items():
                db.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")
        made.append(name)
        return postgres.url(name)

    yield create
    with postgres.connect("postgres") as db:
        for name in made:
            db.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1", "EUC_JP"])
def test_other_encodings(make: Make, counting_model: Models, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    odd = "ä✓\0\ud83d"
    url = make(f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'")
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    model = counting_model(lambda _: LMReply(odd, odd, 1, 1, cost=0.1, sent=odd))
    with LedgerLM(model, Ledger(url), "run", Budget(calls=1)) as lm:
        live, kept = counting_model.ask(lm, *[counting_model.request()] * 2)
        assert (live.text, kept.text, kept.finish_reason) == (odd, odd, "\\xe4\\u2713\\0\\ud83d")
        assert lm.spent() == Usage(1, 2, 0.1)
    if encoding != "SQL_ASCII":
        with (
            LedgerLM(model, Ledger(url), "run ✓") as lm,
            pytest.raises(JudgeError, match="accepted is a database in the encoding UTF8"),
        ):
            counting_model.ask(lm, counting_model.request(1))


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
def test_other_defaults(postgres: PostgresServer, make: Make, counting_model: Models, isolation: str) -> None:
    """Who has waited for its turn sees what was written meanwhile, and no statement ends before its time."""
    url = make(default_transaction_isolation=isolation, statement_timeout="100ms", timezone="Asia/Tokyo")
    requests = [counting_model.request(number) for number in range(40)]
    model = counting_model(delay=0.002)
    with ExitStack() as stack:
        lms = [stack.enter_context(LedgerLM(model, Ledger(url), "run", Budget(calls=40))) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            ends = [end for some in pool.map(lambda lm: counting_model.ask_at_once(lm, *requests), lms) for end in some]
        assert [end for end in ends if not isinstance(end, LMReply)] == []
        assert (len(model.asked), lms[0].spent().calls, lms[0].ledger.failed("run")) == (40, 40, 0)
        with postgres.connect(url.rpartition("/")[2]) as holder:
            holder.execute(f"SET statement_timeout = 0; BEGIN; SELECT pg_advisory_xact_lock({APPLICATION_ID})")
            threading.Timer(0.3, holder.execute, ["ROLLBACK"]).start()
            (end,) = counting_model.ask_at_once(lms[0], counting_model.request(40))
        assert "40 of 40 calls are used up" in str(end)


def test_a_user_may_be_given_a_schema(postgres: PostgresServer, counting_model: Models) -> None:
    """Who may make none in the database: one of his own, or somebody else's."""
    for statements in (
        ["CREATE SCHEMA gpa_judges", "GRANT ALL ON SCHEMA gpa_judges TO guest"],
        ["CREATE SCHEMA gpa_judges AUTHORIZATION guest"],
    ):
        url = postgres.empty().replace("tester@", "guest@")
        with postgres.connect("postgres") as db:
            db.execute("DROP ROLE IF EXISTS guest")
            db.execute("CREATE ROLE guest LOGIN")
            with pytest.raises(JudgeError, match=r"permission denied.*accepted is a user who may write in the schema"):
                Ledger(url)
            for statement in statements:
                db.execute(statement)
        for _ in range(2):
            with LedgerLM(counting_model(), Ledger(url), "run") as lm:
                counting_model.ask(lm, counting_model.request())
        postgres.empty()
        with postgres.connect("postgres") as db:
            db.execute("DROP OWNED BY guest")
            db.execute("DROP ROLE guest")


def test_a_host_that_is_gone_is_given_up_soon(postgres: PostgresServer) -> None:
    with Ledger(f"{postgres.empty()}?keepalives_idle=7&application_name=mine") as ledger:
        used = ledger._reader[0].raw.info.get_parameters()
    assert (used["keepalives_idle"], used["application_name"]) == ("7", "mine"), "the URL's go before"
    assert int(used["connect_timeout"]) <= 60
    assert int(used["keepalives_interval"]) * int(used["keepalives_count"]) <= 60
    assert int(used["tcp_user_timeout"]) <= 60_000
