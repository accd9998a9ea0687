"""What a request asks for, read from its messages alone: the simulated model sees nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

INPUTS = "inputs: "
"""How a user message of MLflow begins."""
SECTIONS = (
    "Rubric",
    "Do not judge",
    "How this agent works",
    "Extracted plan",
    "Examples",
    "Output",
    "Reply format",
)
"""The headings of a judge's tail, in the order of the prompt."""


@dataclass(frozen=True)
class Texts:
    """What a judge's prompt says beside the trace; absent sections are empty."""

    dimension: str
    rubric: str
    exclusions: str
    notes: str
    examples: str
    template: str
    has_plan: bool


@dataclass(frozen=True)
class JudgePrompt:
    """`in_mlflow`: in the layout `mlflow`, so the reply is wanted in its two fields."""

    trace_text: str
    texts: Texts
    in_mlflow: bool = False


@dataclass(frozen=True)
class PlanPrompt:
    trace_text: str


@dataclass(frozen=True)
class ReflectionPrompt:
    """A request to improve `current`, the text of a judge's part. `feedback` holds the lines of what went wrong."""

    part: str
    dimension: str
    current: str
    feedback: tuple[str, ...]


@dataclass(frozen=True)
class FieldPrompt:
    """A prompt in the chat form of the DSPy library: named inputs, and the name of the output that is wanted."""

    inputs: Mapping[str, str]
    wanted: str


Prompt = JudgePrompt | PlanPrompt | ReflectionPrompt | FieldPrompt


def read_prompt(text: str, system: str = "") -> Prompt | None:
    """The prompt in a user message; None for anything that no part of this project writes, or has written.

    In the layout `mlflow` the judge's texts stand in the `system` message.
    """
    if text.startswith(INPUTS):
        return _read_mlflow(text.removeprefix(INPUTS), system)
    fence, _, rest = text.partition("\n")
    if re.fullmatch(r"===== TRACE [0-9a-f]{8,} =====", fence):
        trace_text, found, tail = rest.partition(f"\n{fence}\n")
        return _read_tail(trace_text, tail.strip()) if found else None
    if text.lstrip().startswith("# Improve a judge"):
        return _read_reflection(text)
    return _read_fields(text)


def _read_fields(text: str) -> FieldPrompt | None:
    wanted = re.search(r"^Respond with .*?starting with the field `\[\[ ## (\w+) ## \]\]`", text, re.MULTILINE)
    if not text.startswith("[[ ## ") or not wanted:
        return None
    _, *pieces = re.split(r"^\[\[ ## (\w+) ## \]\][ \t]*$", text[: wanted.start()], flags=re.MULTILINE)
    return FieldPrompt({name: body.strip() for name, body in zip(pieces[::2], pieces[1::2], strict=True)}, wanted[1])


def _read_mlflow(inputs: str, system: str) -> Prompt | None:
    try:
        trace_text = "\n".join(json.loads(inputs)["trace"])
    except (ValueError, KeyError, TypeError):
        return None
    prompt = _read_tail(trace_text, system[system.find("\n# Task\n") + 1 :])
    return replace(prompt, in_mlflow=True) if isinstance(prompt, JudgePrompt) else None


def _read_tail(trace_text: str, tail: str) -> Prompt | None:
    heading, _, rest = tail.partition("\n")
    first, _, body = rest.lstrip("\n").partition("\n")
    if heading.strip() != "# Task":
        return None
    if first.strip() == "Extract the plan":
        return PlanPrompt(trace_text)
    named = re.fullmatch(r"Judge: (\w+)", first.strip())
    if not named:
        return None
    sections = _sections(body)
    texts = Texts(
        dimension=named[1],
        rubric=sections["Rubric"],
        exclusions=sections["Do not judge"],
        notes=sections["How this agent works"],
        examples=sections["Examples"],
        template=sections["Output"],
        has_plan=bool(sections["Extracted plan"]),
    )
    return JudgePrompt(trace_text, texts)


def _sections(body: str) -> dict[str, str]:
    """Section -> text. A known heading counts only in its place in the order, so a rubric may hold headings too."""
    starts: list[tuple[str, int, int]] = []
    at = 0
    for name in SECTIONS:
        found = re.compile(rf"^## {re.escape(name)}[ \t]*$", re.MULTILINE).search(body, at)
        if found:
            starts.append((name, found.start(), found.end()))
            at = found.end()
    ends = [start for _, start, _ in starts[1:]] + [len(body)]
    sections = dict.fromkeys(SECTIONS, "")
    for (name, _, start), end in zip(starts, ends, strict=True):
        sections[name] = body[start:end].strip()
    return sections


def _read_reflection(text: str) -> ReflectionPrompt | None:
    part = re.search(r"^Part: *(\w+)", text, re.MULTILINE)
    dimension = re.search(r"^Dimension: *(\w+)", text, re.MULTILINE)
    current = re.search(r"^## Current text.*?^<<<[ \t]*\n(.*?)^>>>[ \t]*$", text, re.MULTILINE | re.DOTALL)
    wrong = re.search(r"^## What went wrong[ \t]*$(.*?)(?=^## Rules|^## Reply|\Z)", text, re.MULTILINE | re.DOTALL)
    if not (part and dimension and current and wrong):
        return None
    lines = tuple(line.strip() for line in wrong[1].splitlines() if line.strip().startswith("- "))
    return ReflectionPrompt(part[1], dimension[1], current[1].strip(), lines)
