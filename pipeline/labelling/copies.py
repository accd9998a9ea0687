"""A trace as it stands in an experiment for labelling: under ids of its own, which join back.

An id of MLflow's belongs to one experiment, so a copy needs new ones. They follow from the experiment and the old ones:
the same data set finds its copies again, and whoever sends it twice makes none twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from labeled_traces.trace import Trace, text_hash
from labeled_traces.writers.ids import HexIds

ORIGINAL_TRACE = "gpa_judges.trace_id"
"""The tag of a copy that names its original."""
LABELLING = "gpa_judges.labelling"
"""The tag of an experiment for labelling: BLIND, or WITH_VERDICTS."""
BLIND, WITH_VERDICTS = "blind", "with verdicts"


@dataclass(frozen=True)
class Copy:
    """`spans`: span id -> the one that the copy of the span has."""

    trace_id: str
    spans: Mapping[str, str]

    @classmethod
    def of(cls, trace: Trace, experiment_id: str) -> Copy:
        def new(*names: str) -> str:
            return text_hash("\n".join((experiment_id, trace.trace_id, *names)))

        return cls(f"tr-{new()[:32]}", {span_id: new(span_id)[:16] for span_id in trace.by_id})

    @property
    def hex_ids(self) -> HexIds:
        return HexIds(self.trace_id.removeprefix("tr-"), self.spans)

    def trace(self, original: Trace) -> Trace:
        spans = tuple(
            replace(span, span_id=self.spans[span.span_id], parent_id=span.parent_id and self.spans[span.parent_id])
            for span in original.spans
        )
        return Trace(self.trace_id, spans)
