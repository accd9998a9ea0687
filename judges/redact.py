"""Keeps keys out of messages, logs and the ledger."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SECRET_FORM = re.compile(r"\b(?:sk|pk|gsk|xai|hf)[-_][\w-]{8,}|(?<=[Bb]earer )[\w.~+/=-]{8,}|(?<=[?&]key=)[^&\s\"']+")
_SHORTEST = 8
"""A value of fewer characters is no key, and hiding it would spoil messages."""


def redact(text: str) -> str:
    """The text without the values of environment variables that are named like secrets, and without what looks like a
    key."""
    values = {
        value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value.strip()) >= _SHORTEST
    }
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value.strip(), HIDDEN)
    return _SECRET_FORM.sub(HIDDEN, text)


def redact_url(url: str) -> str:
    """Scheme, host, port and path: no user name, password or query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return redact(f"{parts.scheme}://{host}{parts.path}") if host else ""
