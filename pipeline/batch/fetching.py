"""Looks at batches that were submitted, and saves what they gave."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from judges.redact import hide_values
from labeled_traces.files import write_lines
from labeled_traces.trace import text_hash
from pipeline.batch.connect import open_provider
from pipeline.batch.providers import ENDED, Status
from pipeline.batch.submissions import Batch, Submissions, state_path
from pipeline.config import PipelineError
from pipeline.prepare import Say

_LONGEST = 100
"""Characters of a provider's id in the name of a file."""


def look(calls: Path) -> list[tuple[Batch, Status]]:
    """Every batch of the file and how it stands now.

    Raises:
        PipelineError: nothing was submitted.
        LMError: the provider failed.
    """
    told = _submitted(calls)
    return [_look(told, batch) for batch in list(told.batches)]


def fetch(calls: Path, say: Say) -> list[tuple[Batch, Status]]:
    """Saves the replies and errors of batches that have ended, beside the calls; of the last one also where they were
    deleted since. Raises as `look` does."""
    told = _submitted(calls)
    *earlier, last = told.batches
    if not all(calls.with_name(name).exists() for name in last.files):
        last = replace(last, fetched=False)
    found = []
    for batch in (*earlier, last):
        batch, status = _look(told, batch)
        if status.status in ENDED and (status.files or not batch.fetched):
            batch = told.seen(batch, fetched=True, files=tuple(_save(calls, batch, status, say)))
        found.append((batch, status))
    return found


def _submitted(calls: Path) -> Submissions:
    told = Submissions.of(calls)
    if not told.batches:
        raise PipelineError(f"{calls} was not submitted (there is no {state_path(calls)}): accepted is that, first")
    return told


def _look(told: Submissions, batch: Batch) -> tuple[Batch, Status]:
    if batch.fetched:
        return batch, Status(batch.status, batch.counts)
    if not batch.batch_id:
        return batch, Status("interrupted", detail="start the last `batch submit` again")
    status = open_provider(batch.provider, batch.endpoint, told.calls).status(batch.batch_id)
    return told.seen(batch, status=status.status, counts=status.counts), status


def _save(calls: Path, batch: Batch, status: Status, say: Say) -> Iterator[str]:
    service = open_provider(batch.provider, batch.endpoint, calls)
    # Ids are a provider's: any text, of any length.
    name = re.sub(r"[^\w.-]", "_", batch.batch_id)
    if name != batch.batch_id or len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}-{text_hash(batch.batch_id)[:8]}"
    for kind, file_id in status.files.items():
        path = calls.with_name(f"{kind}-{name}.jsonl")
        text = hide_values(service.content(file_id).decode("utf-8", "replace"))
        write_lines(path, text.removesuffix("\n").split("\n"))
        say(f"saved {path}")
        yield path.name
