"""An event loop in a thread of its own, with the HTTP connections that live in it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from judges.lm import JudgeError

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
log = logging.getLogger(__name__)


class Connections:
    """Connections belong to an event loop, and callers come with many short-lived ones (`asyncio.run`, threads)."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._lock = threading.Lock()
        self._closed = False

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` in the loop of the connections; cancelling the caller cancels it."""
        try:
            loop = self._start()
        except JudgeError:
            work.close()
            raise
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    async def session(self, proxies: bool) -> aiohttp.ClientSession:
        """To be called from `work`. `proxies`: it looks into the environment for each call, which takes longer than all
        the rest of it; else whoever uses it has."""
        import aiohttp

        if proxies not in self._sessions:
            connector = aiohttp.TCPConnector(limit=0)
            self._sessions[proxies] = aiohttp.ClientSession(trust_env=proxies, connector=connector)
        return self._sessions[proxies]

    def close(self) -> None:
        """Ends what still runs, then the connections, the loop and the thread."""
        with self._lock:
            self._closed = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise JudgeError("this client is closed: open a new one")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_exception_handler(_note)
                self._thread = threading.Thread(target=self._loop.run_forever, name="model-connections", daemon=True)
                self._thread.start()
            return self._loop

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            # Bounded: at the end of the program nothing may hang on a task that does not let go.
            await asyncio.wait(others, timeout=2.0)
        for session in self._sessions.values():
            await session.close()


def _note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What goes wrong in our own work reaches its caller; the rest is libraries' house-keeping, no news for users."""
    log.debug("%s", context.get("message"))
