"""Cells of a table of labels as values. What is wrong with a cell is said without its place, which the caller adds."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from labeled_traces.label import DIMENSIONS, SCORES, Impact
from labeled_traces.names import did_you_mean
from labeled_traces.readers.spans.fields import seconds
from labeled_traces.trace import JSON, TraceError

NONE = "none"
"""Instead of a category or dimensions: the rater looked and found nothing."""
_MISSING = ("-", "n/a", "na", "nan", "null", "not applicable", "not_applicable")
"""What programs and people write into a cell that holds nothing."""
_EXACT = 2**53
_DAYS = (10_000, 100_000)
"""Times in this range are days, as spreadsheets count them."""
_CODES = {code.lower(): name for name, code in DIMENSIONS.items()}


def text(value: JSON) -> str:
    """A cell as text without outer white space; a whole number that a table holds as a float loses its `.0`.

    Raises:
        TraceError: a float that is too large to be exact, so that an id has lost digits.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        if abs(value) > _EXACT:
            raise TraceError(f"{value!r} is a number that lost digits: accepted is the id as text")
        return str(int(value))
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value).strip()


def named(value: JSON) -> str:
    """A text that names something; empty where the cell says that it holds nothing.

    Raises:
        TraceError: an object, or a list of several things.
    """
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list | dict):
        raise TraceError(f"is {type(value).__name__}: accepted is a text, in a row of its own for each label")
    given = text(value)
    return "" if given.casefold() in _MISSING else given


def identity(value: JSON) -> str:
    """The id of a trace or a span, or the number of a step. Raises: TraceError, what cannot be one."""
    if isinstance(value, bool):
        raise TraceError(f"is {value}: accepted is an id")
    return named(value)


def dimensions(value: JSON) -> tuple[str, ...] | None:
    """Names or short codes of dimensions, a list or a text with commas, semicolons or bars between them; None for none.

    Raises:
        TraceError: another name.
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            value = value.strip().strip("[]")
    parts: Sequence[JSON] = value if isinstance(value, list) else re.split(r"[,;|]", text(value))
    names = [name for name in (text(part).strip("'\" ") for part in parts) if name]
    if [name.casefold() for name in names] == [NONE]:
        return None
    found = []
    for part in names:
        name = re.sub(r"[\W_]+", "_", part.casefold()).strip("_")
        name = _CODES.get(name, name)
        if name not in DIMENSIONS:
            accepted = ", ".join(f"{known} ({code})" for known, code in DIMENSIONS.items())
            raise TraceError(f"{part!r} is unknown{did_you_mean(name, DIMENSIONS)}: accepted are {accepted}, or {NONE}")
        found.append(name)
    return tuple(dict.fromkeys(found))


def score(value: JSON) -> int | None:
    """0-3, None where the cell is empty. Raises: TraceError, anything else."""
    given = named(value)
    if given.casefold() in ("", NONE):
        return None
    number = _number(given)
    if number is None or number not in SCORES or isinstance(value, bool):
        raise TraceError(f"{given!r} is no score: accepted are 0 (an error of high impact), 1, 2 and 3 (no error)")
    return int(number)


def impact(value: JSON) -> Impact | None:
    """None where the cell is empty. Raises: TraceError."""
    given = named(value)
    return Impact.parse(given) if given else None


def step(given: str) -> int | None:
    """A cell that counts steps; None where it is no whole number."""
    return int(float(given)) if re.fullmatch(r"[+-]?[0-9]{1,9}(\.0+)?", given) else None


def time(value: JSON) -> float | None:
    """Seconds since the epoch, None where the cell is empty. Numbers may be seconds, milli-, micro- or nanoseconds, or
    eight digits of a date; a time without a zone is taken as UTC.

    Raises:
        TraceError: anything else.
    """
    given = named(value)
    if given.casefold() in ("", NONE):
        return None
    number = None if re.fullmatch("(19|20)[0-9]{6}", given) else _number(given)
    if number is not None and _DAYS[0] < number < _DAYS[1]:
        raise TraceError(f"{given!r} counts days, as spreadsheets do: accepted is ISO 8601 (2025-05-31T12:00:00Z)")
    found = seconds(given if number is None else number)
    if found is None:
        accepted = "accepted are ISO 8601 (2025-05-31T12:00:00Z) and seconds since the epoch, 0 or more"
        raise TraceError(f"{given!r} is no time: {accepted}")
    return found


def _number(given: str) -> float | None:
    try:
        return float(given)
    except ValueError:
        return None
