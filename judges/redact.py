"""Keeps keys out of messages, logs and the ledger."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from urllib.parse import urlsplit

from judges.lm import JudgeError

HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SECRET_FORM = re.compile(
    r"\b(?:(?:sk|pk|gsk|xai|nvapi)[-_][\w-]{8,}|hf_\w{8,}|gh[a-z]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[a-z]-[\w-]{10,}|AIza[\w-]{30,}|A[KS]IA[0-9A-Z]{16}\b|eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*)"
    r"|(?<=[Bb]earer )[\w.~+/=-]{8,}"
    # A value without a digit is a word of a message: "api_key: required".
    r"|(?P<name>(?i:api[-_ ]?key)[\"']?\s*[:=]\s*[\"']?)(?=[\w.~+/=-]*\d)[\w.~+/=-]{8,}"
)
_SCHEME = r"(?<![a-z0-9+.-])[a-z0-9+.-]+://"
# It may hold spaces and quotation marks.
_PASSWORD = r"[^\n]{0,200}?[^\s\"']+(?=@)"
_IN_PATH = r"/(?:api[-_]?|access[-_]?)?(?:key|token|secret|password|credential)/"
_PARAMETER = (
    r"(?P<name>(?:[?&;]|%3B|%3F|%26)[\w.-]*"
    r"(?:key|token|secret|passw(?:or)?d|passphrase|pass|pwd|auth|credentials?|signature|sig|odbc_connect)(?:=|%3D))"
)
_IN_TEXT = re.compile(
    # A port is no password, though an "@" may follow in the path.
    rf"(?P<web>https?://[^\s/@:\"']*:)(?!\d*(?:[/?#\s\"',;)]|$)){_PASSWORD}"
    rf"|(?P<user>(?!https?:){_SCHEME}[^\s/@:\"']*:){_PASSWORD}"
    rf"|(?P<alone>(?!postgres){_SCHEME})[^\s/@:\"']+(?=@)"
    rf"|(?P<path>https?://[^\s\"']*?{_IN_PATH})[^\s/\"']+"
    # A quotation mark that ends the URL stands before no letter.
    rf"|{_PARAMETER}(?:[^&\s\"']|[\"'](?=\w))+",
    re.IGNORECASE,
)
"""A password, or a name alone, before the host (a database's user is no secret); a parameter, or a part of the path,
after a name like a secret's."""
_IN_URI = re.compile(
    rf"\A(?P<user>{_SCHEME}[^/@:?#]*:).*(?=@)|\A(?P<alone>(?!postgres){_SCHEME})[^/]*(?=@)|{_PARAMETER}[^&]+",
    re.IGNORECASE | re.DOTALL,
)
"""The same of a text that is one URI: whatever stands there is the password."""
_SHORTEST = 8
"""A value of fewer characters is no key, and hiding it would spoil messages."""


def redact(text: str) -> str:
    """The text without the values of environment variables that are named like secrets, and without what looks like a
    key, or like a password in a URL."""
    return _hide(_SECRET_FORM, hide_in_urls(hide_values(text)))


def hide_in_urls(text: str) -> str:
    """The text without passwords in its URLs; all else is left as it is."""
    return _hide(_IN_TEXT, text)


def hide_in_uri(uri: str) -> str:
    """The URI, which is the whole text, without its password: for files, and for comparing with what stands there."""
    return _hide(_IN_URI, uri)


def _hide(secret: re.Pattern[str], text: str) -> str:
    """A named group, where there is one, is what stands before the secret, and stays."""
    return secret.sub(lambda found: f"{found[found.lastgroup] if found.lastgroup else ''}{HIDDEN}", text)


def hide_values(text: str) -> str:
    """The text without the values of environment variables that are named like secrets; all else is left as it is."""
    values = {os.environ.get(name, "").strip() for name in _secret_names(frozenset(os.environ))}
    for value in sorted(values, key=len, reverse=True):
        if len(value) >= _SHORTEST:
            text = text.replace(value, HIDDEN)
    return text


@lru_cache(maxsize=8)
def _secret_names(names: frozenset[str]) -> tuple[str, ...]:
    # Every reply of a model is looked through, and the names hardly ever change.
    return tuple(name for name in names if _SECRET_NAME.search(name))


def redact_url(url: str) -> str:
    """Scheme, host, port and path: no user name, password or query. Empty where there is no host."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    return redact(f"{parts.scheme}://{host}{parts.path}") if host else ""


def check_endpoint(endpoint: object) -> None:
    """
    Raises:
        JudgeError: not a base URL, or one that may hold a secret: endpoints are kept in programs, reports and ledgers.
    """
    if not isinstance(endpoint, str):
        raise JudgeError(f"endpoint is {endpoint!r}: accepted is a base URL, or an empty text")
    if endpoint and (not is_base_url(endpoint) or _holds_key(urlsplit(endpoint).path)):
        raise JudgeError(
            f"endpoint {redact_url(endpoint) or 'without a host'}: accepted is a base URL without user, "
            "password, key, parameters and query, such as http://127.0.0.1:8000/v1; keys come from the environment "
            "(OPENAI_API_KEY ...)"
        )


def is_base_url(url: str) -> bool:
    """Whether calls can be made below it, and it names no user, password or parameters."""
    try:
        parts = urlsplit(url)
        # A port above 65535 raises.
        host = bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return False
    return host and parts.scheme in ("http", "https") and not (parts.query or parts.fragment or ";" in parts.path)


def _holds_key(path: str) -> bool:
    forms = (found[0] for found in _SECRET_FORM.finditer(path))
    return bool(re.search(_IN_PATH + ".", path, re.IGNORECASE)) or any(re.search(r"\d", form) for form in forms)


def check_tracking_uri(uri: str) -> None:
    """
    Raises:
        JudgeError: no URI, which MLflow takes for a new store here; or user and password of a server, which MLflow
            takes from the environment. Those of a database have no other place than the URI: it is used as it is, and
            shown and stored without them (`hide_in_uri`).
    """
    if not uri.strip():
        raise JudgeError("the tracking URI is empty: accepted is that of a server or of a database")
    if re.match(r"https?://[^/?#]*@", uri, re.IGNORECASE):
        raise JudgeError(
            f"tracking URI {redact_url(uri)}: accepted is one without user and password; MLflow takes these from the "
            "environment (MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN)"
        )
