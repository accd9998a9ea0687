"""Runs a coroutine in a thread of its own, for callers that may have a running event loop (a notebook)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """What `work` comes to. An interrupt of the caller ends it: it would go on, and pay."""
    result: Future[T] = Future()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []
    interrupted = threading.Event()

    async def interruptible() -> T:
        task = asyncio.current_task()
        assert task is not None
        running.append((asyncio.get_running_loop(), task))
        if interrupted.is_set():
            task.cancel()
        return await work

    def target() -> None:
        try:
            result.set_result(asyncio.run(interruptible()))
        except BaseException as error:
            result.set_exception(error)

    thread = threading.Thread(target=target, name="own loop")
    try:
        thread.start()
        return result.result()
    except KeyboardInterrupt:
        interrupted.set()
        for loop, task in running:
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        with suppress(RuntimeError):  # the interrupt came before it had begun: it ends at once
            thread.join()
