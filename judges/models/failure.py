"""What a failed attempt of a call means: which kind of `LMError`, whether to try again, and in which form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from judges.redact import redact

TOO_LONG = re.compile(
    r"context[ _](length|window|size)|exceed_context|(prompt|input|string|request) is too (long|large)|string too long"
    r"|too many (input )?tokens|reduce the length|maximum prompt length|payload too large",
    re.IGNORECASE,
)
_REFUSED = re.compile(r"content[ _](filter|policy|management policy)|responsible ai", re.IGNORECASE)
_HOPELESS = re.compile(
    r"insufficient_quota|exceeded your current quota|missing credentials|api_key|certificate verify failed",
    re.IGNORECASE,
)
_PREFIX = re.compile(r"^(?:litellm\.)?(?:[A-Za-z]+(?:Error|Timeout): |[A-Za-z]+Exception - |litellm\.)*")
_LONGEST = 600
_MAY_HAVE_WORKED = frozenset({408, 499, 502, 504, 524})
"""Statuses of a gateway or a clock that gave up: the model behind may have worked, and is billed then. A request that
is answered with any other error is not: Google says so of 4xx and 5xx, and others do the same."""
_OWN = frozenset({400, 401, 402, 403, 404, 405, 413, 415, 429, 501, 503, 529})
"""Where no answer stands behind it, what LiteLLM itself found wrong before it sent anything. Its 500 and 422 may be a
lost connection, or a reply with status 200 that it cannot read."""
_PAGE = re.compile(r"\bReceived: ['\"]\s*<")
"""So LiteLLM shows a reply that it cannot read."""
_ANSWERED = {"HTTPStatusError", "ProviderError"}
_LOST = {"ConnectionError", "APIConnectionError", "ClientConnectionError", "ClientPayloadError", "ClientResponseError"}
"""A connection that broke, or whose other side does not speak HTTP."""
_NO_CONNECTION = {"ConnectionRefusedError", "gaierror", "ConnectError", "ClientConnectorError"}
UNREACHED = "nothing answers"
"""The message of a refused connection."""
_NO_REQUEST = {"JudgeError", "InvalidURL"}
"""There was nothing that could be sent."""


@dataclass(frozen=True)
class Failure:
    """`kind` as in `LMError`; `refused`: the provider will not answer this prompt, which is an answer.

    `billed`: the call may be on the bill. It is not where it did not reach the provider, or was answered with an HTTP
    error, a gateway's own apart (`_MAY_HAVE_WORKED`), or with a web page; a time-out, a lost connection and a reply
    that cannot be read may be.

    `rejected`: the endpoint did not accept the form of the request, so another form may do. `wait` is in seconds, where
    the provider says how long. `message` holds no secrets. `status` is HTTP's, where there was an answer.
    """

    kind: str
    message: str
    retry: bool = False
    rejected: bool = False
    refused: bool = False
    wait: float | None = None
    billed: bool = True
    status: int | None = None

    @classmethod
    def of(cls, error: Exception, timeout: float) -> Failure:
        """Reads an exception of a transport. LiteLLM's share names and a `status_code`, but few meanings, across
        providers; `ProviderError` has the same shape."""
        status = getattr(error, "status_code", None)
        return replace(cls._of(error, timeout, status), status=status if isinstance(status, int) else None)

    @classmethod
    def _of(cls, error: Exception, timeout: float, status: Any) -> Failure:
        names = {base.__name__ for base in type(error).__mro__}
        text = _text(error)
        marks = f"{text} {_fields(error)}"
        # Some servers answer 500 to a reply schema.
        rejected = status in (400, 405, 415, 422, 500, 501)
        billed = _may_be_billed(error, status)
        if isinstance(error, TimeoutError) or status == 408:
            return cls("timeout", f"no reply within {timeout:g} s")
        too_long = status == 413 or (status in (400, 422) and TOO_LONG.search(marks))
        if too_long or "ContextWindowExceededError" in names:
            # A refused reply schema may be called "too long" as well.
            return cls("too_long", text, rejected=rejected and _names_schema(text), billed=billed)
        if "ContentPolicyViolationError" in names or (rejected and _REFUSED.search(marks)):
            return cls("provider_error", text, refused=True)
        hopeless = bool(_HOPELESS.search(marks))
        retry = not hopeless and (
            bool(names & _LOST) or status == 429 or (isinstance(status, int) and 500 <= status != 501)
        )
        return cls(
            "provider_error", text, retry=retry, rejected=rejected and not hopeless, wait=_wait(error), billed=billed
        )


def is_page(text: object) -> bool:
    """HTML or XML where JSON should be: it comes from a proxy or a web server, and from no model."""
    return isinstance(text, str) and text.lstrip("\ufeff \t\r\n").startswith("<")


def _may_be_billed(error: BaseException, status: int | None) -> bool:
    """LiteLLM calls a lost or refused connection an error 500 of the server; the reason stands behind it."""
    behind: BaseException | None = error
    while behind is not None:
        names = {base.__name__ for base in type(behind).__mro__}
        if names & (_NO_CONNECTION | _NO_REQUEST) or is_page(getattr(behind, "doc", None)) or _PAGE.search(str(behind)):
            return False
        if names & _ANSWERED:
            answered = getattr(behind, "status_code", None) or behind.response.status_code  # type: ignore[attr-defined]
            return answered in _MAY_HAVE_WORKED
        behind = behind.__cause__ or behind.__context__
    return status not in _OWN


def _names_schema(text: str) -> bool:
    return bool(re.search(r"response_format|json_schema|schema", text))


def _refused(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ConnectionRefusedError) or isinstance(
            getattr(error, "os_error", None), ConnectionRefusedError
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def _text(error: Exception) -> str:
    if _refused(error):
        return UNREACHED
    # aiohttp's word for the usual certificates, in plain HTTP too.
    text = _PREFIX.sub("", str(error)).replace(" ssl:default", "") or type(error).__name__
    body = getattr(error, "body", None)
    if body and (not isinstance(body, Mapping) or str(body.get("message", "\0")) not in text):
        text = f"{text}: {body if isinstance(body, str) else json.dumps(body, default=str)}"
    # Redacted before it is cut: half a key is a key that is not recognised.
    text = redact(" ".join(text.split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _fields(error: Exception) -> str:
    """What the provider calls the error, beside its message."""
    body = getattr(error, "body", None)
    return f"{body.get('type')} {body.get('code')}" if isinstance(body, Mapping) else ""


def _wait(error: Exception) -> float | None:
    """The seconds of a Retry-After header, which holds seconds or a date."""
    headers: Any = getattr(getattr(error, "response", error), "headers", None) or {}
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if (seconds := _number(value)) is not None:
        return seconds
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\s*\d+(\.\d+)?\s*", text) else None
