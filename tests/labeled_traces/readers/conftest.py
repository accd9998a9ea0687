"""Samples of every format that is read: tests/labeled_traces/readers/samples/<format>.jsonl, and
<format>.labels.jsonl where labels stand in files of their own.

Each tells the same small run: a goal, a system prompt, a tool, a call that is answered, one that fails, an answer. What
somebody said or found has three words or more; ids, times and names have less; what holds the right answer says ANSWER.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, to_json
from labeled_traces.readers import READERS, read
from labeled_traces.readers.report import ReadReport
from labeled_traces.taxonomy import Taxonomy, load_taxonomy
from labeled_traces.trace import JSON

SAMPLES = Path(__file__).parent / "samples"


class Sample:
    """The files of one format, and what is read out of them."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def path(self) -> Path:
        path = SAMPLES / f"{self.name}.jsonl"
        if not path.exists():
            pytest.fail(f"{path} is missing: the reader {self.name!r} needs a sample, see the top of {__file__}")
        return path

    @property
    def labels(self) -> Path | None:
        path = SAMPLES / f"{self.name}.labels.jsonl"
        return path if path.exists() else None

    @cached_property
    def records(self) -> dict[str, list[JSON]]:
        """The records of each of its files."""
        files = {"traces": self.path, "labels": self.labels}
        return {part: _records(path) for part, path in files.items() if path is not None}

    def read(self, path: Path, labels: Path | None = None, strict: bool = False) -> tuple[Dataset, ReadReport]:
        """A file as one of this format; without its usual table of categories it would be read each time."""
        return read(path, self.name, labels=labels, taxonomy=self._taxonomy, strict=strict)

    @cached_property
    def imported(self) -> tuple[Dataset, ReadReport]:
        return self.read(self.path, self.labels, strict=True)

    @cached_property
    def _taxonomy(self) -> Taxonomy:
        return load_taxonomy(READERS[self.name].taxonomy)

    @staticmethod
    def said(value: JSON) -> set[str]:
        """What people, agents and tools said in a value, without what is the right answer."""
        return {text for text in _texts(value) if text.count(" ") > 1 and "ANSWER" not in text}

    @staticmethod
    def text(dataset: Dataset) -> str:
        """All texts of all rows."""
        return "\n".join(_texts([to_json(row) for row in dataset]))


def _records(path: Path) -> list[JSON]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _texts(value: JSON) -> Iterator[str]:
    """Every text in a value; a text that is JSON as what it holds."""
    if isinstance(value, str):
        value = _inside(value)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _inside(text: str) -> JSON:
    """What a text writes in JSON, else the text."""
    try:
        return json.loads(text) if text[:1] in ("{", "[", '"') else text
    except (ValueError, RecursionError):
        return text


@pytest.fixture(scope="session", params=list(READERS))
def sample(request: pytest.FixtureRequest) -> Sample:
    return Sample(request.param)
