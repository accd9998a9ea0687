"""Requests and tokens per minute of a model at an endpoint: what is sent waits its turn, as users or providers say."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from judges.lm import JudgeError, LMRequest
from judges.render import estimate_tokens

MINUTE = 60.0
BURST = 1.0
"""Seconds' worth of a user's limit that may be sent at once."""
_LOOK = 0.1
"""Seconds between two looks of the first in line: what others give back may shorten its wait."""
_NOW = 1e-6
"""Seconds: rounding must not keep anyone waiting."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class Limits:
    """Requests and tokens a minute of each model at each endpoint, in one process; None: no limit but those that the
    provider tells."""

    rpm: int | None = None
    tpm: int | None = None

    def __post_init__(self) -> None:
        for name in ("rpm", "tpm"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise JudgeError(f"limit {name} is {value!r}: accepted is a whole number a minute, from 1")


class Bucket:
    """Takes of at most `per_minute` + `capacity` in any minute, or + the largest single take where that is more.

    A take that is larger than the capacity waits for a full bucket and leaves a debt.
    """

    def __init__(self, per_minute: float, capacity: float, now: float) -> None:
        self.rate = per_minute / MINUTE
        self.capacity = capacity
        self.level = capacity
        self._at = now

    def wait(self, amount: float, now: float) -> float:
        """Seconds until so much may be taken."""
        self._fill(now)
        return max(0.0, (min(amount, self.capacity) - self.level) / self.rate)

    def take(self, amount: float, now: float) -> None:
        """A negative amount gives back."""
        self._fill(now)
        self.level = min(self.capacity, self.level - amount)

    def _fill(self, now: float) -> None:
        self.level = min(self.capacity, self.level + (now - self._at) * self.rate)
        self._at = now


class Gate:
    """Lets the requests to one model at one endpoint through, first come, first served. For one event loop.

    A request takes the tokens that it may need and gives back what it did not (`settle`). Limits that the provider
    tells hold beside the user's, the provider's count of what is left included.
    """

    def __init__(self, limits: Limits, clock: Clock = time.monotonic, sleep: Sleep = asyncio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._line = asyncio.Lock()
        self._paused_until = -1.0
        self._told: dict[str, Bucket] = {}
        self._own = {
            unit: Bucket(limit, max(1.0, limit * BURST / MINUTE), clock())
            for unit, limit in (("requests", limits.rpm), ("tokens", limits.tpm))
            if limit is not None
        }

    async def enter(self, request: LMRequest) -> int:
        """Waits its turn. Returns the tokens that were taken: for `settle`."""
        if not self._own and not self._told and self._clock() >= self._paused_until:
            return 0
        tokens = sum(estimate_tokens(message.content) for message in request.messages) + request.max_tokens
        async with self._line:
            while (left := self._left(tokens)) > _NOW:
                await self._sleep(min(left, _LOOK))
            self._take(tokens, requests=1)
        return tokens

    def settle(self, taken: int, used: int) -> None:
        """What `enter` took, and what the provider says was used."""
        if taken:
            self._take(used - taken, requests=0)

    def pause(self, seconds: float) -> None:
        """Nobody is let through for so long: the provider has asked for it."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def learn(self, headers: Mapping[str, str]) -> None:
        """Reads the `x-ratelimit-*` headers of a reply.

        A limit counts where the time to its reset shows that it is one of a minute, refilled steadily: some providers
        tell limits of a day, or of a second, under the same names.
        """
        if "x-ratelimit-limit-requests" not in headers and "x-ratelimit-limit-tokens" not in headers:
            return
        for unit in ("requests", "tokens"):
            limit, left = (_number(headers.get(f"x-ratelimit-{word}-{unit}")) for word in ("limit", "remaining"))
            reset = _seconds(headers.get(f"x-ratelimit-reset-{unit}"))
            if limit is None or left is None or reset is None or not 0 <= left <= limit or limit < 1:
                continue
            full = MINUTE * (1 - left / limit)
            bucket = self._told.get(unit)
            if 0 < 0.5 * full <= reset <= full + 1.0 and (bucket is None or bucket.capacity != limit):
                bucket = self._told[unit] = Bucket(limit, limit, self._clock())
            if bucket is not None:
                bucket.wait(0, self._clock())
                bucket.level = min(bucket.level, left)

    def _left(self, tokens: int) -> float:
        now = self._clock()
        waits = [bucket.wait(self._amount(unit, tokens, 1), now) for unit, bucket in self._buckets()]
        return max([self._paused_until - now, *waits])

    def _take(self, tokens: int, requests: int) -> None:
        now = self._clock()
        for unit, bucket in self._buckets():
            bucket.take(self._amount(unit, tokens, requests), now)

    def _buckets(self) -> list[tuple[str, Bucket]]:
        return [*self._own.items(), *self._told.items()]

    @staticmethod
    def _amount(unit: str, tokens: int, requests: int) -> int:
        return tokens if unit == "tokens" else requests


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\d{1,12}", text.strip()) else None


def _seconds(text: str | None) -> float | None:
    """A duration such as 6m0s, 17ms or 1.2s; plain seconds too."""
    parts = _DURATION.findall(text or "")
    if parts and "".join(map("".join, parts)) == (text or "").strip():
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return _number(text)
