"""Where a ledger is: a file, or a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

from judges.lm import JudgeError
from judges.redact import hide_in_uri

Place: TypeAlias = Path | str
"""A path, or the URL of a database, which holds no password."""

ACCEPTED = "accepted is a path, or postgresql://USER@HOST/DATABASE"


def place_of(place: Path | str) -> Place:
    """
    Raises:
        JudgeError: a URL of something else, or one with a password: it would stand in messages, reports and files.
    """
    if "://" not in str(place):
        return Path(place)
    url = str(place)
    shown = hide_in_uri(url)
    try:
        parts = urlsplit(url)
        names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        password = parts.password is not None or any("password" in name for name in names)
    except ValueError:
        raise JudgeError(f"ledger {shown}: {ACCEPTED}") from None
    if parts.scheme not in ("postgresql", "postgres") or not parts.path.strip("/"):
        raise JudgeError(f"ledger {shown}: {ACCEPTED}")
    if password:
        raise JudgeError(
            f"ledger {shown} holds a password, which would stand in files and messages: accepted is the URL without "
            "it; the password comes from PGPASSWORD, ~/.pgpass or a service file"
        )
    return url
