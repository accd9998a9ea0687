from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.row_file import RowFile
from labeled_traces.same_trace import TwiceError
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


def test_one_run_that_two_formats_time_otherwise_is_the_same_and_labels_that_are_left_out_are_told() -> None:
    said: list[str] = []
    spans = [Span("s", None, "run", start=1796033803.8375485, end=1796033803.8413875)]
    rounded = [replace(spans[0], start=1796033803.837548, end=1796033803.841388)]
    later = [replace(spans[0], end=1796033803.8414)]
    rows = [(str(number), LabeledTrace(Trace("a", tuple(one)))) for number, one in enumerate((spans, rounded, later))]
    labels = (ErrorLabel("s", ("tool_calling",), "Bad", Impact.LOW),) * 2
    rows.append(("3", replace(rows[1][1], errors=labels)))
    errors: list[TraceError] = []
    Dataset.from_places(rows, said.append, errors.append)
    assert said == ["trace 'a' is at 0 and, unchanged, at 1: kept once"]
    assert [type(error) for error in errors] == [TwiceError, TwiceError]
    assert str(errors[0]) == "trace 'a' is at 0 and, with other content, at 2: ids must differ"
    assert str(errors[1]) == "trace 'a' is at 0 and, with other labels, at 3 (with the 2 labels there): ids must differ"
