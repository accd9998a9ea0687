"""Several raters of one trace: who read the whole run, and the named rules that make one voice of them."""

from __future__ import annotations

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import NOT_PLACED

LOOKED_AT = "looked_at"
"""In a row's metadata: rater -> when one who marked nothing read the run, in seconds since the epoch."""


def whole_run(row: LabeledTrace) -> tuple[str, ...]:
    """The raters who read the whole run, in order: who says so, and who marked an error."""
    marked = {error.rater for error in row.errors if error.category != NOT_PLACED}
    return tuple(sorted({*row.raters, *marked}))
