from __future__ import annotations

from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.row_file import RowFile
from labeled_traces.trace import Span, Trace, TraceError


def row(trace_id: str, said: object, group: str = "") -> LabeledTrace:
    return LabeledTrace(Trace(trace_id, (Span("a", None, "agent", inputs=said, start=1.5),)), group=group)


ROWS = [
    ("one", row("a", {"x": 1, "y": "–"})),
    ("two", row(" b ", [None, 2.5])),
    ("three", row("a", {"y": "–", "x": 1})),  # another order of keys is no other content
    ("four", row("b", "else")),
    ("five", row("a", {"x": 1, "y": "–"}, "g")),
    ("six", row("  ", "x")),
]


def test_rows_are_kept_as_a_dataset_keeps_them(tmp_path: Path) -> None:
    said: list[str] = []
    data = Dataset.from_places(ROWS, said.append, lambda error: said.append(str(error)))
    data.save(tmp_path / "whole.jsonl")
    also: list[str] = []
    written: list[LabeledTrace] = []
    with RowFile(tmp_path / "rows.jsonl") as file:
        file.fill(ROWS, also.append, lambda error: also.append(str(error)), written.append)
        assert len(file) == 2
        assert list(file) == written == list(data)
        file.keep()
    assert also == said
    assert len(said) == 4
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.jsonl", "whole.jsonl"]


def test_what_fails_on_the_way_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("before")
    bad = [*ROWS[:2], ("bad", row("c", float("nan")))]
    with pytest.raises(TraceError, match="cannot be written as JSON"), RowFile(path) as file:
        file.fill(bad, print, lambda _: None, lambda _: None)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
