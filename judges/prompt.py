"""Program + rendered trace -> messages, and the JSON Schema of the reply.

What all judges and repeats share stands first (system text, fenced trace), so that a provider's or server's prefix
cache serves it; the judge's own texts follow. Texts are joined, never formatted: a brace stays a brace.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from judges.judgment import HOLISTIC, Outcome
from judges.lm import Message
from judges.notation import INPUT, clean, json_text, prefixed
from judges.program import PROMPTS, JudgeProgram
from judges.render import Rendering
from labeled_traces.label import DIMENSIONS, SCORES, Impact
from labeled_traces.trace import text_hash

NOT_APPLICABLE = Outcome.NOT_APPLICABLE.value
PLAN_DIMENSIONS = ("plan_quality", "plan_adherence")
"""The dimensions that a trace without a plan has no score for, and that an extracted plan is shown to."""

ENUM_LIMITS = (500, 15_000)
"""Most span ids, and most characters in all of them, that a schema lists: endpoints refuse longer enumerations."""


def build_messages(program: JudgeProgram, rendering: Rendering, plan: str | None) -> tuple[Message, Message]:
    """System and user message of one judge call. `plan` is an extracted plan, None to show none."""
    sections = {
        "Rubric": program.rubric,
        "Do not judge": exclusions(program.dimension),
        "How this agent works": program.architecture_notes,
        "Extracted plan": plan or "",
        "Examples": _examples(program.shown_examples),
        "Output": program.output_template,
        "Reply format": contract(program.dimension),
    }
    parts = [f"## {heading}\n\n{text.strip()}" for heading, text in sections.items() if text.strip()]
    return with_trace(rendering, "\n\n".join([f"# Task\n\nJudge: {program.dimension}", *parts]))


def with_trace(rendering: Rendering, tail: str) -> tuple[Message, Message]:
    """The shared beginning (system text, fenced trace), then the tail."""
    fence = fence_line(rendering.text)
    return (
        Message("system", prompt_text("system.md")),
        Message("user", f"{fence}\n{rendering.text}{fence}\n\n{tail}\n"),
    )


def fence_line(text: str) -> str:
    """The line above and below a trace; its token comes from the text's hash and occurs nowhere in the text."""
    digest = text_hash(text)
    length = next((n for n in range(8, len(digest)) if digest[:n] not in text), len(digest))
    return f"===== TRACE {digest[:length]} ====="


def exclusions(dimension: str) -> str:
    """The "do not judge" list of a dimension: contract, not searched text. The holistic judge has none."""
    return "" if dimension == HOLISTIC else prompt_text(f"{dimension}/exclusions.md")


def contract(dimension: str) -> str:
    """The reply format in words, score anchors included: contract, not searched text."""
    names = ["contract.md"]
    if dimension in PLAN_DIMENSIONS:
        names.append("contract_plan.md")
    if dimension == HOLISTIC:
        names.append("contract_holistic.md")
    return "\n\n".join(map(prompt_text, names))


@cache
def prompt_text(name: str) -> str:
    """A shipped prompt file, without white space at its ends."""
    return Path(PROMPTS, name).read_text(encoding="utf-8").strip()


def reply_schema(dimension: str, span_ids: Sequence[str]) -> dict[str, Any]:
    """JSON Schema of the reply: reason before score, span ids from the trace's own.

    Strings and arrays are bounded: the longest reply is about 7,500 characters (2,000 tokens, 5,000 for the holistic
    judge), so with `max_tokens` of 2,048 (holistic 5,000) a reply that keeps to it is not cut.
    """
    findings: dict[str, Any] = {
        "span_ids": {"type": "array", "items": span_id_schema(span_ids), "maxItems": 4},
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


def _examples(rows: Sequence[dict[str, Any]]) -> str:
    return "\n\n".join(_example(number, row) for number, row in enumerate(rows, 1))


def _example(number: int, row: dict[str, Any]) -> str:
    reply = {"findings": row["findings"], "score": row.get("score")}
    return f"### Example {number}\n\n{prefixed(INPUT, clean(row['excerpt']))}\nReply: {json_text(reply)}"
