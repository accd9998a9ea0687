from __future__ import annotations

import fcntl
import logging
import os
import pty
import select
import struct
import sys
import termios
import time

import pytest

from pipeline.progress import Progress, duration


@pytest.mark.parametrize("size", [(0, 0), (0, 100), (30, 100)])
def test_a_terminal_has_a_bar_before_the_first_is_done_also_if_it_does_not_know_its_size(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        with Progress("evaluate", 3) as progress:
            first = _shown(ours)
            time.sleep(1.1)
            later = _shown(ours)
            logging.getLogger("judges.models").warning("the provider asks to wait")
            progress.update()
        last = _shown(ours)
    os.close(ours)
    assert "evaluate:   0%" in first
    assert "0/3" in first
    assert "00:01" in later  # a slow model: the clock goes on
    assert "the provider asks to wait\r\n" in last
    assert "1/3" in last


def _shown(terminal: int) -> str:
    parts = []
    while select.select([terminal], [], [], 0.1)[0]:
        parts.append(os.read(terminal, 10_000).decode())
    return "".join(parts)


def test_without_a_terminal_lines_say_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("evaluate", 420, spent=lambda: "0.50 dollars so far", quiet=0.2) as progress:
        for _ in range(120):
            progress.update()
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["evaluate: 120 of 420 judgments, 1 s, about 1 s left, 0.50 dollars so far"]


def test_short_work_says_nothing_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("evaluate", 2) as progress:
        progress.update()
    with Progress(None, 2, quiet=0.01) as progress:
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_what_cannot_be_asked_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def lost() -> str:
        raise OSError("the ledger is gone")

    with Progress("evaluate", 2, spent=lost, quiet=0.1):
        time.sleep(0.25)
    assert capsys.readouterr().err.splitlines() == ["evaluate: 0 of 2 judgments, 1 s"] * 2


def test_durations() -> None:
    assert [duration(s) for s in (0.2, 45, 420, 7500)] == ["1 s", "45 s", "7 min", "2 h 5 min"]
