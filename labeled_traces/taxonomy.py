"""Tables from a source's error categories to GPA dimensions: data files, so that a user can bring another one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

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


def load_taxonomy(name_or_path: str | Path) -> Taxonomy:
    """A table of this package (`trail`, `agentrx`) or a YAML file of the same form.

    Raises:
        TraceError: no such table, or a file that is not one; names the category.
    """
    path = FOLDER / f"{name_or_path}.yaml"
    if not path.is_file():
        path = Path(name_or_path)
    try:
        record = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        names = ", ".join(sorted(file.stem for file in FOLDER.glob("*.yaml")))
        reason = error.strerror if isinstance(error, OSError) else f"not YAML: {error}"
        raise TraceError(f"taxonomy {name_or_path}: {reason}: accepted are {names}, or a YAML file") from None
    if not isinstance(record, dict) or not isinstance(record.get("categories"), dict) or record.keys() - _KEYS:
        raise TraceError(f"taxonomy {path}: accepted is a mapping with `categories` and, if needed, {_KEYS}")
    dimensions: dict[str, tuple[str, ...]] = {}
    synonyms: dict[str, str] = {}
    for category, entry in record["categories"].items():
        where = f"taxonomy {path}, category {category!r}"
        if not isinstance(entry, dict) or "dimensions" not in entry or entry.keys() - {"dimensions", "synonyms"}:
            raise TraceError(f"{where}: accepted is a mapping with `dimensions` and, if needed, `synonyms`")
        dimensions[str(category)] = tuple(check_dimension(name) for name in _texts(entry, "dimensions", where))
        synonyms.update(dict.fromkeys(_texts(entry, "synonyms", where), str(category)))
    outside = tuple(_texts(record, "outside_agents", f"taxonomy {path}"))
    return Taxonomy(str(record.get("name", path.stem)), dimensions, synonyms, outside)


_KEYS = {"name", "note", "categories", "outside_agents"}


def _texts(record: Mapping[str, object], key: str, where: str) -> list[str]:
    values = record.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TraceError(f"{where}, {key}: accepted is a list of texts")
    return values


def _plain(spelling: str) -> str:
    return re.sub(r"(?<=.)errors?$", "", re.sub(r"[\W_]+", "", spelling.casefold()))
