"""Another reply to a call that has one already: a person's answer was wrong, or a provider was asked once more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from judges.ledger import tables
from judges.ledger.place import Place
from judges.ledger.rows import about, reply_values, trillionths
from judges.ledger.upkeep import opened
from judges.lm import LMReply, LMRequest


def correct(place: Place, run: str, request: LMRequest, reply: LMReply) -> None:
    """Puts a reply in the place of the one that is there. What that has cost stays, on the run's account and beside the
    reply; what the new one tells as its cost (None: nothing) comes on top of both."""
    paid = trillionths(reply.cost or 0.0)
    with opened(place, read_only=False) as db, db.transaction() as now:
        row: dict[str, Any] = dict.fromkeys(tables.NAMES[tables.calls])
        row |= {"key": request.key, "status": "done", "run": run, "owner": "", "started": now, "finished": now}
        row |= {"reserved_tokens": 0, "reserved_cost": paid, "about": about(request)}
        row |= zip(tables.REPLY, reply_values(replace(reply, cost=reply.cost or 0.0)), strict=True)
        db.insert(tables.insert_corrections, [tuple(row.values())])
        account = dict.fromkeys(tables.NAMES[tables.runs], 0) | {"run": run, "cost": paid}
        db.insert(tables.add_to_accounts, [tuple(account.values())])
