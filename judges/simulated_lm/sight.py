"""What reading a trace gives, before anything is forgotten: its steps, its plans and the problems that are there."""

from __future__ import annotations

import json
import math
import random
import re
from dataclasses import dataclass

from judges.render import estimate_tokens
from judges.rendered import parse_rendered
from labeled_traces.simulated.checks import Problem, find_problems
from labeled_traces.trace import Span, SpanKind, Trace, TraceError, text_hash

STEPS = (SpanKind.LLM, SpanKind.TOOL)
PLAN = r"(?im)^\W*(re-?)?plan\b|</?(end_)?plan>"
PLANNER = r"(?i)(?<![a-z])plan(ner|ning)?(?![a-z])"
LISTED = r"(?m)^\s*(?:\d+[.)]|[-*]|\[[ x]\])\s+\S"


@dataclass(frozen=True)
class Step:
    """`oddness` is how strange the step looks to any reader: at least 0, mean 1. `quote` is a bit of its text."""

    span_id: str
    place: str
    oddness: float
    quote: str


@dataclass(frozen=True)
class Sight:
    """`neighbours`: span id -> the spans above and below it. `plan_source` and `plans` are those of plan extraction."""

    problems: tuple[Problem, ...]
    steps: tuple[Step, ...]
    places: dict[str, str]
    neighbours: dict[str, tuple[str, ...]]
    plan_source: str
    plans: tuple[tuple[str, str], ...]
    tokens: int


def read_trace(trace_text: str) -> Sight:
    """Reads a rendered trace; in a text that shows no span there is nothing to see."""
    try:
        trace = parse_rendered(trace_text)
    except TraceError:
        return Sight((), (), {}, {}, "none", (), estimate_tokens(trace_text))
    seed = text_hash(trace_text)
    source, plans = find_plans(trace)
    return Sight(
        problems=tuple(find_problems(trace)),
        steps=tuple(_step(span, seed) for span in trace.walk() if span.kind in STEPS),
        places={span.span_id: f'{span.kind} "{span.name}"' for span in trace.spans},
        neighbours={
            span.span_id: tuple(sorted(trace.neighbourhood(span.span_id) - {span.span_id})) for span in trace.spans
        },
        plan_source=source,
        plans=tuple(plans),
        tokens=estimate_tokens(trace_text),
    )


def find_plans(trace: Trace) -> tuple[str, list[tuple[str, str]]]:
    """The source (`labelled`, `planning_text` or `none`) and the plans, each with its span."""
    said = [(span, text) for span in trace.walk() if span.kind == SpanKind.LLM and (text := _said(span))]
    labelled = [(span.span_id, text) for span, text in said if re.search(PLANNER, span.name) or re.search(PLAN, text)]
    if labelled:
        return "labelled", labelled
    listed = [(span.span_id, text) for span, text in said if len(re.findall(LISTED, text)) > 1]
    return ("planning_text", listed[:1]) if listed else ("none", [])


def _step(span: Span, seed: str) -> Step:
    luck = random.Random(text_hash(f"{seed} {span.span_id}"))  # a lone surrogate in an id is no seed
    words = re.findall(r"\S+", _said(span) or json.dumps(span.outputs, ensure_ascii=False, default=str))
    first = luck.randrange(max(1, len(words) - 5))
    quote = " ".join(words[first : first + 5])[:80]
    return Step(span.span_id, f'{span.kind} "{span.name}"', -math.log(1.0 - luck.random()), quote)


def _said(span: Span) -> str:
    messages = span.outputs.get("messages") if isinstance(span.outputs, dict) else None
    if not isinstance(messages, list):
        return span.outputs if isinstance(span.outputs, str) else ""
    contents = [message.get("content") for message in messages if isinstance(message, dict)]
    return "\n".join(content for content in contents if isinstance(content, str))
