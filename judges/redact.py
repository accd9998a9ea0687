"""Keeps keys out of messages, logs and the ledger."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from judges.lm import JudgeError

HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SECRET_FORM = re.compile(r"\b(?:sk|pk|gsk|xai|hf)[-_][\w-]{8,}|(?<=[Bb]earer )[\w.~+/=-]{8,}")
_IN_URL = re.compile(
    # A port is no password, though an "@" may follow in the path.
    r"(?P<user>[a-z][a-z0-9+.-]*://[^\s/@:\"']*:)(?!\d+[/?#])[^\s\"']+(?=@)"
    r"|(?P<alone>[a-z][a-z0-9+.-]*://)[^\s/@:\"']+(?=@)"
    r"|(?P<name>[?&][\w-]*(?:key|token|secret|password|signature|sig)=)[^&\s\"']+",
    re.IGNORECASE,
)
"""A password, or a name alone, before the host; and a parameter that is named like a secret."""
_SHORTEST = 8
"""A value of fewer characters is no key, and hiding it would spoil messages."""


def redact(text: str) -> str:
    """The text without the values of environment variables that are named like secrets, and without what looks like a
    key, or like a password in a URL."""
    return _SECRET_FORM.sub(HIDDEN, hide_in_urls(hide_values(text)))


def hide_in_urls(text: str) -> str:
    """The text without passwords in its URLs; all else is left as it is."""
    return _IN_URL.sub(lambda found: f"{found[found.lastgroup or 0]}{HIDDEN}", text)


def hide_values(text: str) -> str:
    """The text without the values of environment variables that are named like secrets; all else is left as it is."""
    values = {
        value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value.strip()) >= _SHORTEST
    }
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value.strip(), HIDDEN)
    return text


def redact_url(url: str) -> str:
    """Scheme, host, port and path: no user name, password or query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return redact(f"{parts.scheme}://{host}{parts.path}") if host else ""


def check_endpoint(endpoint: object) -> None:
    """
    Raises:
        JudgeError: not a base URL, or one that may hold a secret: endpoints are kept in programs, reports and ledgers.
    """
    if not isinstance(endpoint, str):
        raise JudgeError(f"endpoint is {endpoint!r}: accepted is a base URL, or an empty text")
    try:
        parts = urlsplit(endpoint)
        accepted = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        parts, accepted = urlsplit(""), False
    if endpoint and (not accepted or parts.query or parts.fragment):
        raise JudgeError(
            f"endpoint {redact_url(parts.geturl()) or 'without a host'}: accepted is a base URL without user, password "
            "and query, such as http://127.0.0.1:8000/v1; keys come from the environment (OPENAI_API_KEY ...)"
        )


def check_tracking_uri(uri: str) -> None:
    """
    Raises:
        JudgeError: user and password of a server, which MLflow takes from the environment. Those of a database have no
            other place than the URI: it is used as it is, and shown and stored without them (`hide_in_urls`).
    """
    if re.match(r"https?://[^/?#]*@", uri, re.IGNORECASE):
        raise JudgeError(
            f"tracking URI {redact_url(uri)}: accepted is one without user and password; MLflow takes these from the "
            "environment (MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN)"
        )
