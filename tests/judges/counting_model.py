"""A model in this process that counts what reaches it. Reached by the fixture `counting_model`, which is its class."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from judges.ledger.ledger_lm import LedgerLM
from judges.lm import LMReply, LMRequest, Message


class CountingModel:
    """An LM. `reply` may raise; `delay` is in seconds."""

    def __init__(self, reply: Callable[[LMRequest], LMReply] | None = None, delay: float | None = None) -> None:
        self.asked: list[LMRequest] = []
        self._reply = reply or (lambda request: LMReply(f"reply {request.repeat}", "stop", 10, 5, 0, 0.001))
        self._delay = delay

    async def complete(self, request: LMRequest) -> LMReply:
        self.asked.append(request)
        if self._delay is not None:
            await asyncio.sleep(self._delay)
        return self._reply(request)

    @staticmethod
    def request(number: int = 0, **changes: Any) -> LMRequest:
        return replace(LMRequest("openai/m", (Message("user", f"prompt {number}"),), max_tokens=100), **changes)

    @staticmethod
    def ask(lm: LedgerLM, *requests: LMRequest) -> list[LMReply]:
        """One after the other."""

        async def in_turn() -> list[LMReply]:
            return [await lm.complete(request) for request in requests]

        return asyncio.run(in_turn())

    @staticmethod
    def ask_at_once(lm: LedgerLM, *requests: LMRequest) -> list[LMReply | BaseException]:
        """All in one event loop; what is raised is returned."""

        async def at_once() -> list[LMReply | BaseException]:
            return await asyncio.gather(*(lm.complete(request) for request in requests), return_exceptions=True)

        return asyncio.run(at_once())
