"""Arguments that are not accepted end an experiment in one line, before it does anything."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["experiments.loopback"], "the following arguments are required: SECONDS"),
        (["experiments.loopback", "soon"], "'soon' is not accepted: a number from 0 is"),
        (["experiments.local_model", "--trace-tokens", "1"], "'1' is not accepted: a whole number from 256 is"),
    ],
)
def test_wrong_arguments_are_told_without_a_traceback(words: list[str], said: str) -> None:
    ran = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
