"""Tests of whether a process that named itself still lives."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from judges.ledger.owner import is_alive, this_process


def test_this_process_is_alive() -> None:
    assert is_alive(this_process())
    assert this_process().split(":")[:2] == [socket.gethostname(), str(os.getpid())]


def test_a_process_that_was_killed_is_dead_before_and_after_it_is_collected() -> None:
    code = (
        "import sys; from judges.ledger.owner import this_process; print(this_process(), flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        owner = child.stdout.readline().strip()
        assert owner.split(":")[1] == str(child.pid)
        assert is_alive(owner)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(owner), "it is a zombie: its parent has not collected it"
    assert not is_alive(owner)


def test_the_same_id_in_another_life_is_dead() -> None:
    assert not is_alive(f"{socket.gethostname()}:{os.getpid()}:12")


@pytest.mark.parametrize(
    "owner", ["elsewhere:1:12", "", "nonsense", f"{socket.gethostname()}:x:1", f"{socket.gethostname()}:1:"]
)
def test_who_is_not_known_to_be_dead_may_be_alive(owner: str) -> None:
    assert is_alive(owner)


def test_an_id_that_no_process_can_have_is_dead() -> None:
    assert not is_alive(f"{socket.gethostname()}:{2**70}:1")
