"""The form in which an endpoint takes a request: which kind of reply format, and which parameters it refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from judges.lm import LMRequest
from judges.models.failure import Failure

FORMATS = ("json_schema", "json_object", "text")
"""From the strictest to the one that every endpoint takes. What is asked for in words is the same in all three."""
DROPPABLE = ("temperature", "seed")
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
        """LiteLLM's arguments."""
        values: dict[str, Any] = {"temperature": request.temperature, self.token_name: request.max_tokens}
        if request.seed is not None:
            values["seed"] = request.seed
        if request.schema is not None and self.format == "json_schema":
            schema = {"name": request.schema.get("title", "reply"), "schema": dict(request.schema), "strict": True}
            values["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif request.schema is not None and self.format == "json_object":
            values["response_format"] = {"type": "json_object"}
        return {name: value for name, value in values.items() if name not in self.dropped}

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


def _names(message: str, parameter: str) -> bool:
    return bool(re.search(rf"(?<![\w-]){parameter}(?![\w-])", message))
