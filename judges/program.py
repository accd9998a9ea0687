"""The searched object: four plain texts and a few knobs, one folder on disk, one content hash."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from judges.decision import DecisionRule
from judges.judgment import HOLISTIC, Outcome
from judges.lm import JudgeError
from judges.redact import check_endpoint
from labeled_traces.files import read_yaml
from labeled_traces.label import DIMENSIONS, SCORES
from labeled_traces.trace import TraceError, text_hash

PROMPTS = Path(__file__).parent / "prompts"
PARTS = {
    "rubric": "rubric.md",
    "architecture_notes": "architecture_notes.md",
    "examples": "examples.jsonl",
    "output_template": "output_template.md",
}
"""Part -> its file in a program's folder."""

SHARED_PREFIX, MLFLOW = LAYOUTS = ("shared_prefix", "mlflow")
"""How the prompt is laid out: what all judges share first; or as a judge that is registered in MLflow sends it."""


@dataclass(frozen=True)
class Knobs:
    """Settings beside the texts. `trace_tokens` is the limit of the rendered trace, `max_examples` how many of the
    lines of `examples` are shown (0: none), `example_order` `as_written` or `reversed`, `layout` one of `LAYOUTS`. In
    the layout `mlflow` a judge is a single call, so `plan_extraction` has no effect."""

    model: str = "simulated/default"
    endpoint: str = ""
    temperature: float = 0.7
    max_tokens: int = 2048
    trace_tokens: int = 24_000
    max_examples: int = 4
    example_order: str = "as_written"
    plan_extraction: bool = True
    layout: str = SHARED_PREFIX

    def __post_init__(self) -> None:
        limits = {
            "temperature": (0.0, 2.0),
            "max_tokens": (64, 1_000_000),
            "trace_tokens": (256, 10_000_000),
            "max_examples": (0, 100),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            types, kind = (int | float, "number") if name == "temperature" else (int, "whole number")
            if isinstance(value, bool) or not isinstance(value, types) or not low <= value <= high:
                raise JudgeError(f"knob {name} is {value!r}: accepted is a {kind} from {low} to {high}")
        if not isinstance(self.plan_extraction, bool):
            raise JudgeError(f"knob plan_extraction is {self.plan_extraction!r}: accepted are true and false")
        check_endpoint(self.endpoint)
        if self.example_order not in ("as_written", "reversed"):
            raise JudgeError(f"knob example_order is {self.example_order!r}: accepted are as_written and reversed")
        if self.layout not in LAYOUTS:
            raise JudgeError(f"knob layout is {self.layout!r}: accepted are {' and '.join(LAYOUTS)}")
        if not isinstance(self.model, str) or not self.model.strip():
            raise JudgeError(
                f"knob model is {self.model!r}: accepted is a LiteLLM model name such as openai/gpt-5, "
                "or simulated/default"
            )


@dataclass(frozen=True)
class JudgeProgram:
    """One judge. `dimension` is a dimension's name, or `holistic`.

    `examples` is JSON Lines, each line `{"excerpt": str, "findings": [{...}], "score": 0-3, "trace_id": str}`.
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
        for part, text in self.parts.items():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                where = f"the {self.dimension} program's {part}, character {error.start}"
                raise JudgeError(f"{where}: a lone surrogate is no text, so it can be neither saved nor sent") from None
        for number, line in _lines(self.examples):
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
        rows = [json.loads(line) for _, line in _lines(self.examples)][: self.knobs.max_examples]
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
        """A child with other knobs; self where they change nothing.

        Raises:
            JudgeError: an unknown knob or a value outside its range.
        """
        knobs = _knobs({**asdict(self.knobs), **changes}, self.dimension)
        return self if knobs == self.knobs else replace(self, knobs=knobs, parent=self.hash, origin="knobs")

    def save(self, folder: Path) -> None:
        """Writes the folder that `load` reads."""
        folder.mkdir(parents=True, exist_ok=True)
        for part, file_name in PARTS.items():
            (folder / file_name).write_text(getattr(self, part), encoding="utf-8", newline="\n")
        about = {"dimension": self.dimension, "hash": self.hash, "parent": self.parent, "origin": self.origin}
        for file_name, content in (("knobs.yaml", asdict(self.knobs)), ("program.yaml", about)):
            (folder / file_name).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> JudgeProgram:
        """Reads what `save` wrote. If someone has edited it since, the result is a child of what was saved.

        Raises:
            JudgeError: a missing file, an unknown key, or a value that is out of range; the message names the folder.
        """
        try:
            # Bytes, since reading as text would change the line breaks and with them the hash.
            texts = {part: (folder / name).read_bytes().decode() for part, name in PARTS.items()}
            about, knobs = read_yaml(folder / "program.yaml"), read_yaml(folder / "knobs.yaml")
        except (OSError, UnicodeDecodeError, TraceError) as error:
            raise JudgeError(
                f"{folder} is not a judge program: {error}. Accepted is a folder with "
                f"{', '.join([*PARTS.values(), 'knobs.yaml', 'program.yaml'])}"
            ) from error
        about = {"origin": "unknown", "hash": None, "parent": None, **about}
        if set(about) != {"dimension", "hash", "parent", "origin"}:
            raise JudgeError(f"{folder / 'program.yaml'}: accepted are dimension, hash, parent and origin")
        for key, value in about.items():
            if not isinstance(value, str) and (key not in ("hash", "parent") or value is not None):
                raise JudgeError(f"{folder / 'program.yaml'}: `{key}` is {value!r:.80}: accepted is a text")
        try:
            program = cls(
                dimension=str(about["dimension"]),
                knobs=_knobs(knobs, "knobs.yaml"),
                parent=about["parent"],
                origin=str(about["origin"]),
                **texts,
            )
        except JudgeError as error:
            raise JudgeError(f"{folder}: {error}") from error
        saved = about["hash"]
        return program if saved in (None, program.hash) else replace(program, parent=str(saved), origin="edited")


@dataclass(frozen=True)
class JudgeSuite:
    """The judges that are used together: one per dimension, or the holistic one alone. `rule` turns their raw
    findings into what is reported."""

    programs: Mapping[str, JudgeProgram]
    rule: DecisionRule = field(default_factory=DecisionRule)

    def __post_init__(self) -> None:
        if not self.programs:
            raise JudgeError("a suite needs at least one judge")
        for name, program in self.programs.items():
            if name != program.dimension:
                raise JudgeError(f"the suite's {name!r} holds a program of {program.dimension!r}")

    @cached_property
    def hash(self) -> str:
        """The first 16 hex digits of the sha256 of the programs' hashes and the rule."""
        content = [sorted(program.hash for program in self.programs.values()), self.rule.to_json()]
        return text_hash(json.dumps(content, sort_keys=True))[:16]

    def with_program(self, program: JudgeProgram) -> JudgeSuite:
        return replace(self, programs={**self.programs, program.dimension: program})

    def save(self, folder: Path) -> None:
        """One sub-folder a program, and the rule beside them.

        Raises:
            JudgeError: the folder holds a judge that is not in this suite, which `load` would take in.
        """
        others = sorted({path.name for path in _program_folders(folder)} - set(self.programs))
        if others:
            raise JudgeError(f"{folder} holds other judges ({', '.join(others)}): accepted is a folder without them")
        for name, program in self.programs.items():
            program.save(folder / name)
        self.rule.save(folder)

    @classmethod
    def load(cls, folder: Path) -> JudgeSuite:
        """One program per sub-folder, in the order of the dimensions; without a rule's file the rule is the default.

        Raises:
            JudgeError: the folder holds no program, a broken one, two of one dimension, or a broken rule.
        """
        folders = _program_folders(folder)
        if not folders:
            raise JudgeError(f"{folder} holds no judge program: accepted is a folder with one sub-folder per dimension")
        programs: dict[str, JudgeProgram] = {}
        for path in folders:
            program = JudgeProgram.load(path)
            if program.dimension in programs:
                raise JudgeError(f"{folder} holds two judges of {program.dimension}, one of them in {path.name}")
            programs[program.dimension] = program
        order = [name for name in (*DIMENSIONS, HOLISTIC) if name in programs]
        return cls({name: programs[name] for name in order}, DecisionRule.load(folder))


def _program_folders(folder: Path) -> list[Path]:
    """The sub-folders with a program in them, whole or broken."""
    marks = ("program.yaml", PARTS["rubric"])
    return sorted({path.parent for mark in marks for path in folder.glob(f"*/{mark}")})


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


def _lines(examples: str) -> list[tuple[int, str]]:
    """Numbered lines that are not blank. Only LF ends one: JSON strings may hold other line breaks as they are."""
    return [(number, line) for number, line in enumerate(examples.split("\n"), 1) if line.strip()]


def _check_example(line: str, where: str) -> None:
    try:
        row = json.loads(line)
        accepted = (
            isinstance(row["excerpt"], str)
            and isinstance(row["findings"], list)
            and all(isinstance(finding, dict) for finding in row["findings"])
            and not isinstance(row.get("score"), bool)
            and row.get("score") in (None, *SCORES, Outcome.NOT_APPLICABLE)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        accepted = False
    if not accepted:
        raise JudgeError(
            f'{where}: accepted is one JSON object a line: {{"excerpt": str, "findings": [{{...}}], "score": 0-3}}'
        )
