"""The broad way to a model: LiteLLM reaches every provider."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from judges.lm import LMRequest
from judges.models.transport import Answer, messages_of

if TYPE_CHECKING:
    import aiohttp

_A_DAY = 86_400


class LiteLLMTransport:
    """A Transport. Keys come from the environment, as LiteLLM reads them. About 3 ms of CPU a call."""

    prefix = ""
    finds_proxies = False

    def takes(self, request: LMRequest) -> bool:  # noqa: ARG002
        """See `Transport.takes`: what no model has, LiteLLM explains."""
        return True

    def marks(self, model: str) -> bool:
        """See `Transport.marks`."""
        return wants_marks(model)

    async def send(self, request: LMRequest, arguments: Mapping[str, Any], session: aiohttp.ClientSession) -> Answer:
        """See `Transport.send`."""
        response = await load_litellm().acompletion(
            model=request.model,
            messages=messages_of(request, marked=self.marks(request.model)),
            api_base=request.endpoint or None,
            api_key=_stand_in_key(request),
            # The caller's clock holds for the whole attempt.
            timeout=_A_DAY,
            max_retries=0,
            num_retries=0,
            drop_params=False,
            shared_session=session,
            **arguments,
        )
        headers = {
            str(name).removeprefix("llm_provider-"): str(value)
            for name, value in (response._hidden_params.get("additional_headers") or {}).items()
        }
        return Answer(response.model_dump(), headers)


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


def wants_marks(model: str) -> bool:
    """Whether a prompt is cached only where it is marked, and LiteLLM passes the mark on: models of Anthropic."""
    return model.startswith(("anthropic/", "claude")) or (
        "claude" in model and model.startswith(("bedrock/", "vertex_ai/", "openrouter/"))
    )


def _stand_in_key(request: LMRequest) -> str | None:
    """Local servers want no key, but the client of OpenAI's protocol does. None: LiteLLM reads the environment."""
    local = request.endpoint and request.model.startswith("openai/") and not os.environ.get("OPENAI_API_KEY")
    return "none" if local else None
