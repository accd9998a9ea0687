"""Tests of limits a minute, on a clock of their own: nothing here waits."""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from judges.lm import JudgeError, LMRequest, Message
from judges.models.limits import Bucket, Gate, Limits


class Time:
    """A clock that jumps to whatever is waited for next."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self._count += 1
        wake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, self._count, wake))
        await wake

    def run(self, *work: Coroutine[Any, Any, object]) -> None:
        asyncio.run(self._run(work))

    async def _run(self, work: Sequence[Coroutine[Any, Any, object]]) -> None:
        tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
        while not all(task.done() for task in tasks):
            for _ in range(10):
                await asyncio.sleep(0)
            if self._sleepers:
                self.now, _, wake = heapq.heappop(self._sleepers)
                if not wake.done():
                    wake.set_result(None)
        await asyncio.gather(*tasks)


def request(tokens: int = 0, reply: int = 100) -> LMRequest:
    return LMRequest("openai/m", (Message("user", "abcd" * tokens),), max_tokens=reply)


def most_in_a_minute(sent: Sequence[tuple[float, int]]) -> int:
    """The most that was sent in any 60 seconds."""
    return max(sum(amount for at, amount in sent if start <= at < start + 60.0) for start, _ in sent)


def gate_at(time: Time, rpm: int | None = None, tpm: int | None = None) -> Gate:
    return Gate(Limits(rpm, tpm), time, time.sleep)


def test_without_limits_nothing_waits() -> None:
    time = Time()
    gate = gate_at(time)
    time.run(*(_enter(gate, request(), time, []) for _ in range(1000)))
    assert time.now == 0.0


async def _enter(gate: Gate, asked: LMRequest, time: Time, sent: list[tuple[float, int]], number: int = 1) -> int:
    taken = await gate.enter(asked)
    sent.append((time.now, number))
    return taken


@pytest.mark.parametrize("rpm", [1, 7, 60, 600])
def test_requests_keep_to_their_limit_in_every_minute_and_use_it(rpm: int) -> None:
    time, sent = Time(), list[tuple[float, int]]()
    gate = gate_at(time, rpm=rpm)
    count = 3 * rpm + 1
    time.run(*(_enter(gate, request(), time, sent) for _ in range(count)))
    burst = max(1, rpm // 60)
    assert rpm <= most_in_a_minute(sent) <= rpm + burst
    assert time.now == pytest.approx(60.0 * (count - burst) / rpm, abs=0.2), "no faster, and no slower"


def test_who_comes_first_is_served_first() -> None:
    time, sent = Time(), list[tuple[float, int]]()
    gate = gate_at(time, rpm=60, tpm=6000)
    sizes = random.Random(0).choices([1, 50, 300], k=60)
    time.run(*(_enter(gate, request(size), time, sent, number) for number, size in enumerate(sizes)))
    assert [number for _, number in sent] == list(range(60))


def test_tokens_keep_to_their_limit_and_what_was_not_needed_is_given_back() -> None:
    """Replies take a tenth of what they may: the limit is used up by what they take."""
    time, sent = Time(), list[tuple[float, int]]()
    gate = gate_at(time, tpm=6000)

    async def call() -> None:
        taken = await gate.enter(request(100, reply=100))
        assert taken == 200
        sent.append((time.now, 110))
        await time.sleep(1.0)
        gate.settle(taken, 110)

    time.run(*(call() for _ in range(400)))
    assert 0.8 * 6000 <= most_in_a_minute(sent) <= 6000 + 200
    assert time.now <= 1.2 * 60.0 * 400 * 110 / 6000


def test_what_was_underestimated_is_waited_for() -> None:
    time, sent = Time(), list[tuple[float, int]]()
    gate = gate_at(time, tpm=6000)

    async def call() -> None:
        taken = await gate.enter(request(10, reply=10))
        sent.append((time.now, 300))
        gate.settle(taken, 300)

    time.run(*(call() for _ in range(60)))
    assert most_in_a_minute(sent) <= 6000 + 300


def test_a_request_above_the_limit_is_sent_all_the_same() -> None:
    """Whether it is too much the provider says."""
    time, sent = Time(), list[tuple[float, int]]()
    gate = gate_at(time, tpm=100)
    time.run(*(_enter(gate, request(500, reply=500), time, sent) for _ in range(3)))
    assert [round(at) for at, _ in sent] == [0, 600, 1200]


def test_a_pause_holds_everybody_and_is_not_added_up() -> None:
    time, sent = Time(), list[tuple[float, int]]()
    gate = gate_at(time)
    gate.pause(30.0)
    gate.pause(20.0)
    time.run(*(_enter(gate, request(), time, sent) for _ in range(5)))
    assert [at for at, _ in sent] == pytest.approx([30.0] * 5)


def test_a_cancelled_wait_does_not_stop_the_line() -> None:
    time, sent = Time(), list[tuple[float, int]]()
    gate = gate_at(time, rpm=1)

    async def all_of_them() -> None:
        calls = [asyncio.ensure_future(_enter(gate, request(), time, sent, number)) for number in range(4)]
        await time.sleep(1.0)
        calls[1].cancel()
        calls[2].cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    time.run(all_of_them())
    assert [number for _, number in sent] == [0, 3]


def told(limit: int, left: int, reset: str, unit: str = "requests") -> dict[str, str]:
    return {
        f"x-ratelimit-limit-{unit}": str(limit),
        f"x-ratelimit-remaining-{unit}": str(left),
        f"x-ratelimit-reset-{unit}": reset,
    }


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        (told(60, 59, "1s"), 41.0),  # what is left is sent at once, then one a second
        (told(60, 0, "1m0s"), 100.0),
        (told(600, 10, "59s"), 9.0),
        (told(200_000, 199_900, "30ms", "tokens"), 0.0),
        (told(6000, 0, "60s", "tokens"), 100.0),
        (told(1000, 999, "1m26.4s"), 0.0),  # of a day
        (told(10, 5, "500ms"), 0.0),  # of a second
        (told(60, 59, "soon"), 0.0),
        (told(60, 61, "1s"), 0.0),
        ({"x-ratelimit-limit-requests": "60"}, 0.0),
        ({"x-ratelimit-limit-requests": "-1", "x-ratelimit-remaining-requests": "many"}, 0.0),
    ],
)
def test_a_limit_of_a_minute_is_learnt_from_the_provider(headers: dict[str, str], seconds: float) -> None:
    time = Time()
    gate = gate_at(time)
    gate.learn(headers)
    time.run(*(_enter(gate, request(0), time, []) for _ in range(100)))
    assert time.now == pytest.approx(seconds, abs=0.3)


def test_the_users_limit_holds_where_the_provider_allows_more() -> None:
    time = Time()
    gate = gate_at(time, rpm=60)
    gate.learn(told(600, 599, "100ms"))
    time.run(*(_enter(gate, request(), time, []) for _ in range(11)))
    assert time.now == pytest.approx(10.0, abs=0.2)


def test_a_take_above_the_capacity_leaves_a_debt() -> None:
    bucket = Bucket(60, 1, 0.0)
    bucket.take(10, 0.0)
    assert bucket.wait(1, 0.0) == pytest.approx(10.0)
    assert bucket.wait(1, 100.0) == 0.0
    assert bucket.level == 1.0


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "10"])
def test_a_limit_that_is_none(value: Any) -> None:
    with pytest.raises(JudgeError, match=r"limit rpm is .* accepted is a whole number a minute, from 1"):
        Limits(rpm=value)
