"""How far long work is: a bar on a terminal, elsewhere a line now and then. On stderr, as all that is no result."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

QUIET = 30.0
"""Seconds between two lines where there is no terminal; shorter work says nothing there."""
_TICK = 1.0
"""Seconds between two looks of the bar: its clock goes on while a slow model answers."""
_LOOKS = 10
"""Ticks between two looks at what is spent, which the ledger is asked."""
_WIDTH, _HEIGHT = 80, 24
"""Of a terminal that does not know its own size: tqdm would draw nothing at all in it."""


class Progress:
    """`with Progress("evaluate", 420) as progress:`, and `progress.update()` after each of the `total`.

    `name` None: nothing is shown. `spent`: what was spent so far, in words, asked every few seconds in a thread of its
    own. What is logged meanwhile is written above the bar. `quiet`: seconds between two lines off a terminal.
    """

    def __init__(
        self,
        name: str | None,
        total: int,
        unit: str = "judgments",
        spent: Callable[[], str] | None = None,
        quiet: float = QUIET,
    ) -> None:
        self._name, self._total, self._unit, self._spent, self._quiet = name, total, unit, spent, quiet
        self._done = 0
        self._bar: Any = None
        self._end = threading.Event()
        self._ticker: threading.Thread | None = None
        self._shown = ExitStack()

    def __enter__(self) -> Progress:
        self._begun = time.monotonic()
        if self._name is None or not self._total or sys.stderr is None:
            return self
        if sys.stderr.isatty():
            self._bar = self._shown.enter_context(_bar(self._name, self._total, self._unit))
            from tqdm.contrib.logging import logging_redirect_tqdm

            self._shown.enter_context(logging_redirect_tqdm())
        work = self._lines if self._bar is None else self._refresh
        self._ticker = threading.Thread(target=work, name="progress", daemon=True)
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        if self._ticker is not None:
            self._ticker.join(timeout=_TICK)
        self._shown.close()

    def update(self, count: int = 1) -> None:
        self._done += count
        if self._bar is not None:
            self._bar.update(count)

    def _lines(self) -> None:
        while not self._end.wait(self._quiet):
            print(self._line(), file=sys.stderr, flush=True)

    def _line(self) -> str:
        took = time.monotonic() - self._begun
        parts = [f"{self._name}: {self._done:,} of {self._total:,} {self._unit}", duration(took)]
        if self._done:
            parts.append(f"about {duration(took / self._done * (self._total - self._done))} left")
        return ", ".join(filter(None, [*parts, self._money()]))

    def _refresh(self) -> None:
        ticks = 0
        while not self._end.wait(_TICK):
            ticks += 1
            if ticks % _LOOKS == 0:
                self._bar.set_postfix_str(self._money(), refresh=False)
            self._bar.refresh()

    def _money(self) -> str:
        # It is for people: a ledger that is busy or lost is told by the work itself.
        with suppress(Exception):
            return self._spent() if self._spent else ""
        return ""


def duration(seconds: float) -> str:
    """For people: "40 s", "7 min", "2 h 5 min"."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def _bar(name: str, total: int, unit: str) -> Any:
    from tqdm import tqdm

    try:
        screen = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):
        screen = os.terminal_size((0, 0))
    known = screen.columns > 0 and screen.lines > 0
    size: dict[str, Any] = {"dynamic_ncols": True} if known else {"ncols": screen.columns or _WIDTH, "nrows": _HEIGHT}
    return tqdm(total=total, desc=name, unit=unit.removesuffix("s"), file=sys.stderr, **size)
