from __future__ import annotations

import time
from pathlib import Path

import pytest

from pipeline.clock import Clock
from pipeline.run_folder import RunFolder


def attempt(folder: Path, *, takes: float = 0.0, ended: bool, name: str = "1/a") -> float | None:
    with Clock(RunFolder(folder), name) as clock:
        time.sleep(takes)
        clock.ended = ended
    return clock.seconds


def interrupted(folder: Path, after: float) -> None:
    with Clock(RunFolder(folder), "1/a"):
        time.sleep(after)
        raise KeyboardInterrupt


def killed(folder: Path) -> None:
    """The clock is never left."""
    Clock(RunFolder(folder), "1/a").__enter__()


def test_attempts_add_up_until_one_has_ended(tmp_path: Path) -> None:
    assert (attempt(tmp_path, takes=0.2, ended=False) or 0) >= 0.2
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path, 0.2)
    whole = attempt(tmp_path, takes=0.2, ended=True)
    assert whole is not None
    assert 0.6 <= whole < 2
    assert attempt(tmp_path, takes=0.2, ended=True) == whole, "a replay takes no time"
    assert attempt(tmp_path, ended=True, name="2/a") == pytest.approx(0, abs=0.1)
    assert attempt(tmp_path, ended=True) == whole


def test_after_a_kill_nobody_knows(tmp_path: Path) -> None:
    attempt(tmp_path, takes=0.1, ended=False)
    killed(tmp_path)
    assert attempt(tmp_path, ended=False) is None
    assert attempt(tmp_path, ended=True) is None
    assert attempt(tmp_path, ended=True) is None


def test_a_kill_of_a_replay_changes_nothing(tmp_path: Path) -> None:
    whole = attempt(tmp_path, takes=0.1, ended=True)
    killed(tmp_path)
    assert attempt(tmp_path, ended=True) == whole
