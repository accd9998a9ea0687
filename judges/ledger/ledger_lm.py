"""The call ledger in front of a model: cache, resume, replay, repeats and budget in one mechanism."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from judges.ledger.budget import Budget, Usage, exhausted, reserved_tokens, unknown_price
from judges.ledger.health import Health
from judges.ledger.rows import as_stored, is_storable
from judges.ledger.steps import End, Reservation
from judges.ledger.store import Ledger
from judges.lm import LM, BudgetExhausted, JudgeError, LMError, LMReply, LMRequest, NotSent, ProviderDown, RetryingLM

__all__ = ["CostOf", "Ledger", "LedgerLM", "NotInLedger"]

CostOf: TypeAlias = Callable[[LMRequest, int, int], float | None]
"""Dollars of a call that takes so many prompt and completion tokens; None where no price is known."""

POLL_SECONDS = (0.02, 0.5)
"""Between two looks at a call that another process is making: it begins with the first, and doubles up to the last."""


@runtime_checkable
class Closable(Protocol):
    def close(self) -> None: ...


class NotInLedger(LMError):
    """A replay was asked for a call that the ledger does not hold: not an outcome of a judgment, but a wrong replay."""

    def __init__(self, message: str) -> None:
        super().__init__("provider_error", message)


class LedgerLM:
    """An LM that asks `inner` only for what the ledger does not hold, and never beyond the budget of `run`.

    Equal requests in flight are one call, in this process and in others. `mode` `replay`: the ledger alone answers. A
    reply that cost nothing now is marked `replayed`; its tokens and cost are those of the call that was paid.

    The budget bounds what may have been billed. Each attempt is reserved before it is made and counts as a call,
    retries too. One without a reply is not kept, and is charged what was reserved for it, tokens and dollars: after a
    timeout, a lost connection, a cancellation or a kill nobody knows what it cost. So is each half of the usage
    (prompt, reply) that an answer does not tell. Nothing is charged where the answer rules a bill out: an HTTP error,
    but for those of gateways that gave up on a model, or a web page (see `Failure.billed`).

    What was reserved is the most that a call can take, if the provider counts a token for a byte at least and keeps to
    `max_tokens`. A call that it says was larger is charged in full. No other is sent once a cap is reached: it is
    passed, if ever, by such calls that were in flight.
    """

    def __init__(
        self,
        inner: LM,
        ledger: Ledger,
        run: str,
        budget: Budget | None = None,
        mode: Literal["live", "replay"] = "live",
        cost_of: CostOf | None = None,
    ) -> None:
        if mode not in ("live", "replay"):
            raise JudgeError(f"ledger mode is {mode!r}: accepted are live and replay")
        if not run or not is_storable(run):
            raise JudgeError(f"a run needs a name, not {run!r}: accepted is any text that is not empty and is Unicode")
        self.inner = inner
        self.ledger = ledger
        self.run = run
        self.budget = budget or Budget()
        self._replay = mode == "replay"
        self._cost_of: CostOf = cost_of or (lambda *_: None)
        self._attempts = inner.attempts if isinstance(inner, RetryingLM) else self._one_attempt
        self._health = Health(ledger)
        self._unpriced = False

    def __enter__(self) -> LedgerLM:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """An interrupt gets a note of what is kept and was spent."""
        try:
            if isinstance(error, KeyboardInterrupt):
                with suppress(Exception):
                    error.add_note(self._so_far())
        finally:
            self.close()

    def close(self) -> None:
        """Closes the connections of the model behind it, where it has some, and the ledger."""
        if isinstance(self.inner, Closable):
            self.inner.close()
        self.ledger.close()

    def spent(self) -> Usage:
        """What the run has paid for, or may have, in this attempt and in earlier ones."""
        spent = self.ledger.spent(self.run)
        return replace(spent, unpriced=spent.unpriced or self._unpriced)

    def kept(self) -> int:
        """How many of the calls that were paid for have left a reply in the ledger."""
        return self.ledger.spent(self.run).calls - self.ledger.failed(self.run)

    async def complete(self, request: LMRequest) -> LMReply:
        """See `LM.complete`.

        Raises:
            LMError: the call failed, or (`NotInLedger`) a replay does not hold it.
            BudgetExhausted: the call could pass a cap and was not sent.
            ProviderDown: too many calls in a row have failed, so it was not sent.
            JudgeError: the budget is in dollars and the model has no known price; or the ledger cannot be used.
        """
        key = request.key
        while True:
            if (reply := await self.ledger.look_up(key)) is not None:
                self._health.found(request)
                return reply
            if self._replay:
                raise NotInLedger(
                    f"this call to {request.model} (repeat {request.repeat}) is not in the ledger {self.ledger.path}: "
                    "a replay answers only what was asked with the same prompts, model and settings"
                )
            with self.ledger.lock:
                flight = self.ledger.flights.get(key)
                if flight is None:
                    mine = self.ledger.flights[key] = Future[LMReply | LMError | None]()
                    # Running: a waiter that is cancelled cannot cancel the call of the others.
                    mine.set_running_or_notify_cancel()
            if flight is None:
                return await self._lead(key, request, mine)
            ended = await asyncio.wrap_future(flight)
            if isinstance(ended, LMReply):
                return replace(ended, replayed=True)
            if isinstance(ended, LMError):
                raise LMError(ended.kind, str(ended))

    def answer(self, request: LMRequest, reply: LMReply, price_factor: float = 1.0) -> bool:
        """Files a reply that was had elsewhere (from a batch, a person), as if the call had been made by this run.

        It is charged as any reply, times `price_factor` where it tells no cost of its own. What is paid is never
        refused: the budget may be passed by it, and then no further call is made. False, and nothing is charged, where
        the ledger holds a reply already, or someone is making this call now.
        """
        reply, paid = self._charged(request, reply, price_factor)
        return self.ledger.answer(request.key, request, self.run, reply, paid)

    async def _lead(self, key: str, request: LMRequest, flight: Future[LMReply | LMError | None]) -> LMReply:
        """Makes the call for all who wait. They ask anew (None) where it was not made or was cancelled."""
        ended: LMReply | LMError | None = None
        try:
            ended = await self._call(key, request)
        except LMError as error:
            ended = error
            raise
        finally:
            with self.ledger.lock:
                del self.ledger.flights[key]
            self._health.left(request, key)
            flight.set_result(ended)
        return ended

    async def _call(self, key: str, request: LMRequest) -> LMReply:
        """One call with all its attempts, each of which is reserved, made, and charged."""
        most = self._reservation(request)
        self._health.check(request)
        try:
            known = await self._reserve(key, request, most)
        except BudgetExhausted as error:
            raise self._explained(request, most, error) from None
        async with aclosing(self._attempts(request)) as attempts:
            while known is None:
                try:
                    ended = await anext(attempts)
                except BaseException as error:
                    await self._settle(key, request, error, most)
                    if isinstance(error, LMError):
                        self._health.failed(request, error)
                    raise
                if isinstance(ended, LMReply):
                    self._health.answered(request)
                    return await self._keep(key, request, ended)
                await self._settle(key, request, ended, most)
                await self._health.turn(request, key)
                try:
                    known = await self._reserve(key, request, most)
                except BudgetExhausted:
                    self._health.failed(request, ended)
                    raise ended from None
        return known

    def _so_far(self) -> str:
        spent, kept = self.spent(), self.kept()
        said = f"{kept:,} {'reply is' if kept == 1 else 'replies are'} kept"
        return f"{said}, {spent.dollars:.2f} dollars spent{spent.doubt}" if spent.dollars else said

    def _explained(self, request: LMRequest, most: Usage, end: BudgetExhausted) -> BudgetExhausted | ProviderDown:
        def now() -> str:
            reason = self.budget.excess(self.spent(), most)
            return str(self._health.explain(request, exhausted(self.run, reason) if reason else end))

        explained = self._health.explain(request, end)
        explained.now = now
        return explained

    async def _one_attempt(self, request: LMRequest) -> AsyncGenerator[LMReply | LMError]:
        yield await self.inner.complete(request)

    async def _reserve(self, key: str, request: LMRequest, most: Usage) -> LMReply | None:
        """Reserves the next attempt; the reply where another process has had one meanwhile."""
        pause, longest = POLL_SECONDS
        while True:
            reserved = await self.ledger.reserve(key, request, self.run, most, self.budget)
            if isinstance(reserved, LMReply):
                return reserved
            if reserved is Reservation.GRANTED:
                return None
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _settle(self, key: str, request: LMRequest, error: BaseException, most: Usage) -> None:
        """Charges an attempt that gave no reply. A wrong setting is found before anything is sent."""
        billed = True
        if isinstance(error, LMError):
            billed = error.billed
            self._health.tried(request, error)
        end = End.UNSENT if isinstance(error, JudgeError | NotSent) else End.BILLED if billed else End.UNBILLED
        self._unpriced |= end is End.BILLED and most.unpriced
        if isinstance(error, Exception):
            await self.ledger.drop(key, end)
        else:
            # It was cancelled, or its event loop has ended: it cannot wait.
            self.ledger.drop_later(key, end)

    async def _keep(self, key: str, request: LMRequest, reply: LMReply) -> LMReply:
        reply, paid = self._charged(request, reply)
        return await self.ledger.complete(key, self.run, reply, paid)

    def _charged(self, request: LMRequest, reply: LMReply, price_factor: float = 1.0) -> tuple[LMReply, Usage]:
        """The reply with its cost, and what is charged for it."""

        def price(prompt: int, completion: int) -> float | None:
            cost = self._cost_of(request, prompt, completion)
            return None if cost is None else cost * price_factor

        told = (reply.prompt_tokens, reply.completion_tokens)
        # Where the endpoint does not say what it used, what was reserved counts.
        prompt, completion = (tokens or most for tokens, most in zip(told, reserved_tokens(request), strict=True))
        paid = price(prompt, completion) if reply.cost is None else reply.cost
        # What was reserved is no cost of the reply: that stays unknown.
        cost = reply.cost if 0 in told else paid
        reply = replace(reply, cost=None if cost is None else as_stored(cost), replayed=False)
        paid, unsure = as_stored(paid or 0.0), reply.cost is None
        return reply, Usage(1, prompt + completion, paid, assumed=paid if unsure else 0.0, unsure=int(unsure))

    def _reservation(self, request: LMRequest) -> Usage:
        prompt_tokens, completion_tokens = reserved_tokens(request)
        cost = self._cost_of(request, prompt_tokens, completion_tokens)
        if cost is None and self.budget.dollars is not None:
            raise unknown_price([request.model])
        return Usage(1, prompt_tokens + completion_tokens, cost or 0.0, unpriced=cost is None)
