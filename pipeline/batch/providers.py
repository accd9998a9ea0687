"""What a batch API does, in the few words that OpenAI's, Anthropic's and the simulated one share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from judges.lm import JudgeError, LMError
from judges.models.failure import Failure
from judges.redact import redact

SECONDS = 600.0
"""For one transfer."""
CLOCKS_DIFFER = 300.0
"""Seconds by which a provider's clock may differ from ours."""
_SHOWN = 200
ENDED = ("completed", "failed", "expired", "cancelled")
"""A batch that will not change any more; each but `failed` may have replies."""


@dataclass(frozen=True)
class Status:
    """`counts`: calls by what became of them. `files`: `replies` and `errors` -> id, where there are some. `detail`:
    what the provider says of a batch that failed."""

    status: str
    counts: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    detail: str = ""


class Provider(Protocol):
    """Every method raises LMError where the provider cannot be reached or refuses."""

    def upload(self, path: Path, /) -> str:
        """The id of the file there; empty where calls are sent with the creation of the batch."""

    def create(self, path: Path, file_id: str, /) -> str:
        """The id of the batch. From here on it is paid. Never tried twice. Not `LMError.billed`: it was not made."""

    def created(self, file_id: str, calls: int, since: float, /) -> list[str]:
        """Batches that an earlier `create`, whose end is not known, may have made; `since` is a Unix time."""

    def status(self, batch_id: str, /) -> Status: ...

    def content(self, file_id: str, /) -> bytes:
        """One of `Status.files`."""


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Raises: LMError, for whatever goes wrong in a library that talks to a provider; without secrets."""
    try:
        yield
    except (LMError, JudgeError):
        raise
    except Exception as error:
        failure = Failure.of(error, SECONDS)
        raise LMError(failure.kind, f"{what}: {failure.message}", billed=failure.billed) from None


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raises: LMError, for an answer of another shape than expected."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        said = redact(f"{type(error).__name__}: {error}")[:_SHOWN]
        raise LMError("provider_error", f"{what}: the answer is not that of a batch API ({said})") from None


def told_id(value: object) -> str:
    """Raises: ValueError, where it is none."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"the id is {value!r}")
    return value
