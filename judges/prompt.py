"""Program + rendered trace -> messages, and the JSON Schema of the reply.

What all judges and repeats share stands first (system text, fenced trace), so that a provider's or server's prefix
cache serves it; the judge's own texts follow. Texts are joined, never formatted: a brace stays a brace.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from judges.judgment import HOLISTIC, MOST_SPANS, Outcome
from judges.lm import Message
from judges.notation import INPUT, clean, json_text, prefixed
from judges.program import MLFLOW, PROMPTS, SHARED_PREFIX, JudgeProgram
from judges.render import Rendering
from labeled_traces.label import DIMENSIONS, SCORES, Impact
from labeled_traces.trace import text_hash

NOT_APPLICABLE = Outcome.NOT_APPLICABLE.value
PLAN_DIMENSIONS = ("plan_quality", "plan_adherence")
"""The dimensions that a trace without a plan has no score for, and that an extracted plan is shown to."""

ENUM_LIMITS = (500, 15_000)
"""Most span ids, and most characters in all of them, that a schema lists: endpoints refuse longer enumerations."""


def build_messages(program: JudgeProgram, rendering: Rendering, plan: str | None) -> tuple[Message, Message]:
    """System and user message of one judge call in the layout `shared_prefix`. `plan` is an extracted plan to show."""
    return with_trace(rendering, build_tail(program, plan))


def build_tail(program: JudgeProgram, plan: str | None) -> str:
    """The judge's own texts, under headings."""
    sections = {
        "Rubric": program.rubric,
        "Do not judge": exclusions(program.dimension),
        "How this agent works": program.architecture_notes,
        "Extracted plan": plan or "",
        "Examples": _examples(program),
        "Output": program.output_template,
        "Reply format": contract(program.dimension, program.knobs.layout),
    }
    parts = [f"## {heading}\n\n{text.strip()}" for heading, text in sections.items() if text.strip()]
    return "\n\n".join([f"# Task\n\nJudge: {program.dimension}", *parts])


def with_trace(rendering: Rendering, tail: str) -> tuple[Message, Message]:
    """The shared beginning (system text, fenced trace), then the tail."""
    fence = fence_line(rendering.text)
    trace = f"{fence}\n{rendering.text}{fence}\n\n"
    return Message("system", system_text(SHARED_PREFIX)), Message("user", f"{trace}{tail}\n", shared=len(trace))


@lru_cache(maxsize=512)
def fence_line(text: str) -> str:
    """The line above and below a trace; its token comes from the text's hash and occurs nowhere in the text."""
    digest = text_hash(text)
    length = next((n for n in range(8, len(digest)) if digest[:n] not in text), len(digest))
    return f"===== TRACE {digest[:length]} ====="


def exclusions(dimension: str) -> str:
    """The "do not judge" list of a dimension: contract, not searched text. The holistic judge has none."""
    return "" if dimension == HOLISTIC else prompt_text(f"{dimension}/exclusions.md")


def system_text(layout: str) -> str:
    """What all judges are told of traces."""
    return _worded("system.md", layout)


def contract(dimension: str, layout: str = SHARED_PREFIX) -> str:
    """The reply format in words, score anchors included: contract, not searched text."""
    names = ["contract.md"]
    if dimension in PLAN_DIMENSIONS:
        names.append("contract_plan.md")
    if dimension == HOLISTIC:
        names.append("contract_holistic.md")
    return "\n\n".join(_worded(name, layout) for name in names)


@cache
def prompt_text(name: str) -> str:
    """A shipped prompt file, without white space at its ends."""
    return Path(PROMPTS, name).read_text(encoding="utf-8").strip()


@cache
def _worded(name: str, layout: str) -> str:
    """A shipped prompt file in the words of a layout."""
    words = yaml.safe_load(prompt_text("layouts.yaml"))[layout]
    return re.sub(r"\{(trace|rationale|findings|score)\}", lambda slot: str(words[slot[1]]), prompt_text(name))


def reply_schema(dimension: str, span_ids: Sequence[str]) -> dict[str, Any]:
    """JSON Schema of the reply: reason before score, span ids from the trace's own.

    Strings and arrays are bounded: the longest reply is about 7,500 characters (2,000 tokens, 5,000 for the holistic
    judge), so with `max_tokens` of 2,048 (holistic 5,000) a reply that keeps to it is not cut.
    """
    findings: dict[str, Any] = {
        "span_ids": {"type": "array", "items": span_id_schema(span_ids), "maxItems": MOST_SPANS},
        "explanation": {"type": "string", "maxLength": 300},
        "evidence": {"type": "string", "maxLength": 200},
        "severity": {"type": "string", "enum": [str(impact) for impact in Impact]},
        "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
    }
    if dimension == HOLISTIC:
        findings["dimension"] = {"type": "string", "enum": list(DIMENSIONS)}
    score: dict[str, Any] = {"type": "integer", "enum": list(SCORES)}
    if dimension in PLAN_DIMENSIONS:
        score = {"type": ["integer", "string"], "enum": [*SCORES, NOT_APPLICABLE]}
    return strict_object(
        {
            "rationale": {"type": "string", "maxLength": 800},
            "findings": {
                "type": "array",
                "items": strict_object(findings),
                "maxItems": 24 if dimension == HOLISTIC else 10,
            },
            "score": score,
        }
    )


def span_id_schema(span_ids: Sequence[str]) -> dict[str, Any]:
    """One of the trace's ids; any string where they are too many (then the parser alone checks them)."""
    count, characters = ENUM_LIMITS
    if 0 < len(span_ids) <= count and sum(map(len, span_ids)) <= characters:
        return {"type": "string", "enum": list(span_ids)}
    return {"type": "string", "maxLength": 200}


def strict_object(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these keys, as strict structured output wants it."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def mlflow_reply(rationale: str, findings: Any, score: Any) -> dict[str, Any]:
    """A reply in the two fields that a judge of MLflow may give: the findings close the rationale, as JSON."""
    text = f"{rationale}\n{json_text({'findings': findings})}".lstrip()
    return {"rationale": text, "result": None if score is None else str(score)}


def _examples(program: JudgeProgram) -> str:
    return "\n\n".join(_example(number, row, program) for number, row in enumerate(program.shown_examples, 1))


def _example(number: int, row: dict[str, Any], program: JudgeProgram) -> str:
    findings, score = row["findings"], row.get("score")
    in_mlflow = program.knobs.layout == MLFLOW
    reply = mlflow_reply("", findings, score) if in_mlflow else {"findings": findings, "score": score}
    return f"### Example {number}\n\n{prefixed(INPUT, clean(row['excerpt']))}\nReply: {json_text(reply)}"
