"""A split that grows: a task stays in the part in which it was first, whatever else there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.groups import connected, near
from labeled_traces.sealed import is_telling
from labeled_traces.split import PARTS, SplitManifest, manifest_of
from labeled_traces.task_group import task_group
from labeled_traces.trace import text_hash


@dataclass(frozen=True)
class Place:
    """Where a trace was in a split. `content`, `group` and `task` are hashes, never text; `group` is "" where it has
    none, or where nobody knows. `task`: the group that a reader gives this trace, where the row's is another, since
    whoever set that may not set it again."""

    part: str
    trace_id: str
    content: str
    group: str = ""
    task: str = ""


def places_of(manifest: SplitManifest, dataset: Dataset | None = None) -> tuple[Place, ...]:
    """The places of all traces of a split; without the data that it split nothing is known of groups."""
    return tuple(
        Place(
            part,
            trace_id,
            _short(manifest.content_hashes[trace_id]),
            *((_group(dataset[trace_id]), _task(dataset[trace_id])) if dataset is not None else ()),
        )
        for part, ids in manifest.parts.items()
        for trace_id in ids
    )


def held_before(rows: Iterable[LabeledTrace], places: Sequence[Place]) -> tuple[list[LabeledTrace], list[LabeledTrace]]:
    """Those of the rows that are in these places (by content, or by an id that is no word), and those of which another
    run of the task is."""
    ids = {place.trace_id for place in places if is_telling(place.trace_id)} | {place.content for place in places}
    tasks = {task for place in places for task in (place.group, place.task) if task}
    same = [row for row in rows if not ids.isdisjoint((row.trace_id, content_of(row)))]
    return same, [row for row in rows if row not in same and _group(row) in tasks]


def content_of(row: LabeledTrace) -> str:
    """What `Place.content` is of this row."""
    return _short(row.trace.content_hash)


def parts_by_key(places: Iterable[Place]) -> dict[str, str]:
    """Content, group or task -> its part. What was in several is where it may have been tuned on: what judges were
    tuned on is never held out."""
    found: dict[str, str] = {}
    for place in places:
        for key in filter(None, (place.content, place.group, place.task)):
            found[key] = min(place.part, found.get(key, place.part), key=PARTS.index)
    return found


def stable_split(
    dataset: Dataset,
    seed: int,
    fractions: tuple[float, float, float],
    known: Mapping[str, str] = MappingProxyType({}),
) -> SplitManifest:
    """Splits by tasks: traces of one group, session or content (or nearly so), over any number of these, stay together.
    A task that is `known` (see `parts_by_key`) stays in its part; any other falls by a hash of its group (its content
    where it has none), so that two data sets are split alike. Nothing is stratified, and a part can be empty."""
    tasks: dict[str, list[LabeledTrace]] = {}
    for row, task in zip(dataset, connected(dataset, near(dataset)), strict=True):
        tasks.setdefault(task, []).append(row)
    parts: dict[str, list[str]] = {part: [] for part in PARTS}
    for rows in tasks.values():
        earlier = {known.get(key, "") for row in rows for key in (content_of(row), _group(row))}
        part = next((part for part in PARTS if part in earlier), None) or _by_hash(rows, seed, fractions)
        parts[part] += [row.trace_id for row in rows]
    return manifest_of(dataset, seed, fractions, [sorted(parts[part]) for part in PARTS])


def _by_hash(rows: Iterable[LabeledTrace], seed: int, fractions: tuple[float, float, float]) -> str:
    task = min((not row.group, row.group or row.trace.content_hash) for row in rows)[1]
    place = int(text_hash(f"{seed}/{task}")[:12], 16) / 16**12
    return PARTS[(place >= fractions[0]) + (place >= fractions[0] + fractions[1])]


def _group(row: LabeledTrace) -> str:
    return _short(text_hash(row.group)) if row.group else ""


def _task(row: LabeledTrace) -> str:
    task = task_group(row.trace)
    return _short(text_hash(task)) if task not in ("", row.group) else ""


def _short(digest: str) -> str:
    return digest[:16]
