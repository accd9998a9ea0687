"""An evaluation that makes no call: it answers from the ledger and from replies that were had elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from judges.judgment import Outcome
from judges.ledger.ledger_lm import LedgerLM, NotInLedger
from judges.lm import LMError, LMReply, LMRequest
from judges.plan import is_plan_request
from pipeline.batch.calls import Lines, custom_id
from pipeline.batch.prices import BatchPrices
from pipeline.batch.replies import Found, Replies
from pipeline.evaluate import evaluate
from pipeline.measure import Evaluation


def run_elsewhere(task: Evaluation, lm: Elsewhere, at_once: int = 1) -> None:
    """One judgment at a time: what is missing comes in one order, the calls of a trace together."""
    evaluate(task.suite, task.rows, lm, replace(task.work.settings, concurrency=at_once))


class Elsewhere:
    """An LM that makes no call. What neither the ledger nor `replies` holds ends its judgment as not made.

    `asked`: the custom ids of all calls of the evaluation that are known. `missing`: those without a reply. `waiting`:
    judgments whose own call is not known before a plan extraction is answered. `filed`, `known`: replies that are new
    to the ledger, and those that it held.
    """

    def __init__(
        self,
        lm: LedgerLM,
        replies: Replies | None = None,
        prices: BatchPrices | None = None,
        note: Callable[[LMRequest], None] | None = None,
    ) -> None:
        self.asked: set[str] = set()
        self.missing: set[str] = set()
        self.waiting = 0
        self.filed = 0
        self.known = 0
        self._lm = lm
        self._ledger = LedgerLM(lm.inner, lm.ledger, lm.run, mode="replay")
        self._replies = replies or Replies()
        self._prices = prices or BatchPrices({})
        self._lines = Lines()
        self._note = note or (lambda _: None)

    async def complete(self, request: LMRequest) -> LMReply:
        """See `LM.complete`."""
        name = custom_id(request)
        new = name not in self.asked
        self.asked.add(name)
        found = self._replies.found.get(name)
        reply = await self._kept(request)
        self.known += new and found is not None and reply is not None
        if reply is None and found is not None:
            reply = await self._file(request, found)
        if reply is not None:
            return reply
        self.waiting += is_plan_request(request)
        if new:
            self.missing.add(name)
            self._note(request)
        raise LMError(Outcome.NOT_RUN, "this call has no reply yet")

    async def _kept(self, request: LMRequest) -> LMReply | None:
        try:
            return await self._ledger.complete(request)
        except NotInLedger:
            return None

    async def _file(self, request: LMRequest, found: Found) -> LMReply | None:
        cost = self._prices.of_reply(request, found) if found.reply.cost is None else found.reply.cost
        reply = replace(found.reply, cost=cost, sent=self._lines.sent(request))
        part = self._prices.part(request) if found.batch else 1.0
        # In a thread: replies that are filed at once are flushed to the disk together.
        filed = await asyncio.to_thread(self._lm.answer, request, reply, part)
        self.filed += filed
        return await self._kept(request)
