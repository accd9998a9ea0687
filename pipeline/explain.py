"""What is wrong with a value of a configuration file, and what would be accepted, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel

from judges.redact import redact
from labeled_traces.names import did_you_mean


def explain(kind: type[BaseModel], where: str, row: Any, values: Mapping[str, Any]) -> str:
    """One of pydantic's complaints in our words: file, key, and what would be accepted."""
    location = [*row["loc"]]
    if location[:2] == ["search", 0] and isinstance(values["search"], Mapping):
        del location[1]  # a single step, which is no list in the file
    path = ".".join(map(str, location))
    if row["type"] == "extra_forbidden":
        *parents, key = location
        accepted = _fields(kind, parents)
        return f"{where}: unknown key `{path}`{did_you_mean(str(key), accepted)}: accepted are {', '.join(accepted)}"
    if row["type"] == "missing":
        return f"{where}: the key `{path}` is missing"
    message = row["msg"].removeprefix("Value error, ")
    given = row["input"]
    shown = redact(f" (given: {given!r})") if isinstance(given, str | int | float | bool | None) else ""
    return f"{where}: `{path}`: {message}{shown}"


def _fields(kind: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The keys of the section at this path."""
    model: Any = kind
    for key in path:
        field = model.model_fields[key].annotation if key in model.model_fields else None
        sections = [
            kind for kind in (field, *get_args(field)) if isinstance(kind, type) and issubclass(kind, BaseModel)
        ]
        model = sections[0] if sections else model
    return keys(model)


def keys(kind: type[BaseModel]) -> list[str]:
    """What must be given comes first."""
    return sorted(kind.model_fields, key=lambda name: not kind.model_fields[name].is_required())


def not_text(value: Any, path: str = "") -> Iterator[str]:
    """The places of texts that can be neither saved nor sent."""
    if isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            yield path
    elif isinstance(value, Mapping | list | tuple):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from not_text(item, f"{path}.{key}" if path else str(key))
