"""What people said in one place, merged into the rows of a data set: all raters are kept, and nothing is there twice.

A row remembers which of its labels came from which place. Another import from there adds what is new, and takes back
what people have changed or withdrawn; labels from elsewhere stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, ScoreLabel
from labeled_traces.trace import JSON, text_hash

IMPORTED = "label_import"
"""In a row's metadata: place -> what came from there, as hashes."""
Label = TypeVar("Label", bound=ErrorLabel | ScoreLabel)
SAW_VERDICTS = "labelled_with_verdicts"
"""In a row's metadata: the raters who saw what judges had said."""


@dataclass
class Merged:
    """How many labels an import added, found there already, and took back."""

    added: int = 0
    known: int = 0
    withdrawn: int = 0


def merge(row: LabeledTrace, said: LabeledTrace, place: str, counts: Merged) -> LabeledTrace:
    """The row with what was said of its trace in `place`; `counts` is told."""
    before: Mapping[str, JSON] = row.metadata.get(IMPORTED) or {}
    earlier = set(before.get(place) or ())
    now = [*map(_hash, said.errors), *map(_hash, said.scores)]
    errors = _merged(row.errors, said.errors, earlier, counts)
    scores = _merged(row.scores, said.scores, earlier, counts)
    if not now and not earlier and said.clean == "unknown":
        return row
    return replace(
        row,
        errors=errors,
        scores=scores,
        clean="checked" if said.clean == "checked" else row.clean,
        raters=tuple(dict.fromkeys([*row.raters, *said.raters])),
        metadata={**row.metadata, **said.metadata, IMPORTED: {**before, place: sorted(now)}},
    )


def _merged(old: tuple[Label, ...], new: tuple[Label, ...], earlier: set[str], counts: Merged) -> tuple[Label, ...]:
    said = {_hash(label): label for label in new}
    kept = [label for label in old if _hash(label) in said or _hash(label) not in earlier]
    there = {_hash(label) for label in kept}
    counts.withdrawn += len(old) - len(kept)
    counts.known += len(said.keys() & there)
    added = [label for key, label in said.items() if key not in there]
    counts.added += len(added)
    return (*kept, *added)


def _hash(label: ErrorLabel | ScoreLabel) -> str:
    return text_hash(json.dumps(asdict(label), sort_keys=True))[:16]
