"""Opens the batch API of a model's provider."""

from __future__ import annotations

import os
from pathlib import Path

from judges.lm import JudgeError
from judges.redact import check_endpoint
from pipeline.batch.providers import Provider

PROVIDERS = ("openai", "anthropic", "simulated")
"""Whose batch APIs are known here."""


def open_provider(name: str, endpoint: str, path: Path) -> Provider:
    """
    Raises:
        JudgeError: the provider has no batch API that is known here, or its key is missing.
    """
    check_endpoint(endpoint)
    if name not in PROVIDERS:
        raise JudgeError(
            f"batches of {name} cannot be submitted from here: accepted are models of {', '.join(PROVIDERS)}. The "
            "file is in OpenAI's form, so another program may send it; `batch import` reads its replies"
        )
    if name == "simulated":
        from pipeline.batch.simulated import Simulated

        return Simulated(path)
    if name == "openai":
        from pipeline.batch.openai_batches import OpenAIBatches

        return OpenAIBatches(endpoint, _key("OPENAI_API_KEY", endpoint))
    from pipeline.batch.anthropic_batches import AnthropicBatches

    return AnthropicBatches(endpoint, _key("ANTHROPIC_API_KEY", endpoint))


def _key(name: str, endpoint: str) -> str:
    """Local servers want no key."""
    key = os.environ.get(name) or ("none" if endpoint else "")
    if not key:
        raise JudgeError(f"no key: accepted is {name} in the environment")
    return key
