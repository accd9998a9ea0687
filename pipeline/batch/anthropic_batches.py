"""Anthropic's message batches. LiteLLM cannot create them (it can look one up, but then drops how many calls expired),
so these few calls are plain HTTP; what is sent of each call, and the headers, are LiteLLM's own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from judges.lm import LMError
from judges.models.litellm_transport import load_litellm
from judges.redact import redact
from labeled_traces.files import parse_json, read_lines
from pipeline.batch.providers import CLOCKS_DIFFER, SECONDS, Status, calling

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
        return str(self._json(what, "POST", content=body, headers=headers)["id"])

    def created(self, _: str, calls: int, since: float, /) -> list[str]:
        found: list[str] = []
        after = ""
        # From the newest on.
        while True:
            page = self._json("batches cannot be listed", "GET", f"?limit=100{after}")
            for batch in page["data"]:
                if datetime.fromisoformat(batch["created_at"]).timestamp() < since - CLOCKS_DIFFER:
                    return found
                if sum(batch["request_counts"].values()) == calls:
                    found.append(str(batch["id"]))
            if not page.get("has_more"):
                return found
            after = f"&after_id={page['last_id']}"

    def status(self, batch_id: str) -> Status:
        batch = self._json(f"batch {batch_id} cannot be looked up", "GET", f"/{batch_id}")
        status = str(batch["processing_status"])
        files = {"replies": batch_id} if batch.get("results_url") else {}
        return Status(_STATUS.get(status, status), dict(batch["request_counts"]), files)

    def content(self, file_id: str) -> bytes:
        # Not the results_url that the provider tells: the key goes nowhere but to the endpoint.
        return self._send(f"the results of batch {file_id} cannot be had", "GET", f"/{file_id}/results").content

    def _json(self, what: str, method: str, path: str = "", **more: Any) -> dict[str, Any]:
        response = self._send(what, method, path, **more)
        with calling(what):
            found: dict[str, Any] = response.json()
            return found

    def _send(self, what: str, method: str, path: str = "", **more: Any) -> httpx.Response:
        headers = {**self._headers, **more.pop("headers", {})}
        with calling(what), httpx.Client(timeout=SECONDS) as client:
            response = client.request(method, self._url + path, headers=headers, **more)
        if not response.is_success:
            said = redact(" ".join(response.text.split()))[:600]
            raise LMError("provider_error", f"{what}: HTTP {response.status_code}: {said}")
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
