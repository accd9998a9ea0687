"""Names this process in a file that outlives it, and tells later whether the one that a name means still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this_process() -> str:
    """`host:process id:start`. The start tells a process from a later one that was given the same id."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start(os.getpid()) or ''}"


def is_alive(owner: str) -> bool:
    """False only where it is sure: a process of another host, or of a system that does not say, may be alive."""
    host, _, rest = owner.partition(":")
    process, _, start = rest.partition(":")
    if host != socket.gethostname() or not process.isdecimal() or os.name != "posix":
        return True
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    now = _start(int(process))
    return now is None or not start or now == start


def _start(process: int) -> str | None:
    """When the process began, in the kernel's ticks, `ended` if it only waits to be collected; None where the system
    does not say (anything but Linux)."""
    try:
        # The second field is the program's name, which may hold anything.
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return "ended" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return None
