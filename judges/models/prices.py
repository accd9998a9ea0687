"""What a call costs: by the price that the user gave, else by LiteLLM's table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judges.ledger.budget import Price
from judges.models.completion import count, part
from judges.models.litellm_transport import load_litellm


class Prices:
    """Dollars of calls to models; None where neither the user nor the table knows the model.

    Reasoning tokens are among the completion's and are never charged beside them; the table has a rate of their own
    for some models.
    """

    def __init__(self, given: Mapping[str, Price] | None = None) -> None:
        self._given = dict(given or {})
        self._listed: dict[tuple[str, int], Price | None] = {}

    def of(
        self,
        model: str,
        prompt_tokens: int,
        completion_tokens: int,
        cached: int = 0,
        written: int = 0,
        reasoning: int = 0,
    ) -> float | None:
        """Of the prompt's tokens `cached` were read from the provider's cache, and `written` were put into it."""
        price = self._price(model, prompt_tokens)
        return None if price is None else price.cost(prompt_tokens, completion_tokens, cached, written, reasoning)

    def most(self, model: str, prompt_tokens: int, completion_tokens: int) -> float | None:
        """The dearest that a call of so many tokens can be: with some providers what is put into a cache, or what
        reasoning takes, costs more."""
        price = self._price(model, prompt_tokens)
        return None if price is None else price.most(prompt_tokens, completion_tokens)

    def of_reply(
        self, model: str, prompt_tokens: int, completion_tokens: int, usage: Mapping[str, Any]
    ) -> float | None:
        """`usage` is what the provider told of a reply; details that cannot be true are none."""
        cached, written, reasoning = _details(usage)
        if cached + written > prompt_tokens or reasoning > completion_tokens:
            cached, written, reasoning = 0, 0, 0
        return self.of(model, prompt_tokens, completion_tokens, cached, written, reasoning)

    def _price(self, model: str, prompt_tokens: int) -> Price | None:
        """Asked twice for every call, so what the table says is kept: a look into it takes 0.1 ms."""
        if (given := self._given.get(model)) is not None:
            return given
        # Long prompts have rates of their own; they begin at whole thousands.
        size = max(1, -(-prompt_tokens // 1000)) * 1000
        if (model, size) not in self._listed:
            self._listed[model, size] = _listed(model, size)
        return self._listed[model, size]


def _details(usage: Mapping[str, Any]) -> tuple[int, int, int]:
    prompt = part(usage, "prompt_tokens_details")
    written = count(prompt.get("cache_creation_tokens")) or count(usage.get("cache_creation_input_tokens"))
    reasoning = part(usage, "completion_tokens_details").get("reasoning_tokens")
    return count(prompt.get("cached_tokens")), written, count(reasoning)


def _listed(model: str, prompt_tokens: int) -> Price | None:
    """The rates of LiteLLM's table for prompts of so many tokens; None where it has no price."""
    prompt, completion = _dollars(model, prompt_tokens)
    # The table holds zeros where nobody entered a price.
    if not prompt and not completion:
        return None
    per_million = 1e6 / prompt_tokens
    return Price(
        input=prompt * per_million,
        output=completion * per_million,
        cached=_dollars(model, prompt_tokens, cached=prompt_tokens)[0] * per_million,
        written=_dollars(model, prompt_tokens, written=prompt_tokens)[0] * per_million,
        reasoning=_dollars(model, prompt_tokens, reasoning=prompt_tokens)[1] * per_million,
    )


def _dollars(model: str, tokens: int, cached: int = 0, written: int = 0, reasoning: int = 0) -> tuple[float, float]:
    """Of a prompt and of a completion of so many tokens, by LiteLLM's table; zeros where it has no price."""
    litellm = load_litellm()
    usage = None
    if cached or written or reasoning:
        usage = litellm.Usage(
            prompt_tokens=tokens,
            completion_tokens=tokens,
            total_tokens=2 * tokens,
            prompt_tokens_details={"cached_tokens": cached, "cache_creation_tokens": written},
            completion_tokens_details={"reasoning_tokens": reasoning},
            cache_read_input_tokens=cached,
            cache_creation_input_tokens=written,
        )
    try:
        prompt, completion = litellm.cost_per_token(
            model=model, prompt_tokens=tokens, completion_tokens=tokens, usage_object=usage
        )
    # A model that the table does not know is a plain Exception in some releases.
    except Exception:
        return 0.0, 0.0
    return prompt, completion
