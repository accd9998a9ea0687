"""Real models through LiteLLM."""

from __future__ import annotations

from judges.lm import LMReply, LMRequest


class LiteLLMClient:
    def __init__(self, timeout: float = 60.0) -> None:
        self.timeout = timeout

    async def complete(self, request: LMRequest) -> LMReply:
        """See `LM.complete`."""
        raise NotImplementedError

    def cost_of(self, request: LMRequest, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Dollars; None where no price is known."""
        return None
