"""What calls in a batch cost."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from judges.judgment import HOLISTIC
from judges.ledger.budget import Price
from judges.lm import LMRequest
from judges.models.completion import part
from judges.models.connect import is_simulated
from judges.models.prices import Prices
from judges.models.tokens import reasons
from labeled_traces.files import parse_json, read_lines
from pipeline.batch.calls import Asked, provider_of
from pipeline.batch.replies import Found
from pipeline.cost import REASONING_TOKENS, REPLY_DEFAULT, REPLY_TOKENS, Cost
from pipeline.dry_run import PLAN, prompt_tokens

BATCH_PRICE = 0.5
"""What OpenAI and Anthropic ask for a call in a batch, as a part of its usual price."""
HALVED = {
    "openai": ("api.openai.com", "OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "anthropic": ("api.anthropic.com", "ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
}
"""Who asks for that: their host, and the variables of the environment that lead elsewhere."""


class BatchPrices:
    """Dollars, None where no price is known. `prices` are the user's, of usual calls."""

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._prices = Prices(prices)
        self._parts: dict[tuple[str, str], float] = {}

    def part(self, request: LMRequest) -> float:
        """Of the usual price. A server of one's own gives no discount."""
        target = (request.model, request.endpoint)
        if target not in self._parts:
            self._parts[target] = BATCH_PRICE if _is_halved(request) else 1.0
        return self._parts[target]

    def most(self, request: LMRequest, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Of a call that takes so many tokens, at their dearest."""
        if is_simulated(request.model):
            return 0.0
        cost = self._prices.most(request.model, prompt_tokens, completion_tokens)
        return None if cost is None else cost * self.part(request)

    def expected(self, request: LMRequest, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Of a call that takes so many tokens."""
        return self._cost(request, (prompt_tokens, completion_tokens), {}, self.part(request))

    def of_reply(self, request: LMRequest, found: Found) -> float | None:
        """None also where the reply does not tell what it took."""
        if is_simulated(request.model):
            return 0.0
        told = (found.reply.prompt_tokens, found.reply.completion_tokens)
        part = self.part(request) if found.batch else 1.0
        return self._cost(request, told, found.usage, part) if all(told) else None

    def _cost(self, request: LMRequest, tokens: tuple[int, int], usage: Mapping[str, Any], part: float) -> float | None:
        if is_simulated(request.model):
            return 0.0
        cost = self._prices.of_reply(request.model, *tokens, usage)
        return None if cost is None else cost * part


def _is_halved(request: LMRequest) -> bool:
    host, *names = HALVED.get(provider_of(request.model, request.endpoint)[0], ("",))
    base = request.endpoint or next(filter(None, map(os.environ.get, names)), "")
    called = urlsplit(base).hostname or "" if base else host
    return bool(host) and (called == host or called.endswith(f".{host}"))


def file_cost(path: Path, request: LMRequest, prices: BatchPrices) -> Cost:
    """What a file of calls like `request` (its model and endpoint) is expected to cost."""
    calls = prompt = completion = longest = 0
    reasoning = REASONING_TOKENS * reasons(request.model)
    for number, line in read_lines(path):
        if (asked := Asked.of(parse_json(line, f"{path}, line {number}"))) is not None:
            calls += 1
            prompt += prompt_tokens(request.model, request.endpoint, asked.texts, asked.schema)
            completion += min(asked.tokens, _usual_reply(asked.schema) + reasoning)
            longest += asked.tokens
    # Of one call, since long prompts have a price of their own.
    expected = prices.expected(request, round(prompt / calls), round(completion / calls))
    most = prices.most(request, round(prompt / calls), round(longest / calls))
    paid = frozenset() if is_simulated(request.model) else frozenset({request.model})
    return Cost(
        calls=calls,
        prompt_tokens=prompt,
        completion_tokens=completion,
        known=(expected or 0.0) * calls,
        paid=paid,
        unpriced=paid if expected is None else frozenset(),
        most_completion=longest,
        most=(most or 0.0) * calls,
    )


def _usual_reply(schema: Any) -> int:
    """Tokens of the reply to a call, whose kind its schema tells."""
    fields = part(schema, "properties")
    if "plans" in fields:
        return REPLY_TOKENS[PLAN]
    of_all = "dimension" in part(part(part(fields, "findings"), "items"), "properties")
    return REPLY_TOKENS[HOLISTIC] if of_all else REPLY_DEFAULT
