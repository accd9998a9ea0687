"""Plan extraction: one call per trace, whose result the judges of plan quality and plan adherence are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judges.final_object import final_object
from judges.lm import LMRequest
from judges.notation import INPUT, bare_or_quoted, clean, prefixed
from judges.program import MLFLOW, JudgeProgram
from judges.prompt import PLAN_DIMENSIONS, prompt_text, span_id_schema, strict_object, with_trace
from judges.render import Rendering

SOURCES = ("labelled", "planning_text", "none")


@dataclass(frozen=True)
class ExtractedPlan:
    """`source` is `labelled` (passages that call themselves a plan), `planning_text` or `none`. `plans` holds span ids
    and texts in the order of the trace: the first is the plan, later ones are re-plans. An unknown span id is ""."""

    source: str
    plans: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """As it stands in a judge's prompt: every line of a plan is prefixed, so it can forge no heading."""
        blocks = []
        for number, (span_id, text) in enumerate(self.plans):
            name = f"Re-plan {number}" if number else "Plan"
            where = f", written in span {bare_or_quoted(span_id)}" if span_id else ""
            blocks.append(f"{name}{where}:\n{prefixed(INPUT, text)}")
        return "\n".join(blocks)


def wants_plan(program: JudgeProgram) -> bool:
    """Not in the layout `mlflow`: there a judge is one call."""
    knobs = program.knobs
    return knobs.plan_extraction and program.dimension in PLAN_DIMENSIONS and knobs.layout != MLFLOW


def plan_request(program: JudgeProgram, rendering: Rendering, seed: int | None = None) -> LMRequest:
    """The extraction call: equal for all judges and repeats that share a model and a rendering, so it is made once."""
    knobs = program.knobs
    return LMRequest(
        model=knobs.model,
        messages=with_trace(rendering, "# Task\n\n" + prompt_text("plan_extraction.md")),
        temperature=0.0,
        max_tokens=knobs.max_tokens,
        schema=_schema(rendering),
        endpoint=knobs.endpoint,
        seed=seed,
    )


def is_plan_request(request: LMRequest) -> bool:
    """Whether a call extracts a plan, which other calls are then shown."""
    return (request.schema or {}).get("required") == ["source", "plans"]


def parse_plan(text: str | None, span_ids: Sequence[str]) -> ExtractedPlan | None:
    """The plan as the model found it. None where the reply cannot be used or contradicts itself: that is not `none`."""
    answer, _ = final_object(text or "", ("source", "plans"))
    if answer is None or answer.get("source") not in SOURCES:
        return None
    rows = answer.get("plans")
    plans = tuple(
        (row["span_id"] if row.get("span_id") in span_ids else "", clean(row["text"]).strip())
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict) and isinstance(row.get("text"), str) and row["text"].strip()
    )
    if (answer["source"] == "none") == bool(plans):
        return None
    return ExtractedPlan(answer["source"], plans)


def _schema(rendering: Rendering) -> dict[str, Any]:
    plan = strict_object({"span_id": span_id_schema(rendering.span_ids), "text": {"type": "string", "maxLength": 1500}})
    return strict_object(
        {
            "source": {"type": "string", "enum": list(SOURCES)},
            "plans": {"type": "array", "items": plan, "maxItems": 5},
        }
    )
