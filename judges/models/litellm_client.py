"""Real models: LiteLLM reaches the providers, any OpenAI-compatible server, and gateways."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import warnings
import weakref
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias

from judges.ledger.budget import Price
from judges.lm import JudgeError, LMError, LMReply, LMRequest
from judges.models.connections import Connections
from judges.models.failure import Failure
from judges.models.form import Form
from judges.models.prices import Prices
from judges.redact import check_endpoint, hide_values, redact_url

log = logging.getLogger(__name__)

RETRIES = 4
LONGEST_WAIT = 60.0
"""Seconds. A provider that asks for a longer wait has failed for good."""

_TOO_MANY = 10**9
"""Tokens of one call: no model reads or writes so many."""

Shape: TypeAlias = tuple[str, str, bool, bool]
"""Endpoint, model, whether a schema is sent, whether a seed is sent."""


class LiteLLMClient:
    """An LM. Keys come from the environment, as LiteLLM reads them, and are kept nowhere.

    `timeout` is in seconds, for each attempt; failures that may pass (429, 5xx, lost connections) are tried `retries`
    times more, `pause` seconds apart at first, then twice as long each time, or as long as the provider asks.

    Connections outlive the caller's event loop (an evaluation is one loop), so they live in a loop and thread of their
    own; `close` ends both.
    """

    def __init__(
        self,
        timeout: float = 60.0,
        prices: Mapping[str, Price] | None = None,
        retries: int = RETRIES,
        pause: float = 0.5,
    ) -> None:
        if not timeout > 0:
            raise JudgeError(f"timeout is {timeout!r}: accepted is a number of seconds above 0")
        self.timeout = timeout
        self.prices = Prices(prices)
        self._retries = retries
        self._pause = pause
        self._forms: dict[Shape, Form] = {}
        self._connections = Connections()
        self._closer = weakref.finalize(self, self._connections.close)

    def close(self) -> None:
        self._closer()

    @property
    def adaptations(self) -> list[str]:
        """What endpoints were found not to take, and how requests were changed for them."""
        forms = list(self._forms.items())
        return sorted({f"{_target(*shape[:2])} {note}" for shape, form in forms for note in form.changes()})

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
        form = known or Form()
        particular = False
        attempt = 0
        while True:
            ended = await self._connections.run(self._attempt(request, form))
            if isinstance(ended, LMReply):
                # What only this schema met is not remembered.
                if known is None and not particular:
                    self._remember(shape, form)
                yield ended
                return
            # Made here and not where it was caught: the provider's own exception, which may hold a key, stays behind.
            said = f"{_target(request.endpoint, request.model)}: {ended.message}"
            error = LMError(ended.kind, said, ended.billed, passing=ended.retry or ended.kind == "timeout")
            if ended.retry and attempt < self._retries and (ended.wait or 0.0) <= LONGEST_WAIT:
                yield error
                await asyncio.sleep(ended.wait or self._pause * 2**attempt * random.uniform(0.5, 1.0))
                attempt += 1
                continue
            # A form that has worked is not given up because the server is ill.
            plainer = form.after(ended, request) if ended.rejected and not (known and ended.retry) else None
            if plainer is None:
                raise error
            yield error
            particular = particular or "invalid schema" in ended.message.lower()
            form = plainer

    async def _attempt(self, request: LMRequest, form: Form) -> LMReply | Failure:
        litellm = load_litellm()
        try:
            async with asyncio.timeout(self.timeout):
                response = await litellm.acompletion(
                    model=request.model,
                    messages=[
                        {"role": message.role, "content": _sendable(message.content)} for message in request.messages
                    ],
                    api_base=request.endpoint or None,
                    api_key=_stand_in_key(request),
                    timeout=self.timeout,
                    max_retries=0,
                    num_retries=0,
                    drop_params=False,
                    shared_session=await self._connections.session(),
                    **form.arguments(request),
                )
            return self._read(request.model, response)
        # LiteLLM raises plain exceptions of many kinds; whatever it is, it is the end of one attempt of one call.
        except Exception as error:
            failure = Failure.of(error, self.timeout)
            return LMReply("", "content_filter") if failure.refused else failure

    def _read(self, model: str, response: Any) -> LMReply | Failure:
        if not response.choices:
            return Failure("provider_error", "the reply holds no choices", retry=True)
        choice, usage = response.choices[0], response.usage
        prompt_tokens, completion_tokens = _count(usage.prompt_tokens), _count(usage.completion_tokens)
        cached_tokens = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None) or 0
        if not 0 <= cached_tokens <= prompt_tokens:
            cached_tokens, usage = 0, None
        told = prompt_tokens and completion_tokens
        return LMReply(
            # Some servers show what they were sent: a key must not get from there into files.
            text=hide_values(str(choice.message.content or getattr(choice.message, "refusal", None) or "")),
            finish_reason=str(choice.finish_reason or "stop"),
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cached_tokens=cached_tokens,
            cost=self.prices.of_reply(model, prompt_tokens, completion_tokens, usage) if told else None,
        )

    def _remember(self, shape: Shape, form: Form) -> None:
        before = set(self.adaptations)
        self._forms[shape] = form
        for note in self.adaptations:
            if note not in before:
                log.warning("%s", note)


def load_litellm() -> Any:
    """Imports LiteLLM, which takes seconds, and keeps it silent."""
    # Before the import, else it fetches a price list from the network.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    if not litellm.suppress_debug_info:
        litellm.suppress_debug_info = True
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
        for noise in ("Pydantic serializer warnings", ".* using the `ReadOnly` qualifier"):
            warnings.filterwarnings("ignore", noise, UserWarning)
    return litellm


def _count(tokens: Any) -> int:
    """What a provider counted; 0 where that is missing or cannot be true."""
    return tokens if isinstance(tokens, int) and 0 < tokens < _TOO_MANY else 0


def _stand_in_key(request: LMRequest) -> str | None:
    """Local servers want no key, but the client of OpenAI's protocol does. None: LiteLLM reads the environment."""
    local = request.endpoint and request.model.startswith("openai/") and not os.environ.get("OPENAI_API_KEY")
    return "none" if local else None


def _sendable(text: str) -> str:
    """Surrogate halves cannot be sent as UTF-8: pairs become their character, lone ones U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _target(endpoint: str, model: str) -> str:
    return f"{model} at {redact_url(endpoint)}" if endpoint else model
