"""What a ledger holds, in numbers; and how it becomes smaller again."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from judges.ledger import tables
from judges.ledger.connection import Connection
from judges.ledger.lease import living
from judges.ledger.place import Place, place_of
from judges.ledger.rows import TRILLION
from judges.ledger.writer import connect

_DAY = 86_400.0
_COUNTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")


@dataclass(frozen=True)
class Choice:
    """Which replies. None: whatever. `failed`: those that were cut off, refused or damaged."""

    older_than: float | None = None
    """Days."""
    model: str | None = None
    run: str | None = None
    failed: bool = False

    def takes(self, call: _Call, now: float) -> bool:
        return (
            call.status != "pending"
            and (self.older_than is None or _number(call.finished) < now - self.older_than * _DAY)
            and (self.model is None or call.model == self.model)
            and (self.run is None or call.run == self.run)
            and (not self.failed or call.status != "done" or call.finish_reason != "stop" or call.size is None)
        )


class _Call:
    """A row of `tables.page`."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.values = dict(zip((*tables.SHORT, "size"), row, strict=True))
        self.model = _model(str(self.values["about"]))

    def __getattr__(self, name: str) -> Any:
        return self.values[name]


@contextmanager
def opened(place: Path | str, read_only: bool) -> Iterator[Connection]:
    """
    Raises:
        JudgeError: there is none that can be used.
    """
    db = connect(place_of(place), read_only)
    try:
        yield db
    except db.errors as error:
        raise db.explain(error) from error
    finally:
        db.close()


def stats(place: Place) -> dict[str, Any]:
    """Per run its account and replies, per model its replies, what is pending, and the size.

    Dollars are None where a price is unknown. `pending`: calls in flight, or cut off by a kill (`alive`: their worker
    may still complete them); `age` of the oldest in seconds.
    """
    with opened(place, read_only=True) as db:
        runs: dict[str, dict[str, Any]] = defaultdict(_sums)
        models: dict[str, dict[str, Any]] = defaultdict(_sums)
        pending: list[_Call] = []
        times: list[float] = []
        for call in _calls(db):
            if call.status == "pending":
                pending.append(call)
                continue
            times.append(_number(call.finished))
            for sums in (runs[str(call.run)], models[call.model]):
                _add(sums, call)
        for run, calls, tokens, cost, failed, assumed, unsure in db.rows(tables.all_accounts):
            account = {"calls": calls, "tokens": tokens, "dollars": cost / TRILLION, "failed": failed}
            runs[run]["account"] = account | {"assumed": assumed / TRILLION, "unsure": unsure}
        now = time.time()
        alive = living(db, now)
        return {
            "ledger": str(place),
            "bytes": _size(db, place),
            "replies": len(times),
            "oldest": min(times, default=None),
            "newest": max(times, default=None),
            "runs": {name: runs[name] for name in sorted(runs)},
            "models": {name: models[name] for name in sorted(models)},
            "pending": {
                "calls": len(pending),
                "alive": sum(call.owner in alive for call in pending),
                "age": max((now - _number(call.started) for call in pending), default=None),
            },
        }


def prune(place: Place, choice: Choice, really: bool) -> tuple[int, int]:
    """Removes replies (only if `really`): how many, and bytes of text. What runs have spent stays spent, and calls in
    flight stay. So does one reply of an unknown price of each run, since it tells that what was spent is not known."""
    now = time.time()
    keys: list[str] = []
    size = 0
    told: set[str] = set()
    with opened(place, read_only=not really) as db:
        for call in _calls(db):
            if call.cost is None and call.reserved_cost == 0 and call.run not in told and call.status == "done":
                told.add(call.run)
            elif choice.takes(call, now):
                keys.append(call.key)
                size += call.size or 0
        if really:
            for start in range(0, len(keys), tables.PAGE):
                with db.transaction():
                    db.run(tables.drop_done, keys[start : start + tables.PAGE])
            if db.dialect == "sqlite" and keys:
                db.raw.execute("VACUUM")
    return len(keys), size


def pages(db: Connection, statement: Any) -> Iterator[tuple[Any, ...]]:
    """All rows of a paged statement, whose first column is the key."""
    after = ""
    while rows := db.rows(statement, [after]):
        yield from rows
        after = rows[-1][0]


def _calls(db: Connection) -> Iterator[_Call]:
    return (_Call(row) for row in pages(db, tables.page))


def _sums() -> dict[str, Any]:
    return {"replies": 0, **dict.fromkeys(_COUNTS, 0), "dollars": 0.0}


def _add(sums: dict[str, Any], call: _Call) -> None:
    sums["replies"] += 1
    for name in _COUNTS:
        sums[name] += int(_number(call.values[name]))
    known = call.cost is not None and sums["dollars"] is not None
    sums["dollars"] = (round(sums["dollars"] * TRILLION) + _number(call.cost)) / TRILLION if known else None


@lru_cache(maxsize=1024)
def _model(about: str) -> str:
    try:
        return str(json.loads(about)["model"])
    except (ValueError, KeyError, TypeError):
        return "unknown"


def _number(value: Any) -> float:
    """Of a damaged row: none."""
    return value if isinstance(value, int | float) else 0


def _size(db: Connection, place: Place) -> int:
    if isinstance(place, Path):
        log = place.with_name(f"{place.name}-wal")
        return sum(file.stat().st_size for file in (place, log) if file.exists())
    return int(db.raw.execute("SELECT pg_total_relation_size('calls')").fetchone()[0])
