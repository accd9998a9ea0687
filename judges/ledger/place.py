"""Where a ledger is: a file, or a PostgreSQL database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

from judges.lm import JudgeError
from judges.redact import hide_in_uri

Place: TypeAlias = Path | str
"""A path, or the URL of a database, which holds no password."""

ACCEPTED = "accepted is a path, or postgresql://USER@HOST/DATABASE"


def check_folder(place: Place) -> None:
    """For a place that a user has named: a slip in it would begin a new ledger, and pay for everything anew.

    Raises:
        JudgeError: the folder of the file does not exist.
    """
    if isinstance(place, Path) and not place.parent.is_dir():
        raise JudgeError(f"ledger {place}: there is no folder {place.parent}: accepted is a file in one that exists")


def place_of(place: Path | str) -> Place:
    """
    Raises:
        JudgeError: a URL of something else, or one with a password: it would stand in messages, reports and files; or
            a path at which no file can be.
    """
    if "://" not in str(place):
        return _file(place)
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


def _file(place: Path | str) -> Path:
    if not str(place).strip():
        raise JudgeError(f"the ledger's place is empty: {ACCEPTED}")
    path = Path(place)
    if os.path.isdir(path) or path.name in ("", ".."):
        raise JudgeError(f"ledger {path} is a folder: accepted is the path of a file in it, such as ledger.sqlite")
    if os.path.exists(path) and not os.path.isfile(path):
        raise JudgeError(f"ledger {path} is a device or a pipe: accepted is the path of a file")
    return path
