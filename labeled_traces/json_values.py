"""Looking into JSON values of which nobody says what they hold: a step that is not there, or leads nowhere, is None."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from labeled_traces.quick_json import loads
from labeled_traces.trace import JSON

NOTHING: tuple[JSON, ...] = (None, "", {}, [])
"""Values that say nothing."""


def get(node: JSON, *path: str) -> JSON:
    """What stands at the end of these keys, None where a key is missing or its holder is no mapping."""
    for key in path:
        if not isinstance(node, dict):
            return None
        node = node.get(key)
    return node


def at_names(node: Mapping[str, JSON], names: tuple[str, ...]) -> Iterator[JSON]:
    """As `get` for each of these names with dots between their keys; without those whose first key is missing."""
    for path in _paths(names):
        if path[0] in node:
            yield get(node, *path)


@cache
def _paths(names: tuple[str, ...]) -> list[list[str]]:
    return [name.split(".") for name in names]


def either(node: JSON, key: str) -> JSON:
    """A field whose name some writers put in camelCase and others in snake_case: `key` as it is, else in the other."""
    if not isinstance(node, dict):
        return None
    value = node.get(key)
    return node.get(_other_case(key)) if value is None else value


@cache
def _other_case(key: str) -> str:
    if "_" in key:
        return re.sub(r"_([a-z])", lambda match: match[1].upper(), key)
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", key)


def first(*values: JSON) -> JSON:
    """The first that is there; 0, False and "" are."""
    return next((value for value in values if value is not None), None)


def listed(node: JSON) -> list[JSON]:
    """A list, also one that is written as JSON text; anything else is none and has no items."""
    node = decoded(node)
    return node if isinstance(node, list) else []


def decoded(value: JSON) -> JSON:
    """A text that holds a JSON object or array as that value, everything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        read = loads_or_none(value)
        return read if isinstance(read, dict | list) else value
    return value


def decoded_scalar(value: JSON) -> JSON:
    """A text that is JSON of any kind (`"1"`, `null`, a quoted text) as that value, everything else as it is.

    For sources that write every value as JSON; elsewhere `1` and `null` are texts, see `decoded`.
    """
    try:
        return loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def text_of(value: JSON) -> str:
    """A text as it stands, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def rows_of(node: JSON) -> list[JSON]:
    """As `listed`, but anything else that says something is the only item: in a place for a list nothing is lost."""
    node = decoded(node)
    return node if isinstance(node, list) else [] if node in NOTHING else [node]


def loads_or_none(text: str) -> Any:
    """The value of a JSON text, None if it is none."""
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return None
