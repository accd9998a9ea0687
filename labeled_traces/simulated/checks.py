"""Deterministic rubric checks: they read nothing but the trace and find exactly the planted faults."""

from __future__ import annotations

from dataclasses import dataclass

from labeled_traces.label import Impact
from labeled_traces.trace import Trace


@dataclass(frozen=True)
class Problem:
    """One problem in a trace. `kind` is a key of `FAULTS`; `span_id` is the root cause, `symptom_id` where it shows."""

    kind: str
    dimensions: tuple[str, ...]
    span_id: str
    symptom_id: str
    impact: Impact
    description: str
    evidence: str


def find_problems(trace: Trace) -> list[Problem]:
    """Every problem of a trace of the simulated agent, in the order of the spans that caused them.

    Reads ids, names, kinds, parents, order, message texts, tool arguments and results, status and error; never
    `metadata`. A damaged trace hides problems; it never raises. A trace of another agent has none.
    """
    raise NotImplementedError
