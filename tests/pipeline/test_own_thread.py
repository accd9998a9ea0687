"""Tests of work in a thread of its own: it ends with its caller, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from pipeline.own_thread import run_in_thread


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    if number < 0:
        raise ZeroDivisionError
    return 2 * number


async def caller(number: int) -> int:
    return run_in_thread(doubled(number))


def test_with_a_running_loop_and_without() -> None:
    assert run_in_thread(doubled(1)) == asyncio.run(caller(1)) == 2
    with pytest.raises(ZeroDivisionError):
        run_in_thread(doubled(-1))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(caller(-1))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What runs in the background of a shell ignores an interrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("patience", [0.0, 0.05])
def test_an_interrupt_ends_it(patience: float) -> None:
    """In a notebook, say: the thread that works would go on, and pay."""
    main, ended = threading.get_ident(), []

    async def work() -> None:
        try:
            await asyncio.sleep(patience)
            signal.pthread_kill(main, signal.SIGINT)
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_in_thread(work())
    assert ended
    assert time.monotonic() - began < 10
