"""What calls in a batch cost."""

from __future__ import annotations

from collections.abc import Mapping

from judges.ledger.budget import Price
from judges.lm import LMReply, LMRequest
from judges.models.connect import is_simulated
from judges.models.prices import Prices
from pipeline.batch.calls import provider_of

BATCH_PRICE = 0.5
"""What OpenAI and Anthropic ask for a call in a batch, as a part of its usual price."""
HALVED = ("openai", "anthropic")


class BatchPrices:
    """Dollars, None where no price is known. `prices` are the user's, of usual calls."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = Prices(prices)
        self._parts: dict[tuple[str, str], float] = {}

    def part(self, request: LMRequest) -> float:
        """Of the usual price. A server of one's own gives no discount."""
        target = (request.model, request.endpoint)
        if target not in self._parts:
            halved = not request.endpoint and provider_of(request.model)[0] in HALVED
            self._parts[target] = BATCH_PRICE if halved else 1.0
        return self._parts[target]

    def expected(self, request: LMRequest, prompt_tokens: int, completion_tokens: int) -> float | None:
        return self._cost(request, self.part(request), prompt_tokens, completion_tokens)

    def of_reply(self, request: LMRequest, reply: LMReply, written: int, *, batch: bool) -> float | None:
        """None also where the reply does not tell what it took. `written`: tokens put into the provider's cache."""
        told = (reply.prompt_tokens, reply.completion_tokens)
        part = self.part(request) if batch else 1.0
        return (
            None
            if 0 in told
            else self._cost(request, part, *told, reply.cached_tokens, written, reply.reasoning_tokens)
        )

    def _cost(self, request: LMRequest, part: float, *tokens: int) -> float | None:
        if is_simulated(request.model):
            return 0.0
        cost = self._prices.of(request.model, *tokens)
        return None if cost is None else cost * part
