"""A call as a line of a batch file: OpenAI's request form, with a custom id of our own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from judges.lm import JudgeError, LMRequest
from judges.models.completion import count, part
from judges.models.connect import is_simulated
from judges.models.failure import Failure
from judges.models.form import Form, known_form
from judges.models.litellm_transport import load_litellm, wants_marks
from judges.models.transport import messages_of

URL: Final = "/v1/chat/completions"
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


@dataclass(frozen=True)
class Asked:
    """What a line asks: `texts` of its messages, the JSON Schema of its reply (None: any), and its longest reply."""

    texts: list[str]
    schema: Any
    tokens: int

    @classmethod
    def of(cls, row: Any) -> Asked | None:
        """None: the row is no line that `Lines` made."""
        if not isinstance(row, dict) or not str(row.get("custom_id", "")).startswith(MARK):
            return None
        body = part(row, "body")
        schema = part(part(body, "response_format"), "json_schema").get("schema")
        tokens = count(body.get("max_completion_tokens")) or count(body.get("max_tokens"))
        try:
            texts = [_text(message["content"]) for message in body["messages"]]
        except (TypeError, KeyError):
            return None
        return cls(texts, schema, tokens) if texts and tokens else None


def _text(content: Any) -> str:
    """Prompts that are marked for a cache stand in parts."""
    return "".join([content] if isinstance(content, str) else [one["text"] for one in content])


class Lines:
    """Makes the lines. What a model is known not to take is left out, as our client does when it is refused."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, bool, bool], tuple[str, Form]] = {}

    def of(self, request: LMRequest) -> dict[str, Any]:
        """
        Raises:
            JudgeError: the model takes no request of this kind.
        """
        name, form = self._form(request)
        body = {
            "model": name,
            "messages": messages_of(request, marked=wants_marks(request.model)),
            **form.arguments(request),
        }
        return {"custom_id": custom_id(request), "method": "POST", "url": URL, "body": body}

    def sent(self, request: LMRequest) -> str:
        """What is sent beside the messages, as `LMReply.sent` has it."""
        name, form = self._form(request)
        return form.sent(request, name)

    def _form(self, request: LMRequest) -> tuple[str, Form]:
        shape = (request.model, request.endpoint, request.schema is not None, request.seed is not None)
        if shape not in self._known:
            self._known[shape] = _form(request)
        return self._known[shape]


def _form(request: LMRequest) -> tuple[str, Form]:
    """The model's own name, and the form that LiteLLM lets through without a word from the provider."""
    provider, name = provider_of(request.model, request.endpoint)
    if provider == "simulated":
        return name, Form()
    form: Form | None = known_form(request.model)
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
