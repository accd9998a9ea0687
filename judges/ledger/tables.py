"""The ledger's tables and statements, once for all databases (SQLAlchemy Core).

A statement that takes many keys or rows is a function of their number: one execution carries all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    Double,
    Index,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ClauseElement, ColumnClause

Keys: TypeAlias = Sequence[BindParameter[Any]]
Insert: TypeAlias = "Callable[[Table], sqlite.Insert | postgresql.Insert]"
"""`insert` of a dialect: the one that knows `on_conflict_do_update`."""

VERSION = 3
REPLY = (
    *("text", "finish_reason", "prompt_tokens", "completion_tokens", "cached_tokens", "cost"),
    *("reasoning_tokens", "sent"),
)
"""The columns that hold the reply."""
SHORT = (
    *("key", "status", "run", "owner", "started", "finished", "about", "reserved_cost", "finish_reason"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "cost"),
)
"""The columns that tell what a call was and cost."""
PAGE = 500
_PAGE: ColumnClause[int] = literal_column(str(PAGE))

# Written into the statements: SQLite uses a partial index only where the text of its condition is the same.
PENDING: ColumnClause[str] = literal_column("'pending'")
DONE: ColumnClause[str] = literal_column("'done'")

metadata = MetaData()
calls = Table(
    "calls",
    metadata,
    Column("key", Text, primary_key=True),
    Column("status", Text, nullable=False),
    Column("run", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("started", Double, nullable=False),
    Column("reserved_tokens", BigInteger, nullable=False),
    Column("reserved_cost", BigInteger, nullable=False),
    Column("about", Text, nullable=False),
    Column("request", LargeBinary),
    Column("text", LargeBinary),
    Column("finish_reason", Text),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    Column("cached_tokens", BigInteger),
    Column("cost", BigInteger),
    Column("finished", Double),
    Column("sent", Text),
    Column("reasoning_tokens", BigInteger),
)
PENDING_INDEX = Index(
    "pending", calls.c.run, sqlite_where=calls.c.status == PENDING, postgresql_where=calls.c.status == PENDING
)
_UNPRICED = and_(calls.c.status == DONE, calls.c.cost.is_(None), calls.c.reserved_cost == literal_column("0"))
UNPRICED_INDEX = Index("unpriced", calls.c.run, sqlite_where=_UNPRICED, postgresql_where=_UNPRICED)
runs = Table(
    "runs",
    metadata,
    Column("run", Text, primary_key=True),
    Column("calls", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Column("failed", BigInteger, nullable=False),
    Column("assumed", BigInteger, nullable=False),
    Column("unsure", BigInteger, nullable=False),
)
"""What runs have spent. `assumed`: of `cost`, what stands for calls of which nobody knows what they cost, `unsure`."""
SINCE_2 = (
    "ALTER TABLE runs ADD COLUMN assumed BIGINT NOT NULL DEFAULT 0",
    "ALTER TABLE runs ADD COLUMN unsure BIGINT NOT NULL DEFAULT 0",
    # What neither a reply nor a call in flight accounts for.
    "UPDATE runs SET unsure = failed, assumed = cost - (SELECT coalesce(sum(CASE calls.status WHEN 'pending' THEN"
    " calls.reserved_cost ELSE calls.cost END), 0) FROM calls WHERE calls.run = runs.run)",
    "UPDATE runs SET assumed = 0 WHERE assumed < 0",
)
"""What the tables of version 2 lack."""
workers = Table(
    "workers",
    metadata,
    Column("worker", Text, primary_key=True),
    Column("process", Text, nullable=False),
    Column("expires", Double, nullable=False),
)
"""Who may still complete pending calls: `calls.owner` is a `worker`."""
identity = Table("identity", metadata, Column("id", Text))

NAMES = {table: tuple(column.name for column in table.columns) for table in (calls, runs, workers, identity)}


def replies(keys: Keys) -> ClauseElement:
    """Key, status, owner, and the reply."""
    columns = [calls.c[name] for name in ("key", "status", "owner", *REPLY)]
    return select(*columns).where(calls.c.key.in_(keys))


def request(keys: Keys) -> ClauseElement:
    return select(calls.c.request).where(calls.c.key.in_(keys), calls.c.request.is_not(None))


def held(keys: Keys) -> ClauseElement:
    """What the pending ones of these calls hold: run, owner, calls, tokens, cost."""
    where = (calls.c.key.in_(keys), calls.c.status == PENDING)
    return select(calls.c.run, calls.c.owner, *_SUMS).where(*where).group_by(calls.c.run, calls.c.owner)


def held_by_owners(owners: Keys) -> ClauseElement:
    """The same of all pending calls of these owners."""
    where = (calls.c.owner.in_(owners), calls.c.status == PENDING)
    return select(calls.c.run, calls.c.owner, *_SUMS).where(*where).group_by(calls.c.run, calls.c.owner)


def held_by_run(run: Keys) -> ClauseElement:
    return select(*_SUMS).where(calls.c.run.in_(run), calls.c.status == PENDING)


def owners(_: Keys) -> ClauseElement:
    """Who owns pending calls."""
    return select(calls.c.owner).where(calls.c.status == PENDING).distinct()


def unpriced(run: Keys) -> ClauseElement:
    """Whether there is a reply without a cost, for which no price was reserved either."""
    return select(exists().where(calls.c.run.in_(run), _UNPRICED))


def accounts(names: Keys) -> ClauseElement:
    return select(runs).where(runs.c.run.in_(names))


def all_workers(_: Keys) -> ClauseElement:
    return select(workers)


def ids(_: Keys) -> ClauseElement:
    return select(identity.c.id)


def drop(keys: Keys) -> ClauseElement:
    return delete(calls).where(calls.c.key.in_(keys))


def drop_pending(keys: Keys) -> ClauseElement:
    """Those that `bindparam("owner")` has reserved."""
    return delete(calls).where(calls.c.key.in_(keys), calls.c.status == PENDING, calls.c.owner == bindparam("owner"))


def drop_by_owners(owners: Keys) -> ClauseElement:
    return delete(calls).where(calls.c.owner.in_(owners), calls.c.status == PENDING)


def drop_workers(names: Keys) -> ClauseElement:
    return delete(workers).where(workers.c.worker.in_(names))


def page(after: Keys) -> ClauseElement:
    """The next calls behind a key, without their texts but with the size of these; in the order of the keys."""
    columns = [calls.c[name] for name in SHORT]
    size = func.length(calls.c.text) + func.coalesce(func.length(calls.c.request), literal_column("0"))
    return _page(select(*columns, size), after)


def full_page(after: Keys) -> ClauseElement:
    """The next replies behind a key, with all columns."""
    return _page(select(calls).where(calls.c.status == DONE), after)


def all_accounts(_: Keys) -> ClauseElement:
    return select(runs)


def drop_done(keys: Keys) -> ClauseElement:
    return delete(calls).where(calls.c.key.in_(keys), calls.c.status != PENDING)


def insert_calls(insert: Insert, number: int) -> ClauseElement:
    return _insert(insert, calls, number)


def insert_new_calls(insert: Insert, number: int) -> ClauseElement:
    """Those that are there stay as they are."""
    return _insert(insert, calls, number).on_conflict_do_nothing(index_elements=[calls.c.key])


def insert_replies(insert: Insert, number: int) -> ClauseElement:
    """Into the places of the pending ones, and where nothing is. The first reply wins."""
    new = _insert(insert, calls, number)
    taken = {name: new.excluded[name] for name in ("status", "run", "owner", "finished", *REPLY)}
    return new.on_conflict_do_update(index_elements=[calls.c.key], set_=taken, where=calls.c.status == PENDING)


def insert_corrections(insert: Insert, number: int) -> ClauseElement:
    """Into the places of replies that are there; costs are added up, and one that is unknown stays so."""
    new = _insert(insert, calls, number)
    taken = {name: new.excluded[name] for name in ("finished", *REPLY)} | {"cost": calls.c.cost + new.excluded.cost}
    return new.on_conflict_do_update(index_elements=[calls.c.key], set_=taken, where=calls.c.status == DONE)


def add_to_accounts(insert: Insert, number: int) -> ClauseElement:
    new = _insert(insert, runs, number)
    sums = {
        name: runs.c[name] + new.excluded[name] for name in ("calls", "tokens", "cost", "failed", "assumed", "unsure")
    }
    return new.on_conflict_do_update(index_elements=[runs.c.run], set_=sums)


def renew_workers(insert: Insert, number: int) -> ClauseElement:
    new = _insert(insert, workers, number)
    return new.on_conflict_do_update(index_elements=[workers.c.worker], set_={"expires": new.excluded.expires})


def insert_id(insert: Insert, number: int) -> ClauseElement:
    return _insert(insert, identity, number)


def _page(query: Select[Any], after: Keys) -> ClauseElement:
    (key,) = after
    # SQLite's dialect adds an offset of its own, as a value.
    return query.where(calls.c.key > key).order_by(calls.c.key).limit(_PAGE).offset(literal_column("0"))


def _insert(insert: Insert, table: Table, number: int) -> sqlite.Insert | postgresql.Insert:
    values = [
        {name: bindparam(f"{name}_{row}", type_=table.c[name].type) for name in NAMES[table]} for row in range(number)
    ]
    return insert(table).values(values)


_SUMS = (
    func.count(),
    # The sum of whole numbers is no whole number on PostgreSQL.
    cast(func.coalesce(func.sum(calls.c.reserved_tokens), literal_column("0")), BigInteger),
    cast(func.coalesce(func.sum(calls.c.reserved_cost), literal_column("0")), BigInteger),
)
