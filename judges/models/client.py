"""Real models: one client holds retries, deadlines, limits, forms and prices; transports make the attempts."""

from __future__ import annotations

import asyncio
import logging
import random
import time
import weakref
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from judges.ledger.budget import Price
from judges.lm import JudgeError, LMError, LMReply, LMRequest, NotSent
from judges.models.completion import read_completion, usage_of
from judges.models.connections import Connections
from judges.models.direct_transport import DirectTransport
from judges.models.failure import Failure
from judges.models.form import Form, known_form
from judges.models.limits import Gate, Limits
from judges.models.litellm_transport import LiteLLMTransport
from judges.models.notes import Notes, in_words, target
from judges.models.prices import Prices
from judges.models.transport import Transport
from judges.redact import check_endpoint

log = logging.getLogger(__name__)

RETRIES = 4
LONGEST_WAIT = 60.0
"""Seconds. A provider that asks for a longer wait has failed for good."""
WAITS = 120.0
"""Seconds that a call may spend between its attempts."""
LEAST_OF_TIMEOUT = 0.1
"""No attempt is begun with less than this part of its time: it would be cut off, and may be billed."""

Shape: TypeAlias = tuple[str, str, bool, bool]
"""Endpoint, model, whether a schema is sent, whether a seed is sent."""


@dataclass
class _Call:
    """One call in progress. `left`: seconds to its deadline; its turns in the line of the limits do not count.

    `pause`: seconds before its next attempt. `sent`: that attempt is under way. `cancelled`: it is not to be made.
    """

    request: LMRequest
    form: Form
    left: float
    retries: int = 0
    pause: float = 0.0
    sent: bool = False
    cancelled: bool = False


