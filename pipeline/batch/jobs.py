"""Submits files of calls to a provider: each once, whatever is interrupted."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

from judges.ledger.budget import Budget, Price
from judges.lm import LMError, LMRequest
from judges.models.connect import check_name
from labeled_traces.files import parse_json, read_lines
from pipeline.batch.calls import Asked, provider_of
from pipeline.batch.connect import open_provider
from pipeline.batch.prices import BatchPrices, file_cost
from pipeline.batch.providers import Provider
from pipeline.batch.submissions import Batch, Submissions, beside, hold, state_path
from pipeline.config import PipelineError
from pipeline.consent import Consent
from pipeline.cost import Cost, announce
from pipeline.prepare import Say


@dataclass(frozen=True)
class Terms:
    """To which model at which endpoint, at which prices, and who agrees to the cost."""

    model: str
    endpoint: str = ""
    prices: Mapping[str, Price] = field(default_factory=dict)
    consent: Consent = field(default_factory=Consent)


def submit(files: Sequence[Path], terms: Terms, say: Say) -> dict[Path, Batch]:
    """Uploads files of calls and starts a batch for each; the same content again is the same batch. What all that are
    new may cost is agreed to before the first is sent.

    Raises:
        PipelineError, TraceError, JudgeError: not a file of calls to this model; or an earlier content of the file is
            not settled, or the same content was submitted under another name, so that calls could be paid twice.
        LMError: the provider failed or refused. The same command again goes on.
    """
    check_name(terms.model, terms.endpoint)
    with ExitStack() as held:
        for calls in dict.fromkeys(files):
            held.enter_context(_held(calls))
        jobs = [_Job.of(calls, terms) for calls in dict.fromkeys(files)]
        for one, other in combinations(jobs, 2):
            if one.batch.sha256 == other.batch.sha256:
                raise PipelineError(f"{one.calls} and {other.calls} hold the same calls: accepted is one of them")
        known = {job.calls: job.known(say) for job in jobs}
        _agree([job.calls for job in jobs if known[job.calls] is None and not job.batch.tried], terms, say)
        return {job.calls: known[job.calls] or job.send() for job in jobs}


@dataclass
class _Job:
    """One file of calls on its way to a provider. `batch`: how far it has come."""

    calls: Path
    told: Submissions
    service: Provider
    batch: Batch

    @classmethod
    def of(cls, calls: Path, terms: Terms) -> _Job:
        provider, name = provider_of(terms.model, terms.endpoint)
        fresh = Batch(_sha256(calls), _check(calls, name), provider, terms.model, terms.endpoint)
        told = Submissions.of(calls)
        batch = next((one for one in told.batches if one.sha256 == fresh.sha256), fresh)
        service = open_provider(provider, terms.endpoint, calls)
        if (batch.provider, batch.endpoint) != (provider, terms.endpoint):
            if batch.tried:
                raise PipelineError(
                    f"{calls} was submitted to {batch.provider} {batch.endpoint}".rstrip()
                    + ": accepted is the same --model and --endpoint; else its calls could be paid twice"
                )
            batch = fresh
        return cls(calls, told, service, batch)

    def known(self, say: Say) -> Batch | None:
        """The batch that these calls have already; None: they are to be submitted."""
        batch = self.batch
        if batch.batch_id:
            if not batch.fetched:
                now = self.service.status(batch.batch_id)
                batch = self.told.seen(batch, status=now.status, counts=now.counts)
            if not batch.void:
                say(f"{self.calls} was submitted before: batch {batch.batch_id}, {batch.status}")
                return batch
            self.batch = Batch(batch.sha256, batch.calls, batch.provider, batch.model, batch.endpoint)
        self._check_others()
        return None

    def _check_others(self) -> None:
        """Raises: PipelineError, if these calls, or earlier ones of the file, may be paid for already."""
        if others := [one for one in self.told.batches if one.open and one.sha256 != self.batch.sha256]:
            raise PipelineError(
                f"{self.calls} held other calls when batch {others[0].batch_id or '(interrupted)'} was submitted, and "
                f"what that gave is not fetched: accepted after `batch fetch {self.calls}`, `batch import` and a new "
                "`batch export`; else calls could be paid twice"
            )
        for path in beside(self.calls):
            for one in Submissions.of(path).batches if state_path(path) != state_path(self.calls) else ():
                if one.sha256 == self.batch.sha256 and one.tried and not one.void:
                    raise PipelineError(
                        f"{self.calls} holds what was submitted as {path}: batch {one.batch_id or '(interrupted)'}. "
                        f"Accepted is `batch fetch {path}`; else its calls would be paid twice"
                    )

    def send(self) -> Batch:
        """Each step is on disk before the next."""
        batch = self.told.put(self.batch)
        if not batch.file_id:
            batch = self.told.put(replace(batch, file_id=self.service.upload(self.calls)))
        batch_id = _adopt(self.service, batch, self.calls) if batch.tried else ""
        if not batch_id:
            if _sha256(self.calls) != batch.sha256:
                raise PipelineError(f"{self.calls} has changed while it was uploaded: no batch was started")
            batch = self.told.put(replace(batch, tried=time.time()))
            try:
                batch_id = self.service.create(self.calls, batch.file_id)
            except LMError as error:
                if not error.billed:  # there is no such batch, so all may be done anew, and elsewhere
                    self.told.put(replace(batch, tried=0.0, file_id=""))
                raise
        return self.told.put(
            replace(batch, batch_id=batch_id, submitted=datetime.now(UTC).isoformat(timespec="seconds"))
        )


def _agree(files: Sequence[Path], terms: Terms, say: Say) -> None:
    """Raises: PipelineError, where the cost is large and nobody agrees to it."""
    if not files:
        return
    request = LMRequest(terms.model, (), endpoint=terms.endpoint)
    prices = BatchPrices(terms.prices)
    half = " (dollars at the price of a batch: half)" if prices.part(request) < 1 else ""
    cost = sum((file_cost(calls, request, prices) for calls in files), Cost())
    announce(cost, Budget(), lambda line: say(line + half), terms.consent, {(terms.model, terms.endpoint)})


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
            hold(file.fileno(), wait=False)
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
        if Asked.of(row) is None:
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
