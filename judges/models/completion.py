"""Reads a chat completion in OpenAI's shape. Endpoints keep to it more or less: what is not there is not guessed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from judges.lm import LMReply
from judges.models.failure import Failure, is_page
from judges.models.transport import ProviderError
from judges.redact import hide_values, redact

_TOO_MANY = 10**9
"""Tokens of one call: no model reads or writes so many."""


_SHOWN = 200
"""Characters of a reply that cannot be read."""


def read_completion(body: Any) -> LMReply | Failure:
    """The reply, without its cost; or why there is none. Wrong shapes may pass: a gateway in trouble sends them."""
    if not isinstance(body, Mapping):
        said = redact(" ".join(body.split()))[:_SHOWN] if isinstance(body, str) else ""
        wrong = _wrong(f"the reply is {_kind(body)}, not an object{said and f': {said}'}")
        return replace(wrong, billed=not is_page(body))
    choices = body.get("choices")
    if body.get("error") and not choices:
        return _own_error(body["error"])
    if not isinstance(choices, list) or not choices:
        return _wrong("the reply holds no choices")
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        return _wrong("the reply's choice holds no message")
    text = _joined(message.get("content")) or message.get("refusal") or ""
    if not isinstance(text, str):
        return _wrong(f"the reply's content is {_kind(text)}, not a text")
    reason = choice.get("finish_reason")
    # Some servers show what they were sent: a key must not get from there into files.
    return _counted(LMReply(hide_values(text), reason if isinstance(reason, str) and reason else "stop"), body)


def _joined(content: Any) -> Any:
    """A text that comes in parts, without what the model thought; anything else as it is."""
    if not isinstance(content, list) or not all(isinstance(part, Mapping) for part in content):
        return content
    texts = [part.get("text") for part in content if part.get("type") == "text"]
    return "".join(texts) if texts and all(isinstance(text, str) for text in texts) else content


def _counted(reply: LMReply, body: Mapping[str, Any]) -> LMReply:
    usage = usage_of(body)
    prompt, completion = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    cached = count(part(usage, "prompt_tokens_details").get("cached_tokens"))
    reasoning = count(part(usage, "completion_tokens_details").get("reasoning_tokens"))
    return replace(
        reply,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached if cached <= prompt else 0,
        reasoning_tokens=reasoning if reasoning <= completion else 0,
    )


def usage_of(body: Any) -> Mapping[str, Any]:
    """What the endpoint says that the call took."""
    return part(body, "usage")


def part(values: Any, name: str) -> Mapping[str, Any]:
    """The object of this name; an empty one where there is none."""
    found = values.get(name) if isinstance(values, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def count(tokens: Any) -> int:
    """What a provider counted; 0 where that is missing or cannot be true."""
    if isinstance(tokens, float) and tokens.is_integer():
        tokens = int(tokens)
    return tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 < tokens < _TOO_MANY else 0


def _own_error(error: Any) -> Failure:
    """An error that calls itself a success: a gateway's. What stood behind it may have worked, so it may be billed."""
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 502
    said = error.get("message") if isinstance(error, Mapping) else None
    message = said if isinstance(said, str) and said else json.dumps(error)
    return replace(Failure.of(ProviderError(status, message, error, {}), 0.0), billed=True)


def _wrong(message: str) -> Failure:
    return Failure("provider_error", message, retry=True)


def _kind(value: Any) -> str:
    names = {list: "a list", dict: "an object", str: "a text", type(None): "null"}
    return names.get(type(value), "a number")
