"""A split that grows: where a task falls depends on the task alone, never on what else there is."""

from __future__ import annotations

from labeled_traces.dataset import Dataset
from labeled_traces.split import SplitManifest, manifest_of
from labeled_traces.trace import text_hash


def stable_split(dataset: Dataset, seed: int, fractions: tuple[float, float, float]) -> SplitManifest:
    """Splits by a hash of each trace's group (its content where it has none), so that of two data sets split alike a
    task is in the same part of both: what one was tuned on is never held out of the other. Nothing is stratified, and a
    part can be empty.

    Rows of one content must have one group, as those of one request have.
    """
    bounds = fractions[0], fractions[0] + fractions[1]
    parts: tuple[list[str], list[str], list[str]] = ([], [], [])
    for row in dataset:
        place = int(text_hash(f"{seed}/{row.group or row.trace.content_hash}")[:12], 16) / 16**12
        parts[sum(place >= bound for bound in bounds)].append(row.trace_id)
    return manifest_of(dataset, seed, fractions, [sorted(part) for part in parts])
