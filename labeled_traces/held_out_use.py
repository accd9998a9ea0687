"""The record of who read which held-out traces: one JSON object a line, never rewritten.

Uses are counted by the traces. Data that shares a single held-out trace with what was read before, by content or by id,
counts as read before: another order, other labels, a dropped trace or an edited one make no testset new, nor do copies
under other ids that are not quite equal (see `labeled_traces.sketches`).
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.files import parse_json, read_lines
from labeled_traces.sketches import Known, Sketch, sketches
from labeled_traces.trace import TraceError, text_hash

_DIGITS = 16


@dataclass(frozen=True)
class HeldOutUse:
    """One use. `proof` is a hash of all that its outcome follows from; `programs`: judge name -> hash of its program;
    `traces`: as `names_of` has them; `sketches`: of some of these. `readings` tells apart readings of one proof that
    were made anew. `id` and `time` tell it from any other."""

    proof: str
    model: str
    programs: Mapping[str, str]
    traces: tuple[str, ...]
    readings: str
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    sketches: Mapping[str, Sketch] = field(default_factory=dict)


def names_of(rows: Iterable[LabeledTrace], earlier: Iterable[HeldOutUse] = ()) -> tuple[str, ...]:
    """The traces as a use names them: the first digits of the hashes of their contents and of their ids, and the names
    of those in earlier uses that they are copies of."""
    known = _known(earlier)
    return tuple(sorted(set[str]().union(*(_names(row, known) for row in rows))))


def read_before(rows: Iterable[LabeledTrace], earlier: Sequence[HeldOutUse]) -> list[LabeledTrace]:
    """Those of the rows that an earlier use has read, or a copy of them."""
    seen, known = {name for use in earlier for name in use.traces}, _known(earlier)
    return [row for row in rows if not seen.isdisjoint(_names(row, known))]


def sketches_of(rows: Sequence[LabeledTrace]) -> dict[str, Sketch]:
    """Name -> sketch."""
    found = sketches([row.trace for row in rows])
    return {row.trace.content_hash[:_DIGITS]: sketch for row, sketch in zip(rows, found, strict=True)}


def _known(uses: Iterable[HeldOutUse]) -> Known:
    return Known({name: sketch for use in uses for name, sketch in use.sketches.items()})


def _names(row: LabeledTrace, known: Known) -> set[str]:
    own = (row.trace.content_hash, text_hash(f"id {row.trace_id}"))
    return {text[:_DIGITS] for text in own} | known.copied(row.trace)


def read_uses(path: Path) -> list[HeldOutUse]:
    """What `append_use` wrote; nothing where there is no file.

    Raises:
        TraceError: a line that is no use; names file and line.
    """
    if not path.exists():
        return []
    uses = []
    for number, line in read_lines(path):
        where = f"{path}, line {number}"
        values = parse_json(line, where)
        try:
            use = HeldOutUse(**{**values, "traces": tuple(values["traces"])})
            whole = all(isinstance(text, str) for text in (use.proof, use.readings, use.time, use.id, *use.traces))
            Known(use.sketches)
        except (AttributeError, TypeError, KeyError, ValueError):
            whole = False
        if not whole:
            raise TraceError(
                f"{where}: is no use of a testset as this program records it: mend the line, or delete it if you know "
                "what it was"
            )
        uses.append(use)
    return uses


def append_use(path: Path, use: HeldOutUse) -> None:
    """One more line, in a single write.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, (json.dumps(asdict(use)) + "\n").encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def is_same(use: HeldOutUse, earlier: HeldOutUse) -> bool:
    """Whether `use` goes on with, or looks again at, what `earlier` began: nothing new is learnt of the traces."""
    return (use.proof, use.readings) == (earlier.proof, earlier.readings)


def place_of(use: HeldOutUse, uses: Iterable[HeldOutUse]) -> int:
    """Which use of its traces this is, from 1: the uses up to it that share one of them."""
    traces = set(use.traces)
    earlier = {other.id for other in uses if other.time <= use.time and traces & set(other.traces)}
    return len(earlier | {use.id})
