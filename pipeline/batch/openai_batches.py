"""OpenAI's batch API (and servers that speak it), through LiteLLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judges.models.litellm_transport import load_litellm
from judges.redact import redact
from pipeline.batch.calls import URL
from pipeline.batch.providers import CLOCKS_DIFFER, SECONDS, Status, calling, told_id


class OpenAIBatches:
    """See `Provider`. https://platform.openai.com/docs/api-reference/batch"""

    def __init__(self, endpoint: str, key: str) -> None:
        self._litellm = load_litellm()
        self._to: dict[str, Any] = {
            "custom_llm_provider": "openai",
            "api_base": endpoint or None,
            "api_key": key,
            "timeout": SECONDS,
        }

    def upload(self, path: Path) -> str:
        with calling(f"{path} was not uploaded"), path.open("rb") as file:
            # Without a retry: the file would have to be read again from its beginning.
            done = self._litellm.create_file(file=(path.name, file), purpose="batch", max_retries=0, **self._to)
            return told_id(done.id)

    def create(self, path: Path, file_id: str) -> str:
        with calling(f"the batch of {path} was not created"):
            done = self._litellm.create_batch("24h", URL, file_id, max_retries=0, **self._to)
            return told_id(done.id)

    def created(self, file_id: str, _calls: int, since: float, /) -> list[str]:
        found: list[str] = []
        last: Any = None
        with calling("batches cannot be listed"):
            # From the newest on.
            while last is None or last.created_at > since - CLOCKS_DIFFER:
                page = self._litellm.list_batches(after=last and last.id, limit=100, **self._to)
                found += [str(batch.id) for batch in page.data if batch.input_file_id == file_id]
                if not page.data or not page.has_more:
                    break
                last = page.data[-1]
        return found

    def status(self, batch_id: str) -> Status:
        with calling(f"batch {batch_id} cannot be looked up"):
            batch = self._litellm.retrieve_batch(batch_id, **self._to)
        counts = {name: getattr(batch.request_counts, name, None) or 0 for name in ("total", "completed", "failed")}
        ids = {"replies": batch.output_file_id, "errors": batch.error_file_id}
        problems = (batch.errors.data or []) if batch.errors else []
        return Status(
            status=str(batch.status),
            counts=counts,
            files={kind: str(file_id) for kind, file_id in ids.items() if file_id},
            detail=redact("; ".join(f"line {one.line}: {one.message}" for one in problems[:5])),
        )

    def content(self, file_id: str) -> bytes:
        with calling(f"file {file_id} cannot be had"):
            return bytes(self._litellm.file_content(file_id, **self._to).content)
