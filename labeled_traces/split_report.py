"""What each part of a split holds, and what its testset is too small to say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from labeled_traces.dataset import Dataset
from labeled_traces.groups import connected, near
from labeled_traces.label import DIMENSIONS, Impact
from labeled_traces.split import SplitManifest
from labeled_traces.trace import JSON

REACH = 0.15
"""A share that is known no better than this (half of its 95 % interval) says little of a judge: found are a half of the
labels, or a third, or two thirds."""
_Z = 1.959964


@dataclass(frozen=True)
class Part:
    """`groups`: independent tasks. `labels`: dimension -> impact -> error labels, one of several dimensions in each;
    `outside`: labels outside GPA."""

    traces: int
    groups: int
    clean: int
    errors: int
    labels: Mapping[str, Mapping[str, int]]
    outside: int

    def to_json(self) -> JSON:
        return asdict(self)


def parts_of(manifest: SplitManifest, dataset: Dataset) -> dict[str, Part]:
    """Part -> what it holds."""
    group = dict(zip(dataset.ids, connected(dataset, near(dataset)), strict=True))
    found = {}
    for part, ids in manifest.parts.items():
        rows = dataset.subset(ids)
        errors = [error for row in rows for error in row.errors]
        counts = Counter((name, error.impact) for error in errors for name in error.dimensions)
        found[part] = Part(
            traces=len(ids),
            groups=len({group[trace_id] for trace_id in ids}),
            clean=sum(row.is_clean for row in rows),
            errors=sum(bool(error.dimensions) for error in errors),
            labels={name: {str(impact): counts[name, impact] for impact in Impact} for name in DIMENSIONS},
            outside=sum(not error.dimensions for error in errors),
        )
    return found


def reach(number: int) -> float:
    """Half of the 95 % interval of a share of so many, at worst: where a half of them is found.

    Source: Wilson, Probable inference, the law of succession, and statistical inference, JASA 22, 1927.
    """
    return _Z / (2 * math.sqrt(number + _Z**2))


def needed(half: float = REACH) -> int:
    """How many are needed at least, so that `reach` is no more."""
    return math.ceil(_Z**2 / (4 * half**2) - _Z**2)


def shortages(parts: Mapping[str, Part], dimensions: Sequence[str] = tuple(DIMENSIONS)) -> list[str]:
    """A warning for each kind of thing that the testset has too few of, with how many are missing.

    Of a dimension's labels: nothing can be said of this judge's coverage alone (a verdict on all judges together needs
    no number in each). Labels of one task are not independent, so what is needed is the least.
    """
    test, least = parts["testset"], needed()
    labels = {name: sum(test.labels[name].values()) for name in dimensions}
    kinds = (
        ("coverage of a judge alone", "labels", labels),
        ("share of false alarms", "clean traces", {"": test.clean}),
    )
    warnings = []
    for share, what, counts in kinds:
        few = [f"{name} {_shortage(count, least)}".lstrip() for name, count in counts.items() if count < least]
        if few:
            known = f"the {share} is known to within {REACH:g} from {least} {what} on, in the testset are"
            warnings.append(f"{known} {', '.join(few)}")
    return warnings


def _shortage(number: int, least: int) -> str:
    known = f"within {reach(number):.2f} at best" if number else "not known"
    return f"{number} ({known}, {least - number} more needed)"
