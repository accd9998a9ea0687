"""OpenAI's batch API and servers that speak it, through OpenAI's own client: LiteLLM's refuses an answer that lacks a
field, and with it replies that are paid."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from judges.redact import redact
from pipeline.batch.calls import URL
from pipeline.batch.providers import CLOCKS_DIFFER, SECONDS, Status, calling, reading, told_id

if TYPE_CHECKING:
    from openai import OpenAI


class OpenAIBatches:
    """See `Provider`. https://platform.openai.com/docs/api-reference/batch"""

    def __init__(self, endpoint: str, key: str) -> None:
        # The variables are those that LiteLLM reads.
        self._base = endpoint or os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
        self._key = key

    def upload(self, path: Path) -> str:
        with self._calling(f"{path} was not uploaded") as client, path.open("rb") as file:
            # Without a retry: the file would have to be read again from its beginning.
            return told_id(client.with_options(max_retries=0).files.create(file=(path.name, file), purpose="batch").id)

    def create(self, path: Path, file_id: str) -> str:
        with self._calling(f"the batch of {path} was not created") as client:
            batches = client.with_options(max_retries=0).batches
            return told_id(batches.create(completion_window="24h", endpoint=URL, input_file_id=file_id).id)

    def created(self, file_id: str, _calls: int, since: float, /) -> list[str]:
        found: list[str] = []
        with self._calling("batches cannot be listed") as client:
            # From the newest on, page by page.
            for batch in client.batches.list(limit=100):
                if batch.created_at < since - CLOCKS_DIFFER:
                    break
                if batch.input_file_id == file_id:
                    found.append(told_id(batch.id))
        return found

    def status(self, batch_id: str) -> Status:
        with self._calling(f"batch {batch_id} cannot be looked up") as client:
            batch = client.batches.retrieve(batch_id)
            told = getattr(batch, "request_counts", None)
            counts = {name: getattr(told, name, None) or 0 for name in ("total", "completed", "failed")}
            ids = {kind: getattr(batch, f"{name}_file_id", None) for kind, name in _FILES.items()}
            problems = getattr(getattr(batch, "errors", None), "data", None) or []
            return Status(
                status=told_id(batch.status),
                counts=counts,
                files={kind: str(file_id) for kind, file_id in ids.items() if file_id},
                detail=redact("; ".join(f"line {one.line}: {one.message}" for one in problems[:5])),
            )

    def content(self, file_id: str) -> bytes:
        with self._calling(f"file {file_id} cannot be had") as client:
            return client.files.content(file_id).content

    @contextmanager
    def _calling(self, what: str) -> Iterator[OpenAI]:
        """Raises: LMError, also for an answer that lacks what is needed of it."""
        from openai import OpenAI

        organization = os.environ.get("OPENAI_ORGANIZATION")
        with (
            calling(what),
            reading(what),
            OpenAI(api_key=self._key, base_url=self._base, organization=organization, timeout=SECONDS) as client,
        ):
            yield client


_FILES = {"replies": "output", "errors": "error"}
