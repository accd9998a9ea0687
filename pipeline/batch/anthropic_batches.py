"""Anthropic's message batches. LiteLLM cannot create them (it can look one up, but then drops how many calls expired),
so these few calls are plain HTTP; what is sent of each call, and the headers, are LiteLLM's own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from judges.models.completion import part
from judges.models.litellm_transport import load_litellm
from judges.models.transport import ProviderError
from labeled_traces.files import parse_json, read_lines
from pipeline.batch.providers import CLOCKS_DIFFER, SECONDS, Status, calling, reading, told_id

BASE = "https://api.anthropic.com"
_STATUS = {"ended": "completed", "canceling": "cancelling"}


class AnthropicBatches:
    """See `Provider`. https://docs.anthropic.com/en/api/creating-message-batches"""

    def __init__(self, endpoint: str, key: str) -> None:
        base = endpoint or os.environ.get("ANTHROPIC_API_BASE") or os.environ.get("ANTHROPIC_BASE_URL") or BASE
        self._url = f"{base.rstrip('/').removesuffix('/v1')}/v1/messages/batches"
        self._headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def upload(self, _: Path, /) -> str:
        return ""

    def create(self, path: Path, _: str, /) -> str:
        headers: dict[str, str] = {}
        requests = [json.dumps(request, ensure_ascii=False) for request in _requests(path, headers)]
        body = f'{{"requests": [{", ".join(requests)}]}}'.encode()
        what = f"the batch of {path} was not created"
        headers["content-type"] = "application/json"
        with self._told(what, "POST", content=body, headers=headers) as made:
            return told_id(made["id"])

    def created(self, _: str, calls: int, since: float, /) -> list[str]:
        found: list[str] = []
        after = ""
        # From the newest on.
        while True:
            with self._told("batches cannot be listed", "GET", f"?limit=100{after}") as page:
                for batch in page["data"]:
                    if datetime.fromisoformat(batch["created_at"]).timestamp() < since - CLOCKS_DIFFER:
                        return found
                    if sum(batch["request_counts"].values()) == calls:
                        found.append(told_id(batch["id"]))
                if not page.get("has_more") or not page["data"]:
                    return found
                after = f"&after_id={told_id(page['last_id'])}"

    def status(self, batch_id: str) -> Status:
        with self._told(f"batch {batch_id} cannot be looked up", "GET", f"/{batch_id}") as batch:
            status = told_id(batch["processing_status"])
            counts = {str(name): int(count) for name, count in part(batch, "request_counts").items()}
            files = {"replies": batch_id} if batch.get("results_url") else {}
            return Status(_STATUS.get(status, status), counts, files)

    def content(self, file_id: str) -> bytes:
        # Not the results_url that the provider tells: the key goes nowhere but to the endpoint.
        return self._send(f"the results of batch {file_id} cannot be had", "GET", f"/{file_id}/results").content

    @contextmanager
    def _told(self, what: str, method: str, path: str = "", **more: Any) -> Iterator[Any]:
        """What the provider answers; `with` it, another shape than expected is an LMError."""
        response = self._send(what, method, path, **more)
        with reading(what):
            yield response.json()

    def _send(self, what: str, method: str, path: str = "", **more: Any) -> httpx.Response:
        headers = {**self._headers, **more.pop("headers", {})}
        with calling(what), httpx.Client(timeout=SECONDS) as client:
            response = client.request(method, self._url + path, headers=headers, **more)
            if not response.is_success:
                said = f"HTTP {response.status_code}: {response.text}"
                raise ProviderError(response.status_code, said, None, response.headers)
        return response


def _requests(path: Path, headers: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The lines of a file as Anthropic takes them; what they need in the headers is put there."""
    load_litellm()
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig
    from litellm.utils import get_optional_params

    config = AnthropicConfig()
    for number, line in read_lines(path):
        row = parse_json(line, f"{path}, line {number}")
        body = dict(row["body"])
        model, messages = body.pop("model"), body.pop("messages")
        with calling(f"{path}, line {number}"):
            # Messages are changed on the way.
            options = get_optional_params(model=model, custom_llm_provider="anthropic", messages=[*messages], **body)
            headers.update(config.update_headers_with_optional_anthropic_beta(headers, options))
            options.pop("json_mode", None)
            params = config.transform_request(model, messages, options, {}, headers)
        yield {"custom_id": row["custom_id"], "params": params}
