"""Tables from a source's error categories to GPA dimensions: data files, so that a user can bring another one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from labeled_traces.files import read_yaml
from labeled_traces.label import check_dimension
from labeled_traces.trace import TraceError

FOLDER = Path(__file__).parent / "taxonomies"


@dataclass(frozen=True)
class Taxonomy:
    """Which dimensions judge which category of error.

    `dimensions`: category -> dimensions; none means outside GPA. `synonyms`: other spelling -> category.
    `outside_agents`: whose errors lie outside GPA whatever their category (a simulated user ...).
    """

    name: str
    dimensions: Mapping[str, tuple[str, ...]]
    synonyms: Mapping[str, str]
    outside_agents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known: dict[str, str] = {}
        for spelling, category in [*((name, name) for name in self.dimensions), *self.synonyms.items()]:
            first = known.setdefault(_plain(spelling), category)
            if first != category:
                raise TraceError(f"taxonomy {self.name!r}: {spelling!r} means both {first!r} and {category!r}")

    @cached_property
    def _categories(self) -> dict[str, str]:
        spellings = {**{name: name for name in self.dimensions}, **self.synonyms}
        return {_plain(spelling): category for spelling, category in spellings.items()}

    def find(self, category: str) -> str | None:
        """The category as the table writes it, None if the table does not have it.

        Case, spaces, hyphens, slashes and a last word "Error(s)" do not count.
        """
        return self._categories.get(_plain(category))

    def dimensions_of(self, category: str, agent: str | None = None) -> tuple[str, ...]:
        """The dimensions of an error; none if it lies outside GPA or its category is unknown (ask `find`)."""
        if agent is not None and _plain(agent) in {_plain(outside) for outside in self.outside_agents}:
            return ()
        found = self.find(category)
        return () if found is None else self.dimensions[found]


def shipped() -> tuple[str, ...]:
    """The names of the tables of this package."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.yaml")))


def load_taxonomy(name_or_path: str | Path) -> Taxonomy:
    """A table of this package (`trail`, `agentrx` ...) or a YAML file of the same form.

    Raises:
        TraceError: no such table, or a file that is not one; names file and key.
    """
    path = FOLDER / f"{name_or_path}.yaml"
    if not path.is_file():
        path = Path(name_or_path)
    if not path.is_file():
        raise TraceError(
            f"taxonomy {name_or_path}: no such table and no such file: accepted are {', '.join(shipped())}, or a YAML "
            "file"
        )
    record = read_yaml(path)
    _check_keys(record, _KEYS, f"taxonomy {path}")
    if not isinstance(record.get("categories"), dict):
        raise TraceError(f"taxonomy {path}, categories: accepted is a mapping from category to `dimensions`")
    dimensions: dict[str, tuple[str, ...]] = {}
    synonyms: dict[str, str] = {}
    for category, entry in record["categories"].items():
        where = f"taxonomy {path}, category {category!r}"
        if not isinstance(entry, dict) or "dimensions" not in entry:
            raise TraceError(f"{where}: accepted is a mapping with `dimensions` and, if needed, `synonyms`")
        _check_keys(entry, ("dimensions", "synonyms"), where)
        try:
            dimensions[category] = tuple(check_dimension(name) for name in _texts(entry, "dimensions", where))
        except TraceError as error:
            raise error if str(error).startswith(where) else TraceError(f"{where}: {error}") from None
        for synonym in _texts(entry, "synonyms", where):
            if synonyms.setdefault(synonym, category) != category:
                raise TraceError(f"{where}, synonyms: {synonym!r} means {synonyms[synonym]!r} already")
    outside = tuple(_texts(record, "outside_agents", f"taxonomy {path}"))
    try:
        return Taxonomy(str(record.get("name", path.stem)), dimensions, synonyms, outside)
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


_KEYS = ("name", "note", "categories", "outside_agents")


def _check_keys(record: Mapping[str, object], accepted: Sequence[str], where: str) -> None:
    for key in record:
        if key not in accepted:
            raise TraceError(f"{where}: unknown key {key!r}: accepted are {', '.join(accepted)}")


def _texts(record: Mapping[str, object], key: str, where: str) -> list[str]:
    values = record.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TraceError(f"{where}, {key}: accepted is a list of texts")
    return values


def _plain(spelling: str) -> str:
    return re.sub(r"(?<=.)errors?$", "", re.sub(r"[\W_]+", "", spelling.casefold()))
