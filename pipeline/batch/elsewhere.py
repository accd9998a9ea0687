"""An evaluation that makes no call: it answers from the ledger and from replies that were had elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from judges.judgment import Judgment, Outcome
from judges.ledger.correct import correct
from judges.ledger.ledger_lm import LedgerLM, NotInLedger
from judges.lm import LMError, LMReply, LMRequest
from judges.plan import is_plan_request, parse_plan
from pipeline.batch.calls import Lines, custom_id
from pipeline.batch.prices import BatchPrices
from pipeline.batch.replies import Found, Replies
from pipeline.evaluate import evaluate
from pipeline.measure import Evaluation


def run_elsewhere(task: Evaluation, lm: Elsewhere, at_once: int = 1) -> list[Judgment]:
    """One judgment at a time: what is missing comes in one order, the calls of a trace together."""
    return evaluate(task.suite, task.rows, lm, replace(task.work.settings, concurrency=at_once))


class Elsewhere:
    """An LM that makes no call. What neither the ledger nor `replies` holds ends its judgment as not made.

    `asked`: the custom ids of all calls of the evaluation that are known. `missing`: those without a reply. `waiting`:
    judgments whose own call is not known before a plan extraction is answered. `filed`, `known`: replies that are new
    to the ledger, and those that it held. `differing`: where replies stand that differ from what it held; with
    `replace` (then one judgment at a time) they take its place. `unreadable`: where replies stand that are no plan.
    """

    def __init__(
        self,
        lm: LedgerLM,
        replies: Replies | None = None,
        prices: BatchPrices | None = None,
        note: Callable[[LMRequest], None] | None = None,
        replace: bool = False,
    ) -> None:
        self.asked: set[str] = set()
        self.missing: set[str] = set()
        self.waiting = 0
        self.filed = 0
        self.known = 0
        self.differing: list[str] = []
        self.unreadable: list[str] = []
        self.replaces = replace
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
        if found is not None:
            if reply is None:
                reply = await self._file(request, found)
            elif new and reply.text != found.reply.text:
                self.differing.append(found.where)
                reply = await self._correct(request, found) if self.replaces else reply
        if reply is not None:
            if new and is_plan_request(request) and parse_plan(reply.text, ()) is None:
                self.unreadable.append(f"{found.where if found else name}: no plan as it was asked for")
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

    async def _correct(self, request: LMRequest, found: Found) -> LMReply | None:
        reply = self._priced(request, found)
        await asyncio.to_thread(correct, self._lm.ledger.path, self._lm.run, request, reply)
        return await self._kept(request)

    def _priced(self, request: LMRequest, found: Found) -> LMReply:
        cost = self._prices.of_reply(request, found) if found.reply.cost is None else found.reply.cost
        return replace(found.reply, cost=cost, sent=self._lines.sent(request))

    async def _file(self, request: LMRequest, found: Found) -> LMReply | None:
        reply = self._priced(request, found)
        part = self._prices.part(request) if found.batch else 1.0
        # In a thread: replies that are filed at once are flushed to the disk together.
        filed = await asyncio.to_thread(self._lm.answer, request, reply, part)
        self.filed += filed
        return await self._kept(request)
