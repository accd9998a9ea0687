"""Opens a ledger in a PostgreSQL database, where workers on several hosts share it."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import urlsplit

from judges.ledger.connection import Connection, schema
from judges.ledger.tables import SINCE_2, VERSION
from judges.lm import JudgeError
from judges.redact import redact

SCHEMA = "gpa_judges"
BUSY_SECONDS = 60
_LOCK = 0x67706A31
_VERSION = f"gpa-judges ledger {VERSION}"
_OLD_VERSION = "gpa-judges ledger 2"
# Those of the URL go before. A host that has gone without a word is given up within a minute, not after hours.
_PARAMETERS = {
    "fallback_application_name": "gpa-judges ledger",
    "connect_timeout": BUSY_SECONDS // 2,
    "keepalives_idle": BUSY_SECONDS // 2,
    "keepalives_interval": BUSY_SECONDS // 12,
    "keepalives_count": 6,
    "tcp_user_timeout": BUSY_SECONDS * 1000,
}
# A process that is frozen within a transaction may hold up the others no longer than they wait. What a database or a
# user has as defaults does not hold here: whoever had to wait has to see what the others have written meanwhile.
_SETTINGS = (
    f"SET search_path = {SCHEMA}; SET lock_timeout = '{BUSY_SECONDS}s'; SET statement_timeout = 0;"
    "SET default_transaction_isolation = 'read committed';"
    f"SET idle_in_transaction_session_timeout = '{BUSY_SECONDS // 2}s'"
)
# The lock makes the transactions that write follow each other, as `BEGIN IMMEDIATE` does in a file.
_TAKE_LOCK = f"SELECT pg_advisory_xact_lock({_LOCK})"
# It may be somebody else's, who made it for a user who may not.
_HAS_SCHEMA = f"SELECT 1 FROM pg_namespace WHERE nspname = '{SCHEMA}'"
_BEGIN = {True: f"BEGIN; {_TAKE_LOCK}", False: f"BEGIN; SET LOCAL synchronous_commit = off; {_TAKE_LOCK}"}


class NoLedger(JudgeError):
    """There is none in this database, and none was to be made."""


def connect(url: str, read_only: bool) -> Connection:
    """Connects, and makes the tables where they are missing; not if `read_only`. Old ones get what they lack.

    Raises:
        JudgeError: no connection, or no ledger there; the message says what to do.
    """
    try:
        import psycopg
    except ImportError as error:
        raise JudgeError(f"ledger {url} needs psycopg: pip install 'gpa-judges[postgres]' ({error})") from error
    try:
        parameters: dict[str, Any] = {
            **_PARAMETERS,
            **psycopg.conninfo.conninfo_to_dict(url),
            "client_encoding": "utf8",
        }
        raw: psycopg.Connection[Any] = psycopg.connect(**parameters, autocommit=True)
        try:
            raw.execute(_SETTINGS)
            _prepare(raw, url, read_only)
        except BaseException:
            raw.close()
            raise
    except psycopg.Error as error:
        raise explain(error, url) from error
    return Connection(raw, "postgresql", partial(_begin, raw), (psycopg.Error,), partial(explain, url=url))


def explain(error: Exception, url: str) -> JudgeError:
    """What a failure of the database means, and what to do."""
    text = redact(" ".join(str(error).split()))
    if "lock timeout" in text:
        advice = f"another process has held it for {BUSY_SECONDS} s; end that process"
    elif "closed" in text or "terminat" in text or "consuming input" in text:
        advice = "the connection has ended; start again: what was written before is kept"
    elif "has no equivalent in encoding" in text:
        advice = "accepted is a database in the encoding UTF8"
    elif "permission denied" in text or "read-only" in text:
        advice = f"accepted is a user who may write in the schema {SCHEMA}, and make it where it is not there"
    elif "database" in text and "does not exist" in text:
        advice = f"make it first: createdb {urlsplit(url).path.strip('/')}"
    elif "password" in text or "authentication" in text:
        advice = "the password comes from PGPASSWORD, ~/.pgpass or a service file"
    else:
        advice = "accepted is a PostgreSQL database that can be reached and written"
    return JudgeError(f"ledger {url}: {text}: {advice}")


def _prepare(raw: Any, url: str, read_only: bool) -> None:
    found = _version(raw)
    if found is None and read_only:
        raise NoLedger(f"there is no ledger in {url}: accepted is one in which a run has kept its calls")
    if found is None:
        with raw.transaction():
            # Two at once would both make it.
            raw.execute(_TAKE_LOCK)
            if (found := _version(raw)) is None:
                if not raw.execute(_HAS_SCHEMA).fetchone():
                    raw.execute(f"CREATE SCHEMA {SCHEMA}")
                for statement in schema("postgresql"):
                    raw.execute(statement)
                raw.execute(f"COMMENT ON TABLE calls IS '{_VERSION}'")
                found = _VERSION
    if found == _OLD_VERSION:
        with raw.transaction():
            raw.execute(_TAKE_LOCK)
            if (found := _version(raw)) == _OLD_VERSION:
                for statement in (*SINCE_2, f"COMMENT ON TABLE calls IS '{_VERSION}'"):
                    raw.execute(statement)
                found = _VERSION
    if found != _VERSION:
        raise JudgeError(f"ledger {url}: its schema {SCHEMA} is {found!r}: this program reads {_VERSION!r}")
    if read_only:
        raw.execute("SET default_transaction_read_only = on")


def _version(raw: Any) -> str | None:
    """Of the ledger in there; None where there is none."""
    (found,) = raw.execute(f"SELECT obj_description(to_regclass('{SCHEMA}.calls'), 'pg_class')").fetchone()
    return None if found is None else str(found)


def _begin(raw: Any, lasting: bool) -> float:
    raw.execute(_BEGIN[lasting], prepare=False)
    # When the lock was had; the hosts' own clocks may differ.
    return float(raw.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()[0])
