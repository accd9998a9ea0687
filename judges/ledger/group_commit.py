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

from judges.ledger.steps import Drop, End, Find, Reserve, Result, Step

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
        # One that the same thread may take again: it may forget a ledger, and so close it, at any point.
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._asked: dict[asyncio.AbstractEventLoop, list[Entry]] = {}

    def submit(self, step: Step) -> Future[Result]:
        """For threads: `result()` waits, and raises what the step ended in."""
        future: Future[Result] = Future()
        # Running: it cannot be cancelled.
        future.set_running_or_notify_cancel()
        with self._lock:
            self._put([(step, future)])
        return future

    async def ask(self, step: Step) -> Result:
        """For coroutines. What is reserved for one that has been cancelled is given back."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        # All that a loop asks in one turn is handed over at its end: each handing over wakes the thread, and then both
        # want the interpreter.
        with self._lock:
            if loop not in self._asked:
                self._asked[loop] = []
                loop.call_soon(self._hand_over, loop)
            self._asked[loop].append((step, future))
        try:
            return await future
        except BaseException:
            # It was cancelled, maybe in the same turn in which the answer came, or its loop has ended.
            if isinstance(step, Reserve) and (not future.done() or future.cancelled() or not future.exception()):
                self._give_back(loop, step.key)
            raise

    def close(self) -> None:
        """What has come in is still written."""
        with self._lock:
            if self._closed:
                return
            for asked in self._asked.values():
                # No new call begins, but what one came to is kept.
                if ends := [entry for entry in asked if not isinstance(entry[0], Find | Reserve)]:
                    self._put(ends)
                asked[:] = [entry for entry in asked if isinstance(entry[0], Find | Reserve)]
            self._closed = True
            if self._thread is None:
                self._writer.close()
                return
            self._queue.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _give_back(self, loop: asyncio.AbstractEventLoop, key: str) -> None:
        """Behind the reservation of a call that nobody will make."""
        entry: Entry = (Drop(key, End.UNSENT), Future())
        with self._lock:
            if loop in self._asked and not loop.is_closed():
                self._asked[loop].append(entry)
            elif not self._closed:
                self._put([entry])

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            asked = self._asked.pop(loop)
            if not self._closed:
                self._put(asked)
                return
        for _, waiter in asked:
            if not waiter.done():
                waiter.set_exception(Closed())

    def _put(self, entries: list[Entry]) -> None:
        """To be called under the lock."""
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
            _carry_out(writer, steps.values())
    writer.close()


def _carry_out(writer: Writer, entries: Iterable[Entry]) -> None:
    steps = [step for step, _ in entries]
    ended: Sequence[Result | Exception]
    try:
        ended = writer.write(steps)
    except Exception as error:
        ended = [error] * len(steps)
    # An event loop is woken once for all that it waits for.
    of_loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Result], Result | Exception]]] = {}
    for (_, waiter), end in zip(entries, ended, strict=True):
        if isinstance(waiter, asyncio.Future):
            of_loops.setdefault(waiter.get_loop(), []).append((waiter, end))
        else:
            _tell(waiter, end)
    for loop, ends in of_loops.items():
        with suppress(RuntimeError):  # it has ended
            loop.call_soon_threadsafe(_tell_all, ends)


def _tell_all(ends: Iterable[tuple[asyncio.Future[Result], Result | Exception]]) -> None:
    for waiter, end in ends:
        if not waiter.done():
            _tell(waiter, end)


def _tell(waiter: Waiter, end: Result | Exception) -> None:
    if isinstance(end, Exception):
        waiter.set_exception(end)
    else:
        waiter.set_result(end)
