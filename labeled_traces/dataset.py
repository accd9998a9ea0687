"""Labelled traces by id; JSON Lines in and out, one labelled trace a line, streamed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from labeled_traces.label import ErrorLabel, ScoreLabel
from labeled_traces.trace import JSON, Trace


@dataclass(frozen=True)
class LabeledTrace:
    """A trace with what people said of it.

    `group` holds the traces of one task together in a split. `clean`: what no errors mean, `checked` (people looked) or
    `presumed` (it reached its goal, nobody looked). `reference` is the answer, never shown to a judge unless the
    user allows it. All raters' labels are kept.
    """

    trace: Trace
    errors: tuple[ErrorLabel, ...] = ()
    scores: tuple[ScoreLabel, ...] = ()
    group: str = ""
    clean: str = "checked"
    reference: str | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def trace_id(self) -> str:
        return self.trace.trace_id

    def errors_of(self, dimension: str) -> tuple[ErrorLabel, ...]:
        return tuple(error for error in self.errors if dimension in error.dimensions)
