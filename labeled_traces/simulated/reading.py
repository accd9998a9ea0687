"""Reads a run of the simulated agent back from its trace, as far as the trace is whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from labeled_traces.simulated.plan import Step, parse_plan
from labeled_traces.simulated.tasks import Task, parse_task
from labeled_traces.trace import JSON, Span, SpanKind, Trace

_CUT = re.compile(r"\[\.\.\. \d+ characters left out \.\.\.\]")
"""How a text says that something was cut out of it."""
_STEP = re.compile(r"Step (\d{1,3})\b")
_RECORDED = re.compile(r"Recorded (\w+) = (.+)")
_CUTOFF = re.compile(r"memory ends in (\d{4})")


@dataclass(frozen=True)
class Call:
    """A tool span. `arguments` and `output` are None where they cannot be read."""

    span_id: str
    tool: str
    arguments: JSON
    output: JSON
    rejected: bool


@dataclass(frozen=True)
class StepRun:
    """An executor span. `text` is what the executor said, `recorded` what it wrote down; `silent`: no call was made."""

    span_id: str
    number: int
    text: str
    calls: tuple[Call, ...]
    recorded: dict[str, JSON]
    silent: bool


@dataclass(frozen=True)
class Run:
    """`plan` is None where the plan is not whole, `plan_end` its last line. `cutoff` is the year in which memory ends.
    `answer` is empty where it is not whole."""

    root_id: str
    planner_id: str
    final_id: str | None
    task: Task | None
    plan: dict[int, Step] | None
    plan_end: str
    steps: dict[int, StepRun]
    cutoff: int | None
    answer: str


def read_run(trace: Trace) -> Run | None:
    """The run that a trace tells of; None for a trace of another agent."""
    llm: dict[str, list[Span]] = {}
    for span in trace.walk():
        if span.kind == SpanKind.LLM:
            llm.setdefault(span.name, []).append(span)
    if "planner" not in llm:
        return None
    planner = llm["planner"][0]
    final = llm.get("final_answer", [None])[-1]
    heard, plan_text = _text(planner.inputs), _text(planner.outputs)
    steps = [step for span in llm.get("executor", ()) if (step := _read_step(trace, span)) is not None]
    cutoff = _CUTOFF.search(heard)
    return Run(
        root_id=trace.roots[0].span_id,
        planner_id=planner.span_id,
        final_id=final.span_id if final else None,
        task=_read_task(trace.roots[0], heard),
        plan=_read_plan(plan_text),
        plan_end=plan_text.strip().split("\n")[-1],
        steps={step.number: step for step in steps},
        cutoff=int(cutoff[1]) if cutoff else None,
        answer=_whole(_text(final.outputs)) if final else "",
    )


def _read_task(root: Span, heard: str) -> Task | None:
    told = root.inputs.get("task") if isinstance(root.inputs, dict) else root.inputs
    if isinstance(told, str) and (task := parse_task(told)):
        return task
    lines = [line.removeprefix("Task: ") for line in heard.split("\n") if line.startswith("Task: ")]
    return parse_task(lines[0]) if lines else None


def _read_plan(text: str) -> dict[int, Step] | None:
    """The plan's steps; None unless every numbered line of it can be read."""
    plan = parse_plan(_whole(text))
    numbered = [line for line in text.split("\n") if line[:1].isdigit()]
    whole = plan and len(numbered) == len(plan) and sorted(plan) == list(range(1, len(plan) + 1))
    return plan if whole else None


def _read_step(trace: Trace, span: Span) -> StepRun | None:
    text = _text(span.outputs)
    number = _STEP.match(text) or _STEP.search(_text(span.inputs))
    if number is None:
        return None
    recorded: dict[str, JSON] = {}
    for line in text.split("\n"):
        found = _RECORDED.fullmatch(line)
        if found and (value := _json(found[2])) is not None:
            recorded[found[1]] = value
    calls = tuple(_read_call(child) for child in trace.children(span.span_id) if child.kind == SpanKind.TOOL)
    announced = any(message.get("tool_calls") for message in _messages(span.outputs))
    return StepRun(span.span_id, int(number[1]), text, calls, recorded, not calls and not announced)


def _read_call(span: Span) -> Call:
    rejected = span.status == "ERROR" or span.error is not None
    return Call(span.span_id, span.name, _json(span.inputs), _json(span.outputs), rejected)


def _json(value: JSON) -> JSON:
    """The value, parsed where it is text; None where it is cut or no JSON."""
    if _CUT.search(str(value)):
        return None
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _whole(text: str) -> str:
    return "" if _CUT.search(text) else text


def _messages(content: JSON) -> Iterator[dict[str, JSON]]:
    messages = content.get("messages") if isinstance(content, dict) else None
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict):
            yield message


def _text(content: JSON) -> str:
    """All message texts, or the text itself."""
    if isinstance(content, str):
        return content
    return "\n".join(text for message in _messages(content) if isinstance(text := message.get("content"), str))
