"""Many calls, one transaction: a thread that writes what has come in while it wrote the last.

Nothing waits for company: a call that is alone is written at once. While a transaction is flushed to the disk, all
that comes in gathers for the next, so the flush is paid once for as many calls as are in flight.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol, TypeAlias

from judges.ledger.rules import Drop, End, Reservation, Reserve, Result, Step

MOST_IN_ONE = 512

Waiter: TypeAlias = "Future[Result] | asyncio.Future[Result]"
Entry: TypeAlias = tuple[Step, Waiter]
Queue: TypeAlias = "SimpleQueue[list[Entry] | None]"


class Writer(Protocol):
    """What the thread does."""

    def write(self, steps: Sequence[Step]) -> Sequence[Result | Exception]:
        """How each step ended, once that is durable. Their keys differ."""

    def keep_alive(self) -> float | None:
        """Called when there is nothing to write; returns the seconds until it is to be called again, None for never."""

    def close(self) -> None: ...


class Closed(Exception):
    """The ledger was closed before this step."""


class GroupCommit:
    """The thread is started by the first step. A step of a key follows the earlier ones of the same key."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._queue: Queue = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._asked: dict[asyncio.AbstractEventLoop, list[Entry]] = {}

    def submit(self, step: Step) -> Future[Result]:
        """For threads: `result()` waits, and raises what the step ended in."""
        future: Future[Result] = Future()
        # Running: it cannot be cancelled.
        future.set_running_or_notify_cancel()
        self._put([(step, future)])
        return future

    async def ask(self, step: Step) -> Result:
        """For coroutines. A call that was granted to one that has been cancelled meanwhile is given back."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        # All that a loop asks in one turn is handed over at its end: each handing over wakes the thread, and then both
        # want the interpreter.
        asked = self._asked.get(loop)
        if asked is None:
            asked = self._asked[loop] = []
            loop.call_soon(self._hand_over, loop)
        asked.append((step, future))
        return await future

    def close(self) -> None:
        """What has come in is still written."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._thread is None:
                self._writer.close()
                return
            self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        asked = self._asked.pop(loop)
        try:
            self._put(asked)
        except Closed as error:
            for _, waiter in asked:
                if not waiter.done():
                    waiter.set_exception(error)

    def _put(self, entries: list[Entry]) -> None:
        with self._lock:
            if self._closed:
                raise Closed
            if self._thread is None:
                # Its loop does not hold this object, which is closed when it is forgotten.
                arguments = (self._queue, self._writer)
                self._thread = threading.Thread(target=_loop, args=arguments, name="ledger", daemon=True)
                self._thread.start()
            self._queue.put(entries)


def _loop(queue: Queue, writer: Writer) -> None:
    waiting: list[Entry] = []
    is_open = True
    while is_open or waiting:
        with suppress(Empty):
            more = queue.get_nowait() if waiting else queue.get(timeout=writer.keep_alive())
            while True:
                if more is None:
                    is_open = False
                else:
                    waiting += more
                if len(waiting) >= MOST_IN_ONE:
                    break
                more = queue.get_nowait()
        steps: dict[str, Entry] = {}
        later: list[Entry] = []
        for entry in waiting:
            if entry[0].key in steps or len(steps) == MOST_IN_ONE:
                later.append(entry)
            else:
                steps[entry[0].key] = entry
        waiting = later
        if steps:
            _carry_out(writer, queue, steps.values())
    writer.close()


def _carry_out(writer: Writer, queue: Queue, entries: Iterable[Entry]) -> None:
    steps = [step for step, _ in entries]
    ended: Sequence[Result | Exception]
    try:
        ended = writer.write(steps)
    except Exception as error:
        ended = [error] * len(steps)
    # An event loop is woken once for all that it waits for.
    of_loops: dict[asyncio.AbstractEventLoop, list[tuple[Step, asyncio.Future[Result], Result | Exception]]] = {}
    for (step, waiter), end in zip(entries, ended, strict=True):
        if isinstance(waiter, asyncio.Future):
            of_loops.setdefault(waiter.get_loop(), []).append((step, waiter, end))
        else:
            _tell(waiter, end)
    for loop, ends in of_loops.items():
        try:
            loop.call_soon_threadsafe(_tell_all, queue, ends)
        except RuntimeError:  # it has ended
            _tell_all(queue, ends, heard=False)


def _tell_all(
    queue: Queue, ends: Iterable[tuple[Step, asyncio.Future[Result], Result | Exception]], heard: bool = True
) -> None:
    for step, waiter, end in ends:
        if heard and not waiter.done():
            _tell(waiter, end)
        elif isinstance(step, Reserve) and end is Reservation.GRANTED:
            queue.put([(Drop(step.key, End.UNSENT), Future())])


def _tell(waiter: Waiter, end: Result | Exception) -> None:
    if isinstance(end, Exception):
        waiter.set_exception(end)
    else:
        waiter.set_result(end)
