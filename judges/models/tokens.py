"""How many tokens a text takes."""

from __future__ import annotations

import re
from functools import lru_cache

from judges.models.connect import is_simulated
from judges.render import estimate_tokens

_BUNDLED = "gpt-3.5-turbo"
"""LiteLLM carries its tokenizer (cl100k) with it. Those of many other models it would fetch from the network."""
_SINGLE_DIGITS = re.compile("gemini|gemma|mistral|qwen|smollm", re.IGNORECASE)
"""Models whose tokenizers take each digit for a token; this one takes up to three."""


def count_tokens(text: str, model: str) -> int:
    """About the tokens that `model` takes for a text; the simulated models count UTF-8 bytes / 4.

    All others are counted by one tokenizer that needs no network. On rendered traces (60 simulated ones of 3.14 bytes a
    token, 52 of AgentRx of 3.47) o200k (GPT-4o and later) differs from it by 0.3 %, DeepSeek's by 2 %, Anthropic's
    older public one by 5 %. Where digits are tokens, ids and amounts take 10 to 15 % more, which is counted; what is
    left of the difference to SmolLM2's small vocabulary is 6 %.
    """
    if is_simulated(model):
        return estimate_tokens(text)
    # Paragraph by paragraph: no token goes on after an empty line, and prompts share most of their paragraphs.
    single_digits = bool(_SINGLE_DIGITS.search(model))
    return sum(_counted(part, single_digits) for part in re.split(r"(?<=\n\n)", text) if part)


@lru_cache(maxsize=1024)
def _counted(text: str, single_digits: bool) -> int:
    from judges.models.litellm_transport import load_litellm

    sendable = text.encode("utf-8", "replace").decode()
    tokens = int(load_litellm().token_counter(model=_BUNDLED, text=sendable))
    return tokens + (sum(len(digits) - 1 for digits in re.findall(r"\d{2,3}", text)) if single_digits else 0)


def reasons(model: str) -> bool:
    """Whether a model reasons unasked, and so writes more than its reply; Anthropic's want to be asked."""
    if is_simulated(model) or "claude" in model:
        return False
    from judges.models.litellm_transport import load_litellm

    return bool(load_litellm().supports_reasoning(model=model))
