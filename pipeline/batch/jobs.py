"""Batches at a provider: submitted once, looked at, and fetched."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judges.ledger.budget import Budget, Price
from judges.lm import LMRequest
from judges.models.connect import check_name
from judges.redact import hide_values
from labeled_traces.files import parse_json, read_lines, write_lines
from pipeline.batch.call_files import is_call
from pipeline.batch.calls import provider_of
from pipeline.batch.connect import open_provider
from pipeline.batch.prices import BatchPrices, file_cost
from pipeline.batch.providers import ENDED, Provider, Status
from pipeline.batch.submissions import Batch, Submissions, beside, state_path
from pipeline.config import PipelineError
from pipeline.consent import Consent
from pipeline.cost import announce
from pipeline.prepare import Say

try:
    import fcntl
except ImportError:  # only POSIX has it
    fcntl = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Terms:
    """To which model at which endpoint, at which prices, and who agrees to the cost."""

    model: str
    endpoint: str = ""
    prices: Mapping[str, Price] = field(default_factory=dict)
    consent: Consent = field(default_factory=Consent)


def submit(calls: Path, terms: Terms, say: Say) -> Batch:
    """Uploads a file of calls and starts its batch; the same content again is the same batch.

    Raises:
        PipelineError, TraceError, JudgeError: not a file of calls to this model; or an earlier content of the file is
            not settled, so its calls could be paid twice.
        LMError: the provider failed or refused. The same command again goes on.
    """
    with _held(calls):
        return _submit(calls, terms, say)


def _submit(calls: Path, terms: Terms, say: Say) -> Batch:
    model, endpoint = terms.model, terms.endpoint
    check_name(model, endpoint)
    provider, name = provider_of(model, endpoint)
    fresh = Batch(_sha256(calls), _check(calls, name), provider, model, endpoint)
    told = Submissions.of(calls)
    batch = next((one for one in told.batches if one.sha256 == fresh.sha256), None)
    service = open_provider(provider, endpoint, calls)
    if batch is not None and (batch.provider, batch.endpoint) != (provider, endpoint) and batch.tried:
        raise PipelineError(
            f"{calls} was submitted to {batch.provider} {batch.endpoint}".rstrip()
            + ": accepted is the same --model and --endpoint; else its calls could be paid twice"
        )
    if batch is not None and batch.batch_id:
        if not batch.fetched:
            now = service.status(batch.batch_id)
            batch = told.put(replace(batch, status=now.status, counts=now.counts))
        if not batch.void:
            say(f"{calls} was submitted before: batch {batch.batch_id}, {batch.status}")
            return batch
        batch = None
    if others := [one for one in told.batches if one.open and one.sha256 != fresh.sha256]:
        raise PipelineError(
            f"{calls} held other calls when batch {others[0].batch_id or '(interrupted)'} was submitted, and what that "
            f"gave is not fetched: accepted after `batch fetch {calls}`, `batch import` and a new `batch export`; "
            "else calls could be paid twice"
        )
    if batch is None or not batch.tried:
        _agree(calls, terms, say)
    batch = told.put(batch or fresh)
    if not batch.file_id:
        batch = told.put(replace(batch, file_id=service.upload(calls)))
    batch_id = _adopt(service, batch, calls) if batch.tried else ""
    if not batch_id:
        batch = told.put(replace(batch, tried=time.time()))
        batch_id = service.create(calls, batch.file_id)
    return told.put(replace(batch, batch_id=batch_id, submitted=datetime.now(UTC).isoformat(timespec="seconds")))


def _agree(calls: Path, terms: Terms, say: Say) -> None:
    """Raises: PipelineError, where the cost is large and nobody agrees to it."""
    request = LMRequest(terms.model, (), endpoint=terms.endpoint)
    prices = BatchPrices(terms.prices)
    half = " (dollars at the price of a batch: half)" if prices.part(request) < 1 else ""
    announce(file_cost(calls, request, prices), Budget(), lambda line: say(line + half), terms.consent)


def _adopt(service: Provider, batch: Batch, calls: Path) -> str:
    """The batch of an attempt that was interrupted; empty where it made none."""
    known = {one.batch_id for path in beside(calls) for one in Submissions.of(path).batches}
    found = [name for name in service.created(batch.file_id, batch.calls, batch.tried) if name not in known]
    if len(found) > 1:
        raise PipelineError(
            f"the last `batch submit {calls}` was interrupted, and {' or '.join(found)} may be its batch: accepted is "
            f"the right one's id, written as batch_id into {state_path(calls)}"
        )
    return found[0] if found else ""


def look(calls: Path) -> list[tuple[Batch, Status]]:
    """Every batch of the file and how it stands now.

    Raises:
        PipelineError: nothing was submitted.
        LMError: the provider failed.
    """
    told = Submissions.of(calls)
    if not told.batches:
        raise PipelineError(f"{calls} was not submitted (there is no {state_path(calls)}): accepted is that, first")
    found = []
    for batch in list(told.batches):
        if batch.fetched:
            found.append((batch, Status(batch.status, batch.counts)))
        elif batch.batch_id:
            status = open_provider(batch.provider, batch.endpoint, calls).status(batch.batch_id)
            found.append((told.put(replace(batch, status=status.status, counts=status.counts)), status))
        else:
            found.append((batch, Status("interrupted", detail="start the last `batch submit` again")))
    return found


def fetch(calls: Path, say: Say) -> list[tuple[Batch, Status]]:
    """Saves the replies and errors of batches that have ended, beside the calls. Raises as `look` does."""
    found = look(calls)
    told = Submissions.of(calls)
    for i, (batch, status) in enumerate(found):
        if status.status in ENDED and not batch.fetched:
            files = tuple(_save(calls, batch, status, say))
            found[i] = told.put(replace(batch, fetched=True, files=files)), status
    return found


def _save(calls: Path, batch: Batch, status: Status, say: Say) -> Iterator[str]:
    service = open_provider(batch.provider, batch.endpoint, calls)
    for kind, file_id in status.files.items():
        path = calls.with_name(f"{kind}-{batch.batch_id}.jsonl")
        text = hide_values(service.content(file_id).decode("utf-8", "replace"))
        write_lines(path, text.removesuffix("\n").split("\n"))
        say(f"saved {path}")
        yield path.name


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keeps another submission of the file away, as long as this process lives.

    Raises:
        PipelineError: another process submits the file, or there is none.
    """
    if not path.is_file():
        raise PipelineError(f"{path} is not there: accepted is a file that `batch export` wrote")
    with path.open("rb") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineError(f"{path} is being submitted by another process: accepted is one at a time") from None
        yield


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check(path: Path, model: str) -> int:
    """How many calls the file holds.

    Raises:
        PipelineError: a line is no call, or one to another model.
    """
    calls = 0
    for number, line in read_lines(path):
        row: Any = parse_json(line, f"{path}, line {number}")
        if not is_call(row):
            raise PipelineError(f"{path}, line {number}: no call: accepted is a file that `batch export` wrote")
        if row["body"].get("model") != model:
            raise PipelineError(
                f"{path}, line {number}: a call to {row['body'].get('model')}, not to {model}: accepted is the --model "
                "that `batch export` was given"
            )
        calls += 1
    if not calls:
        raise PipelineError(f"{path} holds no calls: accepted is a file that `batch export` wrote")
    return calls
