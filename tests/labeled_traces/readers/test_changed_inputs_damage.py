"""The changed inputs of test_changed_inputs.py hold each damage that they are about."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from labeled_traces.trace import JSON
from tests.labeled_traces.readers.test_changed_inputs import IDS, PARENTS, Case, changed, places_in

if TYPE_CHECKING:
    from tests.labeled_traces.readers.conftest import Sample

_TIMES = {
    **{"start": "end", "start_time": "end_time", "startTime": "endTime", "started_at": "ended_at"},
    **{"startTimeUnixNano": "endTimeUnixNano", "start_time_unix_nano": "end_time_unix_nano"},
    "start_timestamp": "timestamp",
}
_NO_TREE = "a log of what was said, or of steps, in their order: it has no ids of parents"
_NO_END = "it has no pair of a start and an end"
_LOGS = ("adk", "agentrx", "mp_bench", "who_and_when", "agent_process_bench", "agent_error_bench")
_TREE = ("circle", "missing parent", "id twice")
DAMAGE = (*_TREE, "end before start", "wrong type", "lone surrogate", "NUL")
NOT_THERE = {
    **{(name, what): _NO_TREE for name in (*_LOGS, "smolagents") for what in _TREE},
    **{(name, "end before start"): _NO_END for name in (*_LOGS, "trail")},
}
"""Damage that a format cannot have, with the reason. To have it all the same fails, too."""


def _damage(case: Case, whole: Case) -> set[str]:
    """The kinds of damage that are in the changed input."""
    nodes = [holder for holder, key in places_in(list(case.records.values())) if key in _TIMES or key in PARENTS]
    nodes = list({id(node): node for node in nodes if isinstance(node, dict)}.values())
    given = [(_first(node, IDS), _first(node, PARENTS)) for node in nodes]
    ids = [own for own, _ in given if own]
    above = {own: parent for own, parent in given if own}
    pairs = [(node.get(start), node.get(end)) for node in nodes for start, end in _TIMES.items()]
    text = json.dumps(case.records)
    found = {
        "circle": any(_circles(own, above) for own in ids),
        "missing parent": any(parent and parent not in ids for _, parent in given),
        "id twice": len(ids) > len(set(ids)),
        "end before start": any(type(end) is type(start) and _is_time(end) and end < start for start, end in pairs),
        "wrong type": bool(_types(case) - _types(whole)),
        "lone surrogate": "\\ud800" in text or "\\udfff" in text,
        "NUL": "\\u0000" in text,
    }
    return {what for what, there in found.items() if there}


def _first(node: JSON, keys: tuple[str, ...]) -> str:
    inner = node.get("context")  # where OpenTelemetry's own JSON keeps ids
    holders = [node, inner] if isinstance(inner, dict) else [node]
    return next((str(holder[key]) for key in keys for holder in holders if holder.get(key)), "")


def _circles(own: str, above: dict[str, str]) -> bool:
    seen = set()
    while own in above and own not in seen:
        seen.add(own)
        own = above[own]
    return own in seen


def _is_time(value: JSON) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and str(value)[:1].isdigit()


def _types(case: Case) -> set[tuple[str, type]]:
    return {(str(key), type(holder[key])) for holder, key in case.places if isinstance(key, str)}


def test_the_changed_inputs_have_every_damage(sample: Sample) -> None:
    whole = Case(sample)
    usual = _damage(whole, whole)
    found = Counter(what for number in range(500) for what in _damage(changed(sample, number), whole) - usual)
    without = {what for name, what in NOT_THERE if name == sample.name}
    assert not without & found.keys()
    assert {what: found[what] for what in DAMAGE if what not in without and not found[what]} == {}
