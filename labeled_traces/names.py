"""What is wrong with a name, and which one may be meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, accepted: Iterable[str], cutoff: float = 0.6) -> str:
    """A hint for an error message, empty where no accepted name is as close as `cutoff`, of 1."""
    close = difflib.get_close_matches(name, accepted, n=1, cutoff=cutoff)
    return f" (did you mean `{close[0]}`?)" if close else ""


def unknown(name: str, accepted: Iterable[str]) -> str:
    """What is wrong with a name, and what would be accepted."""
    names = list(accepted)
    return f"{name!r} is unknown{did_you_mean(name, names)}: accepted are {', '.join(names)}"
