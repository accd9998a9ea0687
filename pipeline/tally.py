"""What an import counts of its rows while they pass by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from labeled_traces.dataset import LabeledTrace
from labeled_traces.groups import crowded
from labeled_traces.label import DIMENSIONS
from labeled_traces.trace import JSON, Span, Trace

_SHOWN = 40
_OUTER = 3


class Tally:
    """Traces and labels: how many, and of which dimensions. A label of two dimensions counts in both."""

    def __init__(self) -> None:
        self._counted: Counter[str] = Counter()
        self._dimensions: Counter[str] = Counter()
        self._of_none: Counter[str] = Counter()
        self._rows: list[tuple[str, str, str]] = []

    def add(self, row: LabeledTrace) -> None:
        clean = row.is_clean
        self._counted["traces"] += 1
        self._counted["clean"] += clean
        self._counted["presumed"] += clean and row.clean == "presumed"
        self._counted["labelled"] += bool(row.errors or row.scores) and not clean
        self._counted["labels"] += len(row.errors)
        self._counted["errors"] += len(row.distinct_errors)
        self._counted["scores"] += len(row.scores)
        self._dimensions.update(name for error in row.errors for name in error.dimensions)
        self._of_none.update(error.category for error in row.errors if not error.dimensions)
        self._rows.append((row.trace_id, row.group, _looks(row.trace)))

    def counts(self, unmapped: Counter[str]) -> dict[str, Any]:
        """`unmapped`: labels by categories that the taxonomy does not have; they are not counted as outside GPA."""
        found = self._counted
        not_known = sum(count for name, count in self._of_none.items() if name in unmapped)
        return {
            "traces": found["traces"],
            "labelled": found["labelled"],
            "clean": found["clean"],
            "presumed": found["presumed"],
            "unknown": found["traces"] - found["labelled"] - found["clean"],
            "labels": found["labels"],
            "errors": found["errors"],
            "dimensions": {name: self._dimensions[name] for name in DIMENSIONS},
            "outside_gpa": self._of_none.total() - not_known,
            "unmapped": not_known,
            "scores": found["scores"],
        }

    def crowded(self, rows: Iterable[LabeledTrace]) -> str | None:
        """As `groups.crowded`. `rows`, those that were added, are read again only where many look alike."""
        if crowded([_stub(*known) for known in self._rows]) is None:
            return None
        return crowded([_stub(row.trace_id, row.group, row.trace.content_hash) for row in rows])


def _stub(trace_id: str, group: str, content: str) -> LabeledTrace:
    """A row that is no larger than what it is grouped by."""
    trace = Trace(trace_id, (Span("-", None, ""),))
    vars(trace)["content_hash"] = content
    return LabeledTrace(trace, group=group)


def _looks(trace: Trace) -> str:
    """The same for traces of one content, and for few others: how the outer spans and their first words look."""
    spans = (*trace.spans[:_OUTER], *trace.spans[-_OUTER:])
    shown = ((span.kind, _start(span.name), _start(span.inputs), _start(span.outputs)) for span in spans)
    return str(hash((len(trace.spans), *shown)))


def _start(value: JSON) -> object:
    if isinstance(value, dict):
        return (len(value), frozenset((_start(key), _start(value[key])) for key in value) if len(value) < 3 else 0)
    if isinstance(value, list):
        return (len(value), _start(value[-1])) if value else 0
    return "".join(str(value)[: 10 * _SHOWN].split())[:_SHOWN]
