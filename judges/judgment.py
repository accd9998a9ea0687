"""What a judge said: findings, a score, or an outcome that says why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from labeled_traces.label import Impact

HOLISTIC = "holistic"
"""Stands where a dimension's name would: the one judge that reads a trace once for all dimensions."""

MOST_SPANS = 4
"""So many spans may a finding cite, by the reply format."""


class Outcome(StrEnum):
    """The closed list of ends of a judge call. Numbers are computed on `scored` (and `not_applicable`) alone."""

    SCORED = "scored"
    NOT_APPLICABLE = "not_applicable"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    UNPARSEABLE = "unparseable"
    TOO_LONG = "too_long"
    TIMEOUT = "timeout"
    PROVIDER_ERROR = "provider_error"
    NOT_RUN = "not_run"


@dataclass(frozen=True)
class Finding:
    """One problem that a judge reports. `span_ids` are the trace's own (most telling first), `confidence` is 0-100."""

    dimension: str
    span_ids: tuple[str, ...]
    explanation: str
    evidence: str = ""
    severity: Impact = Impact.MEDIUM
    confidence: int = 100

    @property
    def cited(self) -> tuple[str, ...]:
        """The spans that it points at. Those beyond the first few do not count: who names all spans points at none."""
        return self.span_ids[:MOST_SPANS]


@dataclass(frozen=True)
class Judgment:
    """One reply of one judge on one trace in one repeat.

    `dimension` is a dimension's name or `holistic` (then each finding names its own). `score` is 0-3, None unless
    `outcome` is `scored`. `detail` says why there is no score. `cut` is the number of trace characters that the
    rendering left out. `cached_tokens` are among the prompt's. `cost` is in dollars, None where unknown.
    """

    trace_id: str
    dimension: str
    program: str
    repeat: int
    outcome: Outcome
    score: int | None = None
    findings: tuple[Finding, ...] = ()
    rationale: str = ""
    detail: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    cut: int = 0
    warnings: tuple[str, ...] = ()
    cached_tokens: int = 0

    @property
    def usable(self) -> bool:
        return self.outcome in (Outcome.SCORED, Outcome.NOT_APPLICABLE)
