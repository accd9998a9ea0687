"""What people said about a trace: errors at spans, and scores per dimension."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from labeled_traces.trace import TraceError

DIMENSIONS: dict[str, str] = {
    "goal_fulfillment": "GF",
    "logical_consistency": "LC",
    "execution_efficiency": "EE",
    "plan_quality": "PQ",
    "plan_adherence": "PA",
    "tool_selection": "TS",
    "tool_calling": "TC",
}
"""Dimension name -> short code. A dimension is data: this line and a rubric folder in `judges/prompts`."""

SCORES = (0, 1, 2, 3)
NOT_PLACED = "not placed"
"""The category of an error that is known by its score alone."""


class Impact(IntEnum):
    """How much an error matters; also the severity that a judge gives a finding."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3

    @classmethod
    def parse(cls, text: str) -> Impact:
        """Reads `low`, `Medium`, ` HIGH ` ...

        Raises:
            TraceError: anything else.
        """
        try:
            return cls[text.strip().upper()]
        except (KeyError, AttributeError):
            raise TraceError(f"impact {text!r} is unknown: accepted are low, medium and high") from None

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class ErrorLabel:
    """One error that a person saw. `span_id` is None where the person named no (known) span.

    Empty `dimensions`: the error lies outside GPA (environment, user, guardrail); it is kept and reported apart. One
    that is named twice is kept once.
    `category` is the source's own word for the kind of error. `time`: when it was said, in seconds since the epoch.
    """

    span_id: str | None
    dimensions: tuple[str, ...]
    category: str
    impact: Impact
    description: str = ""
    evidence: str = ""
    rater: str = ""
    time: float | None = None

    def __post_init__(self) -> None:
        for name in self.dimensions:
            check_dimension(name)
        object.__setattr__(self, "dimensions", tuple(dict.fromkeys(self.dimensions)))


@dataclass(frozen=True)
class ScoreLabel:
    """A person's 0-3 score of one dimension. `time`: when it was given, in seconds since the epoch."""

    dimension: str
    score: int
    rater: str = ""
    time: float | None = None

    def __post_init__(self) -> None:
        check_dimension(self.dimension)
        if self.score not in SCORES:
            raise TraceError(f"score {self.score!r} is unknown: accepted are 0, 1, 2 and 3")


def check_dimension(name: str) -> str:
    """Returns the name.

    Raises:
        TraceError: not a known dimension.
    """
    if name not in DIMENSIONS:
        raise TraceError(f"dimension {name!r} is unknown: accepted are {', '.join(DIMENSIONS)}")
    return name


def score_from_impacts(impacts: Iterable[Impact]) -> int:
    """The anchored scale: 3 no error, 2 low-impact errors only, 1 a medium-impact error, 0 a high-impact error."""
    return 3 - max((int(impact) for impact in impacts), default=0)


def not_placed(errors: Iterable[ErrorLabel], scores: Iterable[tuple[ScoreLabel, str]]) -> list[ErrorLabel]:
    """The errors that nobody has marked: of (score, reason) pairs those below the best, in dimensions without one."""
    placed = {name for error in errors for name in error.dimensions}
    return [
        ErrorLabel(
            span_id=None,
            dimensions=(score.dimension,),
            category=NOT_PLACED,
            impact=Impact(max(SCORES) - score.score),
            description=reason,
            rater=score.rater,
            time=score.time,
        )
        for score, reason in scores
        if score.score < max(SCORES) and score.dimension not in placed
    ]
