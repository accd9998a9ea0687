"""The record of who read which held-out traces: one JSON object a line, never rewritten.

Uses are counted by the traces. Data that shares a single held-out trace with what was read before, by content or by id,
counts as read before: another order, other labels, a dropped trace or an edited one make no testset new.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.files import parse_json, read_lines
from labeled_traces.trace import TraceError, text_hash

_DIGITS = 16


@dataclass(frozen=True)
class HeldOutUse:
    """One use. `proof` is a hash of all that its outcome follows from; `programs`: judge name -> hash of its program;
    `traces`: as `names_of` has them. `readings` tells apart readings of one proof that were made
    anew. `id` and `time` tell it from any other."""

    proof: str
    model: str
    programs: Mapping[str, str]
    traces: tuple[str, ...]
    readings: str
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


def names_of(rows: Iterable[LabeledTrace]) -> tuple[str, ...]:
    """The traces as a use names them: the first digits of the hashes of their contents and of their ids."""
    hashes = (text for row in rows for text in (row.trace.content_hash, text_hash(f"id {row.trace_id}")))
    return tuple(sorted({text[:_DIGITS] for text in hashes}))


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
        except (TypeError, KeyError):
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