class ModelClient:
    """An LM. Keys come from the environment and are kept nowhere.

    `timeout` is in seconds, for each attempt; failures that may pass (429, 5xx, lost connections, replies of a wrong
    shape) are tried `retries` times more, `pause` seconds apart at first, then twice as long each time. Where the
    provider asks for a wait, all calls to the model at that endpoint wait, each once. A call ends within the time of
    all its attempts and two minutes of waiting (`deadline`), beside its turns in the line of `limits`. No transport
    tries again.

    Connections outlive the caller's event loop (an evaluation is one loop), so they live in a loop and thread of their
    own; `close` ends both.
    """

    def __init__(
        self,
        timeout: float = 60.0,
        prices: Mapping[str, Price] | None = None,
        limits: Limits | None = None,
        retries: int = RETRIES,
        pause: float = 0.5,
        transports: Sequence[Transport] | None = None,
    ) -> None:
        if not timeout > 0:
            raise JudgeError(f"timeout is {timeout!r}: accepted is a number of seconds above 0")
        self.timeout = timeout
        self.deadline = (retries + 1) * timeout + WAITS
        self.prices = Prices(prices)
        self._retries = retries
        self._pause = pause
        self._transports = transports or (DirectTransport(), LiteLLMTransport())
        self._forms: dict[Shape, Form] = {}
        self._gates: defaultdict[tuple[str, str], Gate] = defaultdict(lambda: Gate(limits or Limits()))
        self._notes = Notes()
        self._connections = Connections()
        self._closer = weakref.finalize(self, self._connections.close)

    def close(self) -> None:
        self._closer()

    @property
    def adaptations(self) -> list[str]:
        """What endpoints were found not to take, and how requests were changed for them."""
        forms = list(self._forms.items())
        return sorted({f"{target(*shape[:2])} {note}" for shape, form in forms for note in form.changes()})

    def cost_of(self, request: LMRequest, prompt_tokens: int, completion_tokens: int) -> float | None:
        """The most dollars that so many tokens can cost; None where no price is known."""
        return self.prices.most(request.model, prompt_tokens, completion_tokens)

    async def complete(self, request: LMRequest) -> LMReply:
        """See `LM.complete`."""
        async with aclosing(self.attempts(request)) as attempts:
            async for ended in attempts:
                if isinstance(ended, LMReply):
                    return ended
        raise AssertionError("unreachable: attempts end with a reply or an error")

    async def attempts(self, request: LMRequest) -> AsyncGenerator[LMReply | LMError]:
        """See `RetryingLM.attempts`."""
        check_endpoint(request.endpoint)
        shape = (request.endpoint, request.model, request.schema is not None, request.seed is not None)
        known = self._forms.get(shape)
        call = _Call(request, known or known_form(request.model), self.deadline)
        particular = False
        while True:
            ended = await self._run(call)
            if isinstance(ended, LMReply):
                # What only this schema met is not remembered.
                if known is None and not particular:
                    self._remember(shape, call.form)
                yield ended
                return
            # Made here and not where it was caught: the provider's own exception, which may hold a key, stays behind.
            error = LMError(
                ended.kind, in_words(request, ended), ended.billed, passing=ended.retry or ended.kind == "timeout"
            )
            if (wait := self._wait(call, ended)) is not None:
                self._notes.waits(request, ended, call.retries + 2, self._retries + 1)
                yield error
                # A wait that the provider asked for is the gate's.
                call.pause = wait if ended.wait is None else 0.0
                call.left -= wait
                call.retries += 1
                continue
            # A form that has worked is not given up because the server is ill.
            plainer = call.form.after(ended, request) if ended.rejected and not (known and ended.retry) else None
            if plainer is None or call.left <= 0:
                raise error
            yield error
            particular = particular or "invalid schema" in ended.message.lower()
            call.form = plainer

    async def _run(self, call: _Call) -> LMReply | Failure:
        """The next attempt, in the loop of the connections."""
        call.sent = False
        try:
            return await self._connections.run(self._attempt(call))
        except asyncio.CancelledError:
            call.cancelled = True
            if call.sent:
                raise
            raise NotSent from None

    def _wait(self, call: _Call, ended: Failure) -> float | None:
        """Seconds until the same is tried again (where the provider told them, the gate keeps them); None: never."""
        if not ended.retry or call.retries >= self._retries or (ended.wait or 0.0) > LONGEST_WAIT:
            return None
        wait = self._pause * 2**call.retries * random.uniform(0.5, 1.0) if ended.wait is None else ended.wait
        return wait if wait + LEAST_OF_TIMEOUT * self.timeout < call.left else None

    def _way(self, request: LMRequest) -> Transport:
        return next((way for way in self._transports if way.takes(request)), self._transports[-1])

    async def _attempt(self, call: _Call) -> LMReply | Failure:
        """In the loop of the connections, waits included: callers come with loops of their own."""
        request = call.request
        gate = self._gates[request.endpoint, request.model]
        await asyncio.sleep(call.pause)
        taken = await gate.enter(request)
        call.sent, call.pause = True, 0.0
        if call.cancelled:
            raise asyncio.CancelledError
        begun = time.monotonic()
        limit = min(self.timeout, call.left)
        try:
            async with asyncio.timeout(limit):
                ended = await self._send(call, gate)
        # Transports raise plain exceptions of many kinds; whatever it is, it is the end of one attempt of one call.
        except Exception as error:
            ended = Failure.of(error, limit)
        call.left -= time.monotonic() - begun
        if isinstance(ended, LMReply):
            used = ended.prompt_tokens + ended.completion_tokens
            gate.settle(taken, used or taken)
            return ended
        gate.settle(taken, taken if ended.billed else 0)
        if ended.wait is not None and ended.wait <= LONGEST_WAIT:
            gate.pause(ended.wait)
        return LMReply("", "content_filter", sent=self._sent(call)) if ended.refused else ended

    async def _send(self, call: _Call, gate: Gate) -> LMReply | Failure:
        request = call.request
        way = self._way(request)
        session = await self._connections.session(proxies=not way.finds_proxies)
        answer = await way.send(request, call.form.arguments(request), session)
        gate.learn(answer.headers)
        read = read_completion(answer.body)
        if isinstance(read, Failure):
            return read
        cost = self._reply_cost(request.model, read, usage_of(answer.body))
        return replace(read, cost=cost, sent=self._sent(call))

    def _sent(self, call: _Call) -> str:
        request, way = call.request, self._way(call.request)
        return call.form.sent(request, request.model.removeprefix(way.prefix), way.marks(request.model))

    def _reply_cost(self, model: str, reply: LMReply, usage: Mapping[str, Any]) -> float | None:
        told = reply.prompt_tokens, reply.completion_tokens
        return self.prices.of_reply(model, *told, usage) if all(told) else None

    def _remember(self, shape: Shape, form: Form) -> None:
        before = set(self.adaptations)
        self._forms[shape] = form
        for note in self.adaptations:
            if note not in before:
                log.warning("%s", note)
