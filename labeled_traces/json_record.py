"""Spans and labels as JSON records, read strictly: the message of a TraceError names place and field."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.trace import JSON, Span, SpanKind, TraceError

T = TypeVar("T")
_TIME = float | int | None
_OPTIONAL = {"parent_id": str | None, "start": _TIME, "end": _TIME, "error": str | None}


_DEFAULTS: dict[type, dict[str, JSON]] = {
    kind: {**{one.name: one.default for one in fields(kind)}, "attributes": {}}
    for kind in (Span, ErrorLabel, ScoreLabel)
}


def filled(item: Span | ErrorLabel | ScoreLabel, **as_json: JSON) -> dict[str, JSON]:
    """The fields that do not hold their default; `as_json` replaces what JSON cannot hold."""
    default = _DEFAULTS[type(item)]
    return {name: value for name, value in {**vars(item), **as_json}.items() if value != default[name]}


def get(record: JSON, key: str, kind: type[T], where: str, default: T | None = None) -> T:
    """The value of a key, of the accepted type."""
    if not isinstance(record, dict):
        raise TraceError(f"{where}: is {type(record).__name__}: accepted is a JSON object")
    value = record.get(key, default)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        given = "missing" if key not in record else type(value).__name__
        raise TraceError(f"{where}, {key}: is {given}: accepted is {kind.__name__}")
    return value


def span_from(record: JSON, where: str) -> Span:
    kind = get(record, "kind", str, where, "UNKNOWN")
    if kind not in SpanKind.__members__:
        raise TraceError(f"{where}, kind: is {kind!r}: accepted are {', '.join(SpanKind)}")
    for key, accepted in _OPTIONAL.items():
        if not isinstance(record.get(key), accepted):
            raise TraceError(f"{where}, {key}: is {type(record[key]).__name__}: accepted is {accepted}")
    return Span(
        span_id=get(record, "span_id", str, where),
        parent_id=record.get("parent_id"),
        name=get(record, "name", str, where, ""),
        kind=SpanKind(kind),
        start=record.get("start"),
        end=record.get("end"),
        inputs=record.get("inputs"),
        outputs=record.get("outputs"),
        status=get(record, "status", str, where, "UNSET"),
        error=record.get("error"),
        attributes=get(record, "attributes", dict, where, {}),
    )


def error_from(record: JSON, where: str) -> ErrorLabel:
    dimensions = get(record, "dimensions", list, where)
    span_id = get(record, "span_id", str, where) if record.get("span_id") is not None else None
    if not all(isinstance(name, str) for name in dimensions):
        raise TraceError(f"{where}, dimensions: accepted is a list of names")
    return ErrorLabel(
        span_id=span_id,
        dimensions=tuple(dimensions),
        category=get(record, "category", str, where, ""),
        impact=Impact.parse(get(record, "impact", str, where)),
        description=get(record, "description", str, where, ""),
        evidence=get(record, "evidence", str, where, ""),
        rater=get(record, "rater", str, where, ""),
        time=_time(record, where),
    )


def score_from(record: JSON, where: str) -> ScoreLabel:
    return ScoreLabel(
        dimension=get(record, "dimension", str, where),
        score=get(record, "score", int, where),
        rater=get(record, "rater", str, where, ""),
        time=_time(record, where),
    )


def _time(record: JSON, where: str) -> float | None:
    time: float | None = record.get("time")
    if not isinstance(time, _TIME) or isinstance(time, bool):
        raise TraceError(f"{where}, time: is {type(time).__name__}: accepted are seconds since the epoch and null")
    return time
