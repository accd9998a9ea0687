"""Fixtures of the tests that run `gpa-judges batch`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.simulated import rate, simulate
from pipeline.cli import main


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with six traces, and keys in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-anthropic")
    Dataset(rate(simulate(6, 0), 0)).save(tmp_path / "data.jsonl")


@pytest.fixture
def batch(place: None, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs `gpa-judges batch ...` in that folder and returns its document; with `code`, what it ends with."""
    assert place is None

    def run(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main(["batch", *words, "--json"]) == code
        return json.loads(capsys.readouterr().out)

    return run
