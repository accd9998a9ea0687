"""Traces that are not independent of each other: of one task, of one session, or of one content or nearly so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.near_duplicates import Near, near_duplicates


def keys(row: LabeledTrace) -> list[tuple[str, str]]:
    """What joins a trace to others: kind of key, key."""
    session = row.metadata.get("session", row.trace.metadata.get("session"))
    named = {"group": row.group, "session": "" if session is None else str(session)}
    return [("content", row.trace.content_hash), *((kind, key) for kind, key in named.items() if key)]


@lru_cache(maxsize=4)
def near(dataset: Dataset) -> tuple[Near, ...]:
    """`near_duplicates` of a data set, looked for once: its traces never change."""
    return near_duplicates([row.trace for row in dataset])


def connected(rows: Iterable[LabeledTrace], links: Iterable[Near] = ()) -> tuple[str, ...]:
    """For each row a name of the traces that it hangs together with, over any number of shared keys and `links`: the id
    of one of them."""
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
    for link in links:
        parent[find(rows[link.first].trace_id)] = find(rows[link.second].trace_id)
    return tuple(find(row.trace_id) for row in rows)


def crowded(rows: Sequence[LabeledTrace], links: Iterable[Near] = ()) -> str | None:
    """A warning, if one group holds more than a fifth of all traces (and more than two): no split can part it."""
    names = connected(rows, links)
    name, count = next(iter(Counter(names).most_common(1)), ("", 0))
    if count <= max(2, len(rows) / 5):
        return None
    first = next(row for row, own in zip(rows, names, strict=True) if own == name)
    what = f"{first.group!r}" if first.group else "without a name, of one content or nearly so"
    return (
        f"{count} of {len(rows)} traces are one group ({what}; one is {first.trace_id!r}), which a split keeps "
        "together: where they are not runs of one task, give each row of the data the `group` that is its task"
    )
