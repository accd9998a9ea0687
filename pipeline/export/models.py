"""LiteLLM's names of models and parameters as those of MLflow's judges."""

from __future__ import annotations

from typing import Any

from judges.models.connect import is_simulated
from judges.program import Knobs
from pipeline.config import PipelineError

_GATEWAY = "/gateway/mlflow/v1"
"""How the base URL of an MLflow AI Gateway ends, as OpenAI's protocol reaches it."""
_SENT_AS_THEY_ARE = ("openai", "azure")
"""Providers to which MLflow sends parameters under the names that it is given; for others it translates them."""


def mlflow_model(knobs: Knobs) -> str:
    """`openai/gpt-5` is `openai:/gpt-5`; an endpoint of an MLflow AI Gateway is `gateway:/<endpoint>`.

    Raises:
        PipelineError: the name says no provider that LiteLLM knows, so it cannot be said to MLflow either.
    """
    provider, _, name = knobs.model.partition("/")
    if name and provider == "openai" and knobs.endpoint.rstrip("/").endswith(_GATEWAY):
        return f"gateway:/{name}"
    if not name or not (is_simulated(knobs.model) or provider in _providers()):
        raise PipelineError(
            f"MLflow has no name for the model {knobs.model}: accepted is provider/model, such as openai/gpt-5 or "
            "hosted_vllm/my-model, with a provider that LiteLLM knows"
        )
    return f"{provider}:/{name}"


def inference_params(knobs: Knobs) -> dict[str, Any]:
    """The parameters that a judge's call sends, named as LiteLLM names them for this model."""
    provider, _, name = knobs.model.partition("/")
    wanted = {"temperature": knobs.temperature, "max_tokens": knobs.max_tokens}
    if provider not in _SENT_AS_THEY_ARE:
        return wanted
    from litellm.utils import get_optional_params

    # Newer models of OpenAI take other names, and no temperature: LiteLLM knows which.
    sent = get_optional_params(model=name, custom_llm_provider=provider, drop_params=True, **wanted)
    return {key: sent[key] for key in ("temperature", "max_tokens", "max_completion_tokens") if key in sent}


def _providers() -> set[str]:
    from judges.models.litellm_transport import load_litellm

    return {str(getattr(provider, "value", provider)) for provider in load_litellm().provider_list}
