"""Traces that are not independent of each other: of one task, or of one content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from labeled_traces.dataset import LabeledTrace


def keys(row: LabeledTrace) -> list[tuple[str, str]]:
    """What joins a trace to others: kind of key, key."""
    return [("content", row.trace.content_hash), *([("group", row.group)] if row.group else [])]


def connected(rows: Iterable[LabeledTrace]) -> tuple[str, ...]:
    """For each row a name of the traces that it hangs together with, over any number of shared keys: the id of one of
    them."""
    rows = tuple(rows)
    parent = {row.trace_id: row.trace_id for row in rows}

    def find(trace_id: str) -> str:
        while parent[trace_id] != trace_id:
            parent[trace_id] = trace_id = parent[parent[trace_id]]
        return trace_id

    first_with: dict[tuple[str, str], str] = {}
    for row in rows:
        for key in keys(row):
            parent[find(row.trace_id)] = find(first_with.setdefault(key, row.trace_id))
    return tuple(find(row.trace_id) for row in rows)


def crowded(rows: Sequence[LabeledTrace]) -> str | None:
    """A warning, if one group holds more than a fifth of all traces (and more than two): no split can part it."""
    names = connected(rows)
    name, count = next(iter(Counter(names).most_common(1)), ("", 0))
    if count <= max(2, len(rows) / 5):
        return None
    first = next(row for row, own in zip(rows, names, strict=True) if own == name)
    what = f"{first.group!r}" if first.group else "without a name, of one content"
    return (
        f"{count} of {len(rows)} traces are one group ({what}; one is {first.trace_id!r}), which a split keeps "
        "together: where they are not runs of one task, give each row of the data the `group` that is its task"
    )
