"""What smolagents records around a step: options of a run that say nothing, and a step before anything was in it."""

from __future__ import annotations

import re
from dataclasses import replace

from labeled_traces.json_values import get
from labeled_traces.trace import JSON, Span, SpanKind

_OPTIONS = ("task", "stream", "reset", "images", "additional_args", "max_steps", "return_full_result")
_EMPTY_FIELD = re.compile(
    r"(?:\w+=(?:None|False|\[\]|\{\})|step_number=\d+|start_time=[\d.]+|timing=Timing\([^()]*\))(?:, |$)"
)


def plain_step(span: Span) -> Span:
    """The span without what a run of smolagents repeats; the very same if it is none."""
    if span.kind is SpanKind.AGENT and get(span.inputs, "task") is not None and span.inputs.keys() <= set(_OPTIONS):
        said = {key: value for key, value in span.inputs.items() if _says_something(key, value)}
        return replace(span, inputs=said["task"] if said.keys() == {"task"} else said)
    if span.kind is SpanKind.CHAIN and isinstance(step := get(span.inputs, "memory_step"), str) and _is_empty(step):
        return replace(span, inputs=None)
    return span


def _says_something(key: str, value: JSON) -> bool:
    return not (value is None or key == "stream" or (key == "reset" and value is True))


def _is_empty(step: str) -> bool:
    """`ActionStep(step_number=1, ..., observations=None, ...)`: the step is recorded before it has run."""
    inside = re.fullmatch(r"\w+Step\((.*)\)", step, re.DOTALL)
    return inside is not None and not _EMPTY_FIELD.sub("", inside[1]).strip()
