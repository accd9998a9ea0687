"""Replies from one ledger to another, as JSON Lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from judges.ledger import tables
from judges.ledger.connection import Connection
from judges.ledger.place import Place
from judges.ledger.rows import TRILLION, is_storable, pack, parse_reply, reply_values, request_from, unpack
from judges.ledger.upkeep import opened, pages
from judges.lm import JudgeError, LMReply
from judges.redact import redact, redact_url
from labeled_traces.files import parse_json, read_lines, write_lines

FORMAT = {"format": "gpa-judges ledger", "version": 1}
IMPORTED = "imported:"
"""Before the name of the run that paid: here it is charged to nobody."""
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")


@dataclass(frozen=True)
class Imported:
    """`new` replies, and those whose calls the ledger `knew`: they stay as they were."""

    new: int
    known: int


def export(place: Place, path: Path) -> int:
    """Writes all replies, with what was sent where that was kept; returns how many. A request whose endpoint holds a
    secret is left out, and so are replies that are damaged."""
    count = 0

    def lines(db: Connection) -> Iterator[str]:
        nonlocal count
        yield json.dumps(FORMAT)
        for row in pages(db, tables.full_page):
            if (line := _line(dict(zip(tables.NAMES[tables.calls], row, strict=True)))) is not None:
                count += 1
                yield json.dumps(line)

    with opened(place, read_only=True) as db:
        write_lines(path, lines(db))
    return count


def import_replies(path: Path, place: Place) -> Imported:
    """Reads what `export` wrote into a ledger, which is made where there is none.

    Raises:
        JudgeError, TraceError: the file is not such a file; names the line. What came before it is kept.
    """
    new = known = 0
    batches = _batches(path)
    # Where there is nothing to read, no ledger is made.
    first = next(batches)
    with opened(place, read_only=False) as db:
        for rows in chain([first], batches):
            with db.transaction():
                there = {row[0] for row in db.rows(tables.replies, list(rows))}
                db.insert(tables.insert_new_calls, [row for key, row in rows.items() if key not in there])
            new += len(rows) - len(there)
            known += len(there)
    return Imported(new, known)


def _line(row: dict[str, Any]) -> dict[str, Any] | None:
    reply = parse_reply([row[name] for name in tables.REPLY])
    if reply is None:
        return None
    line = {"key": row["key"], "run": row["run"], "about": row["about"], "finished": row["finished"]}
    line |= {name: value for name, value in asdict(reply).items() if name not in ("replayed", "sent")}
    line["sent"] = redact(reply.sent)
    if row["request"] is not None and redact_url((request := unpack(row["request"])).endpoint) == request.endpoint:
        line["request"] = asdict(request)
    return line


def _batches(path: Path) -> Iterator[dict[str, tuple[Any, ...]]]:
    batch: dict[str, tuple[Any, ...]] = {}
    numbered = read_lines(path)
    for place, (number, text) in enumerate(numbered):
        where = f"{path}, line {number}"
        line = parse_json(text, where)
        if place == 0:
            if line != FORMAT:
                raise JudgeError(f"{where}: accepted is a file that `gpa-judges ledger export` wrote")
            continue
        try:
            row = _row(line)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise JudgeError(f"{where}: accepted is a line of `gpa-judges ledger export`: {error}") from error
        batch[row[0]] = row
        if len(batch) == tables.PAGE:
            yield batch
            batch = {}
    yield batch


def _row(line: dict[str, Any]) -> tuple[Any, ...]:
    counts = {name: line[name] for name in _COUNTS}
    cost = line["cost"]
    if not all(type(value) is int and 0 <= value < 2**63 for value in counts.values()):
        raise ValueError("counts of tokens are whole numbers from 0")
    if cost is not None and not 0 <= cost < 2**63 / TRILLION:
        raise ValueError("a cost is a number of dollars, or null")
    if not 0 <= (finished := float(line["finished"])) < math.inf:
        raise ValueError("finished is a number of seconds since 1970")
    texts = (line["key"], line["run"], line["about"], line["text"], line["finish_reason"], line["sent"])
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a text is missing")
    if not all(text and is_storable(text) for text in texts[:3]):
        raise ValueError("key, run and about are texts that are not empty and are Unicode")
    reply = LMReply(line["text"], line["finish_reason"], cost=cost, sent=line["sent"], **counts)
    request = request_from(line["request"]) if "request" in line else None
    if request is not None and request.key != line["key"]:
        raise ValueError("the key is not that of the request")
    text, reason, prompt, completion, cached, price, reasoning, sent = reply_values(reply)
    run = line["run"] if line["run"].startswith(IMPORTED) else IMPORTED + line["run"]
    head = (line["key"], "done", run, "", finished, 0, 0, line["about"], None if request is None else pack(request))
    return (*head, text, reason, prompt, completion, cached, price, finished, sent, reasoning)
