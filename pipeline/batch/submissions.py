"""What was submitted, in a small file beside the calls, so that nothing is paid twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from labeled_traces.files import parse_json, read_text, write_lines
from labeled_traces.trace import TraceError
from pipeline.batch.call_files import same_export
from pipeline.batch.providers import ENDED
from pipeline.config import PipelineError

try:
    import fcntl
except ImportError:  # only POSIX has it
    fcntl = None  # type: ignore[assignment]

_STATE = ".batches.json"
REPLIES = "replies"
"""How names of files of replies begin."""


@dataclass(frozen=True)
class Batch:
    """One submission of a file's content (`sha256`). `file_id`, `batch_id`: the provider's, empty before it has told
    them. `tried`: when the creation was begun (Unix time), 0 before. `status`, `counts`: the last that were seen.
    `fetched`: it has ended, and `files` beside the calls are what it gave."""

    sha256: str
    calls: int
    provider: str
    model: str
    endpoint: str = ""
    submitted: str = ""
    file_id: str = ""
    tried: float = 0.0
    batch_id: str = ""
    status: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    fetched: bool = False
    files: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """Whether it may be running, or has replies that were not fetched."""
        return not self.fetched and not self.void and bool(self.tried)

    @property
    def void(self) -> bool:
        """Whether it has ended without a single reply: nothing is paid, and the same calls may be submitted again."""
        if self.fetched and not any(name.startswith(REPLIES) for name in self.files):
            return True
        # Where nothing was counted, there may be replies all the same: a fetch will tell.
        none = any(self.counts.values()) and not any(map(self.counts.get, ("completed", "succeeded")))
        return self.status == "failed" or (self.status in ENDED and none)


@dataclass
class Submissions:
    """The batches of one file of calls, in `<name>.batches.json` beside it."""

    calls: Path
    batches: list[Batch]

    @classmethod
    def of(cls, calls: Path) -> Submissions:
        """
        Raises:
            TraceError: the file beside it is damaged.
        """
        path = state_path(calls)
        if not path.exists():
            return cls(calls, [])
        try:
            rows = parse_json(read_text(path), str(path))["batches"]
            return cls(calls, [_batch(row) for row in rows])
        except (TypeError, KeyError) as error:
            raise TraceError(
                f"{path}: not what `batch submit` wrote ({error}): restore it; it says what is paid"
            ) from error

    def put(self, batch: Batch) -> Batch:
        """Adds it, or replaces the last state of it, on disk before anything else happens."""
        with self._current() as batches:
            place = next((i for i, known in enumerate(batches) if known.sha256 == batch.sha256), len(batches))
            batches[place : place + 1] = [batch]
            self._save()
        return batch

    def seen(self, batch: Batch, **changes: Any) -> Batch:
        """What the provider told of a batch that was submitted; what another process has put in its place stays."""
        with self._current() as batches:
            for i, known in enumerate(batches):
                if (known.sha256, known.batch_id) == (batch.sha256, batch.batch_id):
                    batch = replace(known, **changes)
                    if batch != known:
                        batches[i] = batch
                        self._save()
        return batch

    @contextmanager
    def _current(self) -> Iterator[list[Batch]]:
        """What is on the disk now, kept from other processes meanwhile: they put their batches into the same file."""
        with ExitStack() as held:
            if fcntl is not None:
                folder = os.open(self.calls.parent, os.O_RDONLY)
                held.callback(os.close, folder)
                hold(folder, wait=True)
            self.batches = self.of(self.calls).batches
            yield self.batches

    def _save(self) -> None:
        rows = [asdict(one) for one in self.batches]
        write_lines(state_path(self.calls), [json.dumps({"calls": self.calls.name, "batches": rows}, indent=1)])


def hold(handle: int, *, wait: bool) -> None:
    """Keeps other processes off what is open, until it is closed; where the file system has such locks.

    Raises:
        BlockingIOError: another process has it, and this one does not `wait`.
    """
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # some network file systems
            pass


def _batch(row: Mapping[str, Any]) -> Batch:
    """Raises: TypeError, KeyError."""
    batch = Batch(**{**row, "files": tuple(row["files"])})
    for name, usual in vars(Batch("", 0, "", "")).items():
        value = getattr(batch, name)
        if not isinstance(value, int | float if isinstance(usual, float) else type(usual)):
            raise TypeError(f"{name} is {value!r}")
    if not all(isinstance(number, int) for number in batch.counts.values()):
        raise TypeError(f"counts are {batch.counts!r}")
    if not all(isinstance(name, str) for name in batch.files):
        raise TypeError(f"files are {batch.files!r}")
    return batch


def state_path(calls: Path) -> Path:
    """Raises: PipelineError, where that is the name of no file."""
    if calls.name in ("", ".", ".."):
        raise PipelineError(f"{calls} is a folder: accepted is a file that `batch export` wrote")
    return calls.with_suffix(_STATE)


def beside(calls: Path) -> list[Path]:
    """Files of calls in the same folder that were submitted, this one among them; they may be gone."""
    names = sorted(path.name.removesuffix(_STATE) for path in calls.parent.glob(f"*{_STATE}"))
    return [calls.with_stem(name) for name in names]


def check_settled(calls: Path) -> None:
    """For an export that is to replace these calls, under this name or with a number.

    Raises:
        PipelineError: a batch of them may be running, or was not fetched: its calls would be exported once more.
    """
    for other in beside(calls):
        if not same_export(calls, other):
            continue
        if unsettled := [batch for batch in Submissions.of(other).batches if batch.open]:
            raise PipelineError(
                f"{other} was submitted as batch {unsettled[0].batch_id or '(interrupted)'}, and what that gave is not "
                f"fetched: its calls could be paid twice. Accepted is `batch fetch {other}` and `batch import` first, "
                f"or another --out; if the batch is given up for good, delete {state_path(other)}"
            )
