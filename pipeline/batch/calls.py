"""A call as a line of a batch file: OpenAI's request form, with a custom id of our own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from judges.lm import JudgeError, LMRequest
from judges.models.connect import is_simulated
from judges.models.failure import Failure
from judges.models.form import Form
from judges.models.litellm_transport import load_litellm

URL = "/v1/chat/completions"
MARK = "gpa-"
_DIGITS = 40


def custom_id(request: LMRequest) -> str:
    """The same for equal requests alone (160 bits of their hash); the repeat stands behind it, for people. At most 64
    letters, digits, `-` and `_`, which is what OpenAI and Anthropic accept."""
    return f"{MARK}{request.key[:_DIGITS]}-{request.repeat}"


def provider_of(model: str, endpoint: str = "") -> tuple[str, str]:
    """The provider, and the model's name as that provider knows it."""
    if is_simulated(model):
        return "simulated", model
    name, provider, _, _ = load_litellm().get_llm_provider(model=model, api_base=endpoint or None)
    return str(provider), str(name)


class Lines:
    """Makes the lines. What a model is known not to take is left out, as our client does when it is refused."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, bool, bool], tuple[str, Form]] = {}

    def of(self, request: LMRequest) -> dict[str, Any]:
        """
        Raises:
            JudgeError: the model takes no request of this kind.
        """
        shape = (request.model, request.endpoint, request.schema is not None, request.seed is not None)
        if shape not in self._known:
            self._known[shape] = _form(request)
        name, form = self._known[shape]
        messages = [{"role": message.role, "content": _sendable(message.content)} for message in request.messages]
        body = {"model": name, "messages": messages, **form.arguments(request)}
        return {"custom_id": custom_id(request), "method": "POST", "url": URL, "body": body}


def _form(request: LMRequest) -> tuple[str, Form]:
    """The model's own name, and the form that LiteLLM lets through without a word from the provider."""
    provider, name = provider_of(request.model, request.endpoint)
    form: Form | None = Form()
    if provider == "simulated":
        return name, Form()
    load_litellm()
    from litellm.utils import get_optional_params

    while form is not None:
        try:
            taken = get_optional_params(
                model=name, custom_llm_provider=provider, messages=[], drop_params=False, **form.arguments(request)
            )
            renamed = form.token_name not in taken and "max_completion_tokens" in taken
            return name, replace(form, token_name="max_completion_tokens") if renamed else form
        # LiteLLM raises plain exceptions of many kinds; its message says which parameter it is.
        except Exception as error:
            failure = Failure.of(error, 0.0)
            form = form.after(failure, request)
    raise JudgeError(f"{request.model}: no form of request is accepted: {failure.message}")


def _sendable(text: str) -> str:
    """Surrogate halves cannot be sent as UTF-8: pairs become their character, lone ones U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
