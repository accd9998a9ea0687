"""Opens the way to a model: the ledger in front, behind it the simulated model or the client of real ones, each loaded
when needed."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import urlsplit

from judges.ledger.budget import Budget, Price
from judges.ledger.file import check_kept, note_use
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.ledger.place import Place, place_of
from judges.lm import LM, JudgeError, LMError, LMReply, LMRequest, RetryingLM
from judges.models.direct_transport import DirectTransport

if TYPE_CHECKING:
    from judges.models.client import ModelClient
    from judges.models.limits import Limits

Asked: TypeAlias = AbstractSet[tuple[str, str]]
"""Models that are asked, each with its endpoint ("" where it has none)."""
SIMULATED = "simulated/"
"""Models whose name begins so are simulated: no network, no price, and called simulated wherever they are shown."""


def is_simulated(model: str) -> bool:
    return model.startswith(SIMULATED)


def check_name(model: str, endpoint: str = "") -> None:
    """
    Raises:
        JudgeError: no simulated model has this name, or no provider that LiteLLM knows.
    """
    if is_simulated(model):
        from judges.simulated_lm import profile_of

        profile_of(model)
        return
    from judges.models.litellm_transport import load_litellm

    litellm = load_litellm()
    try:
        litellm.get_llm_provider(model=model, api_base=endpoint or None)
    except litellm.BadRequestError as error:
        raise JudgeError(
            f"no provider of the model {model!r} is known: accepted is provider/model such as openai/gpt-5, with any "
            "name after openai/ for a server that speaks its protocol"
        ) from error


def is_on_loopback(model: str, endpoint: str) -> bool:
    """Whether this machine answers."""
    base = endpoint or (model.startswith(DirectTransport.prefix) and os.environ.get("OPENAI_BASE_URL")) or ""
    host = urlsplit(base).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def check_keys(asked: Asked) -> None:
    """Before anything is announced: a key without which no call can succeed. Only models named openai/... without an
    endpoint are looked at; other providers' keys are found in many places.

    Raises:
        JudgeError: it is not in the environment.
    """
    for model, endpoint in sorted(asked):
        if model.startswith("openai/") and not endpoint and not os.environ.get("OPENAI_API_KEY", "").strip():
            raise JudgeError(
                f"{model} needs a key, and OPENAI_API_KEY is not in the environment: accepted is that variable, or an "
                "endpoint of your own (--endpoint URL)"
            )


def open_lm(
    ledger_path: Place,
    run: str,
    budget: Budget | None = None,
    prices: Mapping[str, Price] | None = None,
    timeout: float = 60.0,
    mode: Literal["live", "replay"] = "live",
    keep_requests: bool = False,
    limits: Limits | None = None,
) -> LedgerLM:
    """The LM of one run: to be closed (or used in `with`) by the caller.

    `prices` go before LiteLLM's price table; `timeout` is in seconds, for each attempt of a call; `limits` are those of
    each model at each endpoint. `mode` `replay`: the ledger alone answers, and must be there. `keep_requests`: the
    ledger keeps what was sent as well.

    Raises:
        JudgeError: the ledger cannot be used, or was lost while there is a budget to keep; or a setting is wrong.
    """
    models = Models(prices or {}, timeout, limits)
    replay, place, budget = mode == "replay", place_of(ledger_path), budget or Budget()
    if not replay and isinstance(place, Path):
        check_kept(place, capped=budget != Budget())
    ledger = Ledger(place, replay, keep_requests)
    if not replay and isinstance(place, Path):
        note_use(place)
    return LedgerLM(models, ledger, run, budget, mode, models.cost_of)


class Models:
    """An LM that sends each request to the model that it names."""

    def __init__(self, prices: Mapping[str, Price], timeout: float, limits: Limits | None = None) -> None:
        self._prices = prices
        self._timeout = timeout
        self._limits = limits
        self._lock = threading.Lock()
        self._simulated: LM | None = None
        self._client: ModelClient | None = None

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()

    async def complete(self, request: LMRequest) -> LMReply:
        """See `LM.complete`."""
        return await self._model(request.model).complete(request)

    async def attempts(self, request: LMRequest) -> AsyncGenerator[LMReply | LMError]:
        """See `RetryingLM.attempts`."""
        model = self._model(request.model)
        if not isinstance(model, RetryingLM):
            yield await model.complete(request)
            return
        async with aclosing(model.attempts(request)) as attempts:
            async for ended in attempts:
                yield ended

    def cost_of(self, request: LMRequest, prompt_tokens: int, completion_tokens: int) -> float | None:
        """The most dollars that so many tokens can cost; None where no price is known."""
        if is_simulated(request.model):
            return 0.0
        return self._real().cost_of(request, prompt_tokens, completion_tokens)

    def expected_cost(
        self, model: str, prompt_tokens: int, completion_tokens: int, cached: int = 0, written: int = 0
    ) -> float | None:
        """Dollars of a call of which `cached` prompt tokens come from the provider's cache and `written` are put into
        it; None where no price is known."""
        if is_simulated(model):
            return 0.0
        return self._real().prices.of(model, prompt_tokens, completion_tokens, cached, written)

    def has_cached_price(self, model: str) -> bool:
        """Whether cached tokens are known to be cheaper."""
        full, cached = (self.expected_cost(model, 10_000, 1, tokens) or 0.0 for tokens in (0, 10_000))
        return cached < full

    def _model(self, name: str) -> LM:
        if not is_simulated(name):
            return self._real()
        with self._lock:
            if self._simulated is None:
                from judges.simulated_lm import SimulatedLM

                self._simulated = SimulatedLM()
            return self._simulated

    def _real(self) -> ModelClient:
        with self._lock:
            if self._client is None:
                from judges.models.client import ModelClient

                self._client = ModelClient(self._timeout, self._prices, self._limits)
            return self._client
