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
from labeled_traces.raters import LOOKED_AT, whole_run
from labeled_traces.trace import JSON, text_hash

IMPORTED = "label_import"
"""In a row's metadata: place -> what came from there: labels as hashes, raters, and what `clean` was before."""
_RATER, _CLEAN = "rater ", "clean "
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
    came = [name for name in said.raters if name not in row.raters or f"{_RATER}{name}" in earlier]
    gone = {name for name in row.raters if f"{_RATER}{name}" in earlier and name not in said.raters}
    was = next((one.removeprefix(_CLEAN) for one in earlier if one.startswith(_CLEAN)), row.clean)
    now = [*map(_hash, said.errors), *map(_hash, said.scores)]
    errors = _merged(row.errors, said.errors, earlier, counts)
    scores = _merged(row.scores, said.scores, earlier, counts)
    if not now and not earlier and said.clean == "unknown":
        return row
    kept = sorted([*now, *(f"{_RATER}{name}" for name in came), *([f"{_CLEAN}{was}"] if was != "checked" else [])])
    new = replace(
        row,
        errors=errors,
        scores=scores,
        raters=tuple(dict.fromkeys([*(name for name in row.raters if name not in gone), *said.raters])),
        metadata={**_about(row.metadata, said.metadata, gone), IMPORTED: {**before, place: kept}},
    )
    read = said.clean == "checked" or (row.clean == "checked" and bool(whole_run(new)))
    return replace(new, clean="checked" if read else was)


def _about(old: Mapping[str, JSON], new: Mapping[str, JSON], gone: set[str]) -> dict[str, JSON]:
    """The metadata of both: of other raters what was known stays, of those who have gone nothing."""
    result = {**old, **new}
    times = {**(old.get(LOOKED_AT) or {}), **(new.get(LOOKED_AT) or {})}
    biased = [*(old.get(SAW_VERDICTS) or ()), *(new.get(SAW_VERDICTS) or ())]
    if LOOKED_AT in result:
        result[LOOKED_AT] = {name: time for name, time in times.items() if name not in gone}
    if SAW_VERDICTS in result:
        result[SAW_VERDICTS] = sorted(set(biased) - gone)
    return result


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
