"""What a model's failures are called; and a note that it lets its callers wait: once, not for each of its calls."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from judges.lm import LMRequest
from judges.models.failure import UNREACHED, Failure
from judges.redact import redact_url

log = logging.getLogger(__name__)

QUIET = 30.0
"""Seconds between two notes on one model that say the same kind of thing."""


class Notes:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._said: dict[tuple[str, str], float] = {}

    def waits(self, request: LMRequest, failure: Failure, attempt: int, attempts: int) -> None:
        """An attempt failed, and `attempt`, of at most `attempts`, follows."""
        asked = target(request.endpoint, request.model)
        status = f"HTTP {failure.status}" if failure.status else failure.kind
        now = self._clock()
        with self._lock:
            if now - self._said.get((asked, status), -QUIET) < QUIET:
                return
            self._said[asked, status] = now
        if failure.wait and failure.wait >= 1:
            log.warning("%s: the provider asks to wait %.0f s (%s)", asked, failure.wait, status)
        else:
            said = in_words(request, failure)
            log.warning("%s, trying again (attempt %d of %d)", said, attempt, attempts)


def target(endpoint: str, model: str) -> str:
    return f"{model} at {redact_url(endpoint)}" if endpoint else model


def in_words(request: LMRequest, failure: Failure) -> str:
    """Which model at which endpoint, what it said, and where one may look."""
    endpoint = request.endpoint
    if failure.message == UNREACHED and endpoint:
        return f"{request.model}: {UNREACHED} at {redact_url(endpoint)}"
    said = failure.message
    if failure.status and str(failure.status) not in said:
        said = f"HTTP {failure.status}: {said}"
    if failure.status == 404 and endpoint and not endpoint.rstrip("/").endswith("/v1"):
        said += ": is the base URL right? OpenAI-compatible servers end in /v1"
    return f"{target(endpoint, request.model)}: {said}"
