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
        self._rates: dict[tuple[str, int], tuple[float, float]] = {}

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
        if (price := self._given.get(model)) is not None:
            return price.cost(prompt_tokens, completion_tokens, cached, written)
        return sum(_listed(model, prompt_tokens, completion_tokens, cached, written, reasoning)) or None

    def most(self, model: str, prompt_tokens: int, completion_tokens: int) -> float | None:
        """The dearest that a call of so many tokens can be: with some providers what is put into a cache, or what
        reasoning takes, costs more. Asked before every call, so rates are kept: the table takes 0.1 ms."""
        if (price := self._given.get(model)) is not None:
            written = prompt_tokens if (price.written or 0.0) > price.input else 0
            return price.cost(prompt_tokens, completion_tokens, written=written)
        # Long prompts have rates of their own; they begin at whole thousands.
        size = max(1, -(-prompt_tokens // 1000)) * 1000
        if (model, size) not in self._rates:
            plain = _listed(model, size, 1000)
            dear = _listed(model, size, 1000, 0, size, 1000)
            self._rates[model, size] = max(plain[0], dear[0]) / size, max(plain[1], dear[1]) / 1000
        per_input, per_output = self._rates[model, size]
        # The table holds zeros where nobody entered a price.
        return (per_input * prompt_tokens + per_output * completion_tokens) or None

    def of_reply(
        self, model: str, prompt_tokens: int, completion_tokens: int, usage: Mapping[str, Any]
    ) -> float | None:
        """`usage` is what the provider told of a reply; details that cannot be true are none."""
        cached, written, reasoning = _details(usage)
        if cached + written > prompt_tokens or reasoning > completion_tokens:
            cached, written, reasoning = 0, 0, 0
        return self.of(model, prompt_tokens, completion_tokens, cached, written, reasoning)


def _details(usage: Mapping[str, Any]) -> tuple[int, int, int]:
    prompt = part(usage, "prompt_tokens_details")
    written = count(prompt.get("cache_creation_tokens")) or count(usage.get("cache_creation_input_tokens"))
    reasoning = part(usage, "completion_tokens_details").get("reasoning_tokens")
    return count(prompt.get("cached_tokens")), written, count(reasoning)


def _listed(
    model: str, prompt_tokens: int, completion_tokens: int, cached: int = 0, written: int = 0, reasoning: int = 0
) -> tuple[float, float]:
    """Dollars of prompt and completion by LiteLLM's table; zeros where it has no price."""
    litellm = load_litellm()
    usage = None
    if cached or written or reasoning:
        usage = litellm.Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            total_tokens=prompt_tokens + completion_tokens,
            prompt_tokens_details={"cached_tokens": cached, "cache_creation_tokens": written},
            completion_tokens_details={"reasoning_tokens": reasoning},
            cache_read_input_tokens=cached,
            cache_creation_input_tokens=written,
        )
    try:
        prompt, completion = litellm.cost_per_token(
            model=model, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, usage_object=usage
        )
    # A model that the table does not know is a plain Exception in some releases.
    except Exception:
        return 0.0, 0.0
    return prompt, completion
