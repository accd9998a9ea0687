"""Fields of exported spans that are spelled in many ways: times, durations, states, kinds, texts."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from labeled_traces.trace import JSON, SpanKind

_NANOSECONDS = 19
"""Digits of nanoseconds since the epoch, until 2286."""
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")


def seconds(value: JSON) -> float | None:
    """Seconds since the epoch out of ISO 8601 text, a number of s / ms / us / ns, or a pair of s and ns; None if it is
    none of these.

    Times without a zone are taken as UTC.
    """
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, int) for part in value):
        whole = seconds(value[0])
        return None if whole is None else whole + value[1] / 1e9
    if isinstance(value, str) and len(value) == _NANOSECONDS and value.isdecimal():
        value = float(value)
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(_six_digits(value.strip()))
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            if not re.fullmatch(r"\s*\d{1,25}(\.\d+)?\s*", value):
                return None
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e20:
        return None
    for unit in (1e9, 1e6, 1e3):  # a count of ns, us or ms since the epoch is at least this much past 1973
        if value >= 1e8 * unit:
            return value / unit
    return float(value)


def duration(value: JSON) -> float | None:
    """Seconds out of an ISO 8601 duration (`PT0.125S`), or a number of us (OpenTelemetry's JavaScript console); None if
    it is neither."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1e18:
        return value / 1e6
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not any(match.groups()):
        return None
    days, hours, minutes, rest = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def span_kind(value: JSON) -> SpanKind:
    """An OpenInference kind in any case; UNKNOWN for anything else (OpenTelemetry's `Internal` ...)."""
    name = value.strip().upper() if isinstance(value, str) else ""
    return SpanKind(name) if name in SpanKind.__members__ else SpanKind.UNKNOWN


def status(value: JSON) -> str:
    """`OK`, `ERROR` or `UNSET` out of OpenTelemetry's spellings (`Error`, `STATUS_CODE_ERROR`, `StatusCode.OK`, 2)."""
    if isinstance(value, int):
        return {1: "OK", 2: "ERROR"}.get(value, "UNSET")
    name = value.strip().upper() if isinstance(value, str) else ""
    return next((known for known in ("ERROR", "OK") if name.endswith(known)), "UNSET")


def _six_digits(text: str) -> str:
    """Nanoseconds cut to what `datetime` reads."""
    return re.sub(r"(\.\d{6})\d+", r"\1", text)
