"""The searched object: four plain texts and a few knobs, one folder on disk, one content hash."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from judges.judgment import HOLISTIC
from judges.lm import JudgeError
from labeled_traces.label import DIMENSIONS
from labeled_traces.trace import text_hash

PROMPTS = Path(__file__).parent / "prompts"
PARTS = {
    "rubric": "rubric.md",
    "architecture_notes": "architecture_notes.md",
    "examples": "examples.jsonl",
    "output_template": "output_template.md",
}
"""Part -> its file in a program's folder."""


@dataclass(frozen=True)
class Knobs:
    """Settings beside the texts. `trace_tokens` is the limit of the rendered trace, `max_examples` how many of the
    lines of `examples` are shown (0: none), `example_order` `as_written` or `reversed`."""

    model: str = "simulated/default"
    endpoint: str = ""
    temperature: float = 0.7
    max_tokens: int = 2048
    trace_tokens: int = 24_000
    max_examples: int = 4
    example_order: str = "as_written"
    plan_extraction: bool = True

    def __post_init__(self) -> None:
        limits = {
            "temperature": (0.0, 2.0),
            "max_tokens": (64, 1_000_000),
            "trace_tokens": (256, 10_000_000),
            "max_examples": (0, 100),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise JudgeError(f"knob {name} is {value!r}: accepted is a number from {low} to {high}")
        if self.example_order not in ("as_written", "reversed"):
            raise JudgeError(f"knob example_order is {self.example_order!r}: accepted are as_written and reversed")
        if not self.model:
            raise JudgeError(
                "knob model is empty: accepted is a LiteLLM model name such as openai/gpt-5, or simulated/default"
            )


@dataclass(frozen=True)
class JudgeProgram:
    """One judge. `dimension` is a dimension's name, or `holistic`.

    `examples` is JSON Lines, each line `{"excerpt": str, "findings": [...], "score": 0-3, "trace_id": str}`.
    `parent` is the hash of the program that this one was made from, `origin` says by what.
    """

    dimension: str
    rubric: str
    architecture_notes: str = ""
    examples: str = ""
    output_template: str = ""
    knobs: Knobs = field(default_factory=Knobs)
    parent: str | None = None
    origin: str = "seed"

    def __post_init__(self) -> None:
        if self.dimension != HOLISTIC and self.dimension not in DIMENSIONS:
            raise JudgeError(
                f"dimension {self.dimension!r} is unknown: accepted are {', '.join([*DIMENSIONS, HOLISTIC])}"
            )
        if not self.rubric.strip():
            raise JudgeError(f"the {self.dimension} program has an empty rubric")
        for number, line in enumerate(self.examples.splitlines(), 1):
            if line.strip():
                _check_example(line, f"{self.dimension} examples, line {number}")

    @property
    def parts(self) -> dict[str, str]:
        """Part name -> text: the candidate that an optimiser searches."""
        return {name: getattr(self, name) for name in PARTS}

    @cached_property
    def hash(self) -> str:
        """The first 16 hex digits of the sha256 of dimension, parts and knobs (not of where it came from)."""
        content = [self.dimension, self.parts, asdict(self.knobs)]
        return text_hash(json.dumps(content, sort_keys=True, ensure_ascii=True))[:16]

    @property
    def shown_examples(self) -> list[dict[str, Any]]:
        """The examples that the prompt shows, in their order there."""
        rows = [json.loads(line) for line in self.examples.splitlines() if line.strip()][: self.knobs.max_examples]
        return rows[::-1] if self.knobs.example_order == "reversed" else rows

    def with_parts(self, parts: Mapping[str, str], origin: str) -> JudgeProgram:
        """A child with other texts; self is unchanged.

        Raises:
            JudgeError: an unknown part, an empty rubric, or examples that are not JSON Lines.
        """
        unknown = sorted(set(parts) - set(PARTS))
        if unknown:
            raise JudgeError(f"unknown part {', '.join(unknown)}: accepted are {', '.join(PARTS)}")
        texts = {**self.parts, **parts}
        return JudgeProgram(self.dimension, **texts, knobs=self.knobs, parent=self.hash, origin=origin)

    def with_knobs(self, **changes: Any) -> JudgeProgram:
        """A child with other knobs.

        Raises:
            JudgeError: an unknown knob or a value outside its range.
        """
        return replace(self, knobs=_knobs({**asdict(self.knobs), **changes}, self.dimension))

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for part, file_name in PARTS.items():
            (folder / file_name).write_text(getattr(self, part), encoding="utf-8", newline="\n")
        about = {"dimension": self.dimension, "hash": self.hash, "parent": self.parent, "origin": self.origin}
        for file_name, content in (("knobs.yaml", asdict(self.knobs)), ("program.yaml", about)):
            (folder / file_name).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> JudgeProgram:
        """Reads what `save` wrote; a person may have edited the texts since.

        Raises:
            JudgeError: a missing file, an unknown key, or a value that is out of range; the message names the folder.
        """
        try:
            texts = {part: (folder / name).read_text(encoding="utf-8") for part, name in PARTS.items()}
            about = yaml.safe_load((folder / "program.yaml").read_text(encoding="utf-8"))
            knobs = yaml.safe_load((folder / "knobs.yaml").read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise JudgeError(
                f"{folder} is not a judge program: {error}. Accepted is a folder with "
                f"{', '.join([*PARTS.values(), 'knobs.yaml', 'program.yaml'])}"
            ) from error
        if not isinstance(about, dict) or "dimension" not in about:
            raise JudgeError(f"{folder / 'program.yaml'} names no dimension")
        try:
            return cls(
                dimension=about["dimension"],
                knobs=_knobs(knobs, str(folder)),
                parent=about.get("parent"),
                origin=about.get("origin", "unknown"),
                **texts,
            )
        except JudgeError as error:
            raise JudgeError(f"{folder}: {error}") from error


@dataclass(frozen=True)
class JudgeSuite:
    """The judges that are used together: one per dimension, or the holistic one alone."""

    programs: Mapping[str, JudgeProgram]

    def __post_init__(self) -> None:
        if not self.programs:
            raise JudgeError("a suite needs at least one judge")
        for name, program in self.programs.items():
            if name != program.dimension:
                raise JudgeError(f"the suite's {name!r} holds a program of {program.dimension!r}")

    @cached_property
    def hash(self) -> str:
        return text_hash(json.dumps(sorted(program.hash for program in self.programs.values())))[:16]

    def with_program(self, program: JudgeProgram) -> JudgeSuite:
        return JudgeSuite({**self.programs, program.dimension: program})

    def save(self, folder: Path) -> None:
        for name, program in self.programs.items():
            program.save(folder / name)

    @classmethod
    def load(cls, folder: Path) -> JudgeSuite:
        """One program per sub-folder.

        Raises:
            JudgeError: the folder holds no program, or a broken one.
        """
        folders = sorted(path.parent for path in folder.glob("*/program.yaml"))
        if not folders:
            raise JudgeError(f"{folder} holds no judge program: accepted is a folder with one sub-folder per dimension")
        programs = [JudgeProgram.load(path) for path in folders]
        return cls({program.dimension: program for program in programs})


def seed_program(dimension: str, knobs: Knobs | None = None) -> JudgeProgram:
    """The generic judge of a dimension (or of `holistic`) as this package ships it."""
    folder = PROMPTS / dimension
    if not (folder / "rubric.md").is_file():
        raise JudgeError(f"there is no rubric for {dimension!r} in {PROMPTS}")
    texts = {
        part: (folder / name).read_text(encoding="utf-8") if (folder / name).is_file() else ""
        for part, name in PARTS.items()
    }
    return JudgeProgram(dimension=dimension, knobs=knobs or Knobs(), **texts)


def seed_suite(knobs: Knobs | None = None, dimensions: tuple[str, ...] = tuple(DIMENSIONS)) -> JudgeSuite:
    return JudgeSuite({name: seed_program(name, knobs) for name in dimensions})


def _knobs(values: Any, where: str) -> Knobs:
    try:
        return Knobs(**values)
    except TypeError as error:
        raise JudgeError(f"{where}: knobs: {error}. Accepted are {', '.join(Knobs.__dataclass_fields__)}") from error


def _check_example(line: str, where: str) -> None:
    try:
        row = json.loads(line)
        accepted = isinstance(row, dict) and isinstance(row["excerpt"], str) and isinstance(row["findings"], list)
    except (ValueError, KeyError):
        accepted = False
    if not accepted:
        raise JudgeError(
            f'{where}: accepted is one JSON object a line: {{"excerpt": str, "findings": [...], "score": 0-3}}'
        )
