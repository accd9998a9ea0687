"""JSON as the standard library reads and writes it, several times as fast where orjson does the same."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress

import orjson

from labeled_traces.trace import JSON

_STEP = 4
_LONG = 20
_DIGITS = bytes(48 if 48 <= byte <= 57 else 32 for byte in range(256))
_LONG_NUMBER = re.compile(rb"(?:\A|[\s,:\[])(?:[0-9]{20}|-[0-9]{19})")
_PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def loads(text: str) -> JSON:
    """As `json.loads`, to the last digit, NaN and lone surrogates included.

    Raises:
        ValueError: no JSON.
        RecursionError: nested too deeply.
    """
    if len(text) < _LONG or not _has_long_number(text.encode("utf-8", "surrogatepass")):
        with suppress(orjson.JSONDecodeError):
            return orjson.loads(text)
    return json.loads(text)


def dumps(value: JSON) -> bytes:
    """One line of UTF-8. What is no valid text (a lone surrogate) is escaped.

    Raises:
        TypeError, ValueError: a value that JSON does not have (NaN, a set ...).
    """
    if _is_finite(value):
        with suppress(orjson.JSONEncodeError):  # beyond 64 bits, a lone surrogate, deep, or none of JSON's values
            return orjson.dumps(value, option=_PLAIN)
    return json.dumps(value, allow_nan=False).encode()


def _has_long_number(raw: bytes) -> bool:
    """Whether there may be a whole number beyond 64 bits, which orjson rounds: 20 digits, or 19 behind a minus, not
    right behind a quote.

    Of so many digits in a row every fourth byte is one, at least four times: that is soon seen.
    """
    sample = raw[::_STEP].translate(_DIGITS) + b" "
    at = sample.find(b"0000")
    while at >= 0:
        end = sample.index(b" ", at)
        if _LONG_NUMBER.search(raw, max(0, _STEP * at - 5), _STEP * end + 20):
            return True
        at = sample.find(b"0000", end)
    return False


def _is_finite(value: JSON) -> bool:
    """orjson writes null for NaN and infinities."""
    found = [value]
    for item in found:
        kind = type(item)
        if kind is str:
            continue
        if kind is dict:
            found += item.values()
        elif kind is list or kind is tuple:
            found += item
        elif kind is float and not math.isfinite(item):
            return False
    return True
