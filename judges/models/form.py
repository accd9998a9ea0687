"""The form in which an endpoint takes a request: which kind of reply format, and which parameters it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from judges.lm import LMRequest
from judges.models.failure import Failure
from judges.models.litellm_transport import load_litellm
from labeled_traces.trace import text_hash

FORMATS = ("json_schema", "json_object", "text")
"""From the strictest to the one that every endpoint takes. What is asked for in words is the same in all three."""
DROPPABLE = ("temperature", "seed")
_OPENAI = "openai/"
_ODD = re.compile(
    r"unsupported|not support|n't support|unknown|unrecognized|unexpected|not permitted|not allowed|deprecated|invalid"
    r"|only the default",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Form:
    """What is sent of a request. `token_name` is the endpoint's word for the limit of the reply."""

    format: str = FORMATS[0]
    dropped: tuple[str, ...] = ()
    token_name: str = "max_tokens"

    def arguments(self, request: LMRequest) -> dict[str, Any]:
        """The parameters beside model and messages, as OpenAI's protocol has them."""
        values: dict[str, Any] = {"temperature": request.temperature, self.token_name: request.max_tokens}
        if request.seed is not None:
            values["seed"] = request.seed
        if request.schema is not None and self.format == "json_schema":
            schema = {"name": request.schema.get("title", "reply"), "schema": dict(request.schema), "strict": True}
            values["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.schema is not None and self.format == "json_object":
            values["response_format"] = {"type": "json_object"}
        return {name: value for name, value in values.items() if name not in self.dropped}

    def sent(self, request: LMRequest, model: str, marked: bool = False) -> str:
        """What is sent beside the messages, as JSON: the model's name there, a reply schema by its hash, and where
        messages are `marked` for a cache, the number of characters before each mark."""
        values = {"model": model, **self.arguments(request)}
        if marked and (marks := [message.shared for message in request.messages if message.shared]):
            values["cache_marks"] = marks
        if isinstance(schema := values.get("response_format", {}).get("json_schema"), dict):
            digest = text_hash(json.dumps(schema["schema"], sort_keys=True))
            values["response_format"] = {"type": "json_schema", "name": schema["name"], "schema_sha256": digest}
        return json.dumps(values)

    def after(self, failure: Failure, request: LMRequest) -> Form | None:
        """The form to try next, None where none is left. Each is plainer than the last, so this ends."""
        if failure.rejected and _ODD.search(failure.message):
            sent = self.arguments(request)
            for name in DROPPABLE:
                if name in sent and _names(failure.message, name):
                    return replace(self, dropped=(*self.dropped, name))
            if self.token_name in sent and "max_completion_tokens" in failure.message:
                other = "max_completion_tokens" if self.token_name == "max_tokens" else None
                if other:
                    return replace(self, token_name=other)
        if request.schema is None or self.format == FORMATS[-1]:
            return None
        return replace(self, format=FORMATS[FORMATS.index(self.format) + 1])

    def changes(self) -> list[str]:
        """What differs from the request as it was asked, for people."""
        notes = [f"takes no {name}: it is left out" for name in self.dropped]
        if self.format != FORMATS[0]:
            notes.append(f"takes no reply format above {self.format}: replies are not bound to the schema")
        return notes


@cache
def known_form(model: str) -> Form:
    """The form that LiteLLM's table knows a model of OpenAI's to take; any other model is asked as it stands."""
    if not model.startswith(_OPENAI):
        return Form()
    given = {"temperature": 0.5, "max_tokens": 1, "seed": 1}
    name = model.removeprefix(_OPENAI)
    try:
        taken = load_litellm().utils.get_optional_params(
            model=name, custom_llm_provider="openai", drop_params=True, **given
        )
    # What cannot be known beforehand, the endpoint tells.
    except Exception:
        return Form()
    token_name = "max_completion_tokens" if "max_completion_tokens" in taken else "max_tokens"
    return Form(dropped=tuple(name for name in DROPPABLE if name not in taken), token_name=token_name)


def _names(message: str, parameter: str) -> bool:
    return bool(re.search(rf"(?<![\w-]){parameter}(?![\w-])", message))
