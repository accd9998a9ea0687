"""Where raters disagree: at which spans, and in which scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import DIMENSIONS, ErrorLabel
from labeled_traces.raters import marked, whole_run


def disagreements(rows: Sequence[LabeledTrace]) -> list[dict[str, Any]]:
    """Spans (None: no span named) of traces with two readers or more whose labels differ in dimension, or are not
    everybody's; and dimensions with different scores. Each says what every rater said, an empty list for nothing."""
    result: list[dict[str, Any]] = []
    for row in rows:
        readers = whole_run(row)
        for span_id in dict.fromkeys(error.span_id for error in marked(row)) if len(readers) > 1 else ():
            here = [error for error in marked(row) if error.span_id == span_id]
            said = {name: [error for error in here if error.rater == name] for name in readers}
            kinds = {frozenset((e.dimensions or (e.category,)) for e in errors) for errors in said.values()}
            if len(kinds) > 1:
                words = {name: [_words(error) for error in errors] for name, errors in said.items()}
                result.append({"trace_id": row.trace_id, "span_id": span_id, "said": words})
        for name in DIMENSIONS:
            scores = {score.rater: score.score for score in row.scores if score.dimension == name}
            if len(set(scores.values())) > 1:
                result.append({"trace_id": row.trace_id, "dimension": name, "scores": scores})
    return result


def _words(error: ErrorLabel) -> dict[str, Any]:
    return {
        "dimensions": list(error.dimensions),
        "category": error.category,
        "impact": str(error.impact),
        "description": error.description,
    }
