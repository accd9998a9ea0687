"""The statements of `tables` on a database, as texts that SQLAlchemy compiles once, on the driver's bare connection.

`Connection.execute` of SQLAlchemy takes about 60 us of processor time beyond the driver's own, and a call has six
statements: that was more than all else that a call costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeAlias

from sqlalchemy import bindparam
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql.elements import ClauseElement

from judges.ledger.tables import Insert, Keys, metadata
from judges.lm import JudgeError

Keyed: TypeAlias = Callable[[Keys], ClauseElement]
Inserting: TypeAlias = Callable[[Insert, int], ClauseElement]

MOST_AT_ONCE = 64
"""Keys or rows of one execution. Their numbers are powers of two, so that few texts are compiled and kept."""

_DIALECTS: dict[str, tuple[Dialect, Insert]] = {
    "sqlite": (sqlite.dialect(paramstyle="qmark"), sqlite.insert),
    "postgresql": (psycopg.dialect(paramstyle="format"), postgresql.insert),  # type: ignore[no-untyped-call]
}


class Connection:
    """`raw` is of the driver and commits every statement by itself outside of `transaction`; not safe for threads."""

    def __init__(
        self,
        raw: Any,
        dialect: str,
        begin: Callable[[bool], float],
        errors: tuple[type[Exception], ...],
        explain: Callable[[Exception], JudgeError],
    ) -> None:
        self.raw = raw
        self.dialect = dialect
        self.errors = errors
        self.explain = explain
        self._begin = begin

    def rows(self, statement: Keyed, keys: Sequence[str] = ()) -> list[Any]:
        """Of a large number of keys, what is grouped comes in several groups."""
        found: list[Any] = []
        for text, some in self._parts(statement, keys):
            found += self.raw.execute(text, some).fetchall()
        return found

    def run(self, statement: Keyed, keys: Sequence[str] = (), **values: Any) -> None:
        for text, some in self._parts(statement, keys):
            self.raw.execute(text, [*some, *values.values()])

    def insert(self, statement: Inserting, rows: Sequence[Sequence[Any]]) -> None:
        """Rows with a value for every column of the table, in its order."""
        done = 0
        while done < len(rows):
            size = min(MOST_AT_ONCE, 1 << (len(rows) - done).bit_length() - 1)
            values = [value for row in rows[done : done + size] for value in row]
            self.raw.execute(_inserting(statement, self.dialect, size), values)
            done += size

    @contextmanager
    def transaction(self, lasting: bool = True) -> Iterator[float]:
        """The only one that writes, of all processes; yields the time in seconds since 1970, by the database's clock
        where it is shared by hosts. `lasting`: not even a power cut undoes it."""
        try:
            # A database's transaction is there even where the wait for its turn has failed.
            yield self._begin(lasting)
            self.raw.execute("COMMIT")
        except BaseException:
            with suppress(*self.errors):
                self.raw.execute("ROLLBACK")
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """What is read in it is of one moment."""
        self.raw.execute("BEGIN" if self.dialect == "sqlite" else "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            yield
        finally:
            with suppress(*self.errors):
                self.raw.execute("ROLLBACK")

    @property
    def is_lost(self) -> bool:
        """The way to a database may be; a file never is."""
        return bool(getattr(self.raw, "closed", False))

    def close(self) -> None:
        self.raw.close()

    def _parts(self, statement: Keyed, keys: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        for start in range(0, max(1, len(keys)), MOST_AT_ONCE):
            some = list(keys[start : start + MOST_AT_ONCE])
            # The last key is repeated up to a power of two.
            size = 1 << (len(some) - 1).bit_length() if some else 0
            yield _keyed(statement, self.dialect, size), some + some[-1:] * (size - len(some))


def schema(dialect: str) -> list[str]:
    """What makes the tables where they are missing."""
    made: list[Any] = [CreateTable(table, if_not_exists=True) for table in metadata.sorted_tables]
    made += [CreateIndex(index, if_not_exists=True) for table in metadata.sorted_tables for index in table.indexes]
    return [str(one.compile(dialect=_DIALECTS[dialect][0])) for one in made]


@lru_cache(maxsize=512)
def _keyed(statement: Keyed, dialect: str, size: int) -> str:
    """The keys come first, then all other values in the order of their use."""
    compiled = statement([bindparam(f"key_{i}") for i in range(size)]).compile(dialect=_DIALECTS[dialect][0])
    return str(compiled)


@lru_cache(maxsize=512)
def _inserting(statement: Inserting, dialect: str, size: int) -> str:
    kind, insert = _DIALECTS[dialect]
    return str(statement(insert, size).compile(dialect=kind))
