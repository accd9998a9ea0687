from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.simulated import rate, simulate
from labeled_traces.trace import Trace
from pipeline.cli import main


def test_what_each_part_holds_and_what_it_is_too_small_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rate(simulate(60, 0), 0)
    copies = [
        replace(row, errors=(), group="", trace=Trace(f"copy-{number}", row.trace.spans[:-1]))
        for number, row in enumerate(rows[:5])
    ]
    Dataset([*rows, *copies]).save(tmp_path / "data.jsonl")
    args = ["split", str(tmp_path / "data.jsonl"), "--out", str(tmp_path / "split.json")]
    assert main([*args, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["near_duplicates"]["threshold"] == 0.75
    assert found["near_duplicates"]["traces"] >= 10
    parts = found["parts"]
    assert sum(part["traces"] for part in parts.values()) == 65
    labels = sum(parts["testset"]["labels"]["tool_calling"].values())
    assert f"tool_calling {labels} (within" in "".join(found["warnings"])
    place = {trace_id: name for name in parts for trace_id in json.loads((tmp_path / "split.json").read_text())[name]}
    assert all(place[f"copy-{number}"] == place[rows[number].trace_id] for number in range(5))
    assert main(args) == 0
    shown = capsys.readouterr().out
    for text in (
        "\ngroups  ",
        "high/medium/low impact",
        "share 75% or more of what",
        "warning: ",
        "from 39 labels on",
    ):
        assert text in shown
