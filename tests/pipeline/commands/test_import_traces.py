from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import Impact, ScoreLabel
from labeled_traces.readers import READERS
from labeled_traces.readers.labels.table_columns import FIELDS
from labeled_traces.trace import Span, Trace
from pipeline.cli import main
from pipeline.commands import reading
from pipeline.tally import Tally

TRACE = {"trace_id": "ab", "spans": [{"span_id": "cd", "span_attributes": {"input.value": "hi"}}]}


def test_a_terminal_shows_how_much_of_large_files_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({**TRACE, "more": "x" * 3_000_000}))
    words = ["import", str(tmp_path / "a.json"), "--out", str(tmp_path / "data.jsonl"), "--force"]
    monkeypatch.setattr(reading, "_LONG", 2)
    assert main(words) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main([*words, "--json"]) == 0
    assert "MB" not in capsys.readouterr().err
    assert main(words) == 0
    assert "3/3 [" in capsys.readouterr().err
    monkeypatch.setattr(reading, "_LONG", 50)
    assert main(words) == 0
    assert capsys.readouterr().err == ""


def annotation(category: str, annotator: str) -> dict[str, Any]:
    error = {"category": category, "location": "cd", "impact": "LOW"}
    return {"trace_id": "ab", "annotator": annotator, "errors": [error]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "ab.json").write_text(json.dumps(TRACE))
    (tmp_path / "traces" / "README.md").write_text("read me")
    (tmp_path / "traces" / "bad.json").write_text('{"a": ')
    said = [("Goal Deviation", "a"), ("goal deviation", "b"), ("Rate Limiting", "a"), ("Bad vibes", "a")]
    (tmp_path / "labels.json").write_text(json.dumps([annotation(*one) for one in said]))


@pytest.mark.usefixtures("folder")
def test_labels_outside_gpa_and_labels_without_a_row_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "traces", "--labels", "labels.json", "--out", "data.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "error labels (1 more outside GPA: reported apart)" in shown
    assert "not in the taxonomy, so of no dimension unless their labels name one: 'Bad vibes' 1 x" in shown
    assert "--taxonomy FILE" in shown
    said = json.loads(Path("labels.json").read_text())
    Path("labels.json").write_text(json.dumps(said).replace("Bad vibes", "Invalid Invocation"))
    assert main(["import", "traces", "--labels", "labels.json", "--out", "other.jsonl"]) == 0
    assert "--taxonomy agentrx has it" in capsys.readouterr().out
    Path("labels.json").write_text(json.dumps(said))
    assert "4 labels are about 3 errors" in shown
    assert "README.md" in shown
    assert "bad.json: not JSON" in shown
    assert main(["import", "traces", "--labels", "labels.json", "--out", "data.jsonl", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [document[key] for key in ("labels", "errors", "outside_gpa", "unmapped")] == [4, 3, 1, 1]
    (row,) = Dataset.load(Path("data.jsonl"))
    assert [error.rater for error in row.errors] == ["a", "b", "a", "a"]
    assert len(row.distinct_errors) == 3


@pytest.mark.usefixtures("folder")
def test_without_labels_no_dimension_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "traces", "--out", "data.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "\n0 error labels (0 more outside GPA: reported apart)\n" in shown
    assert "0 labels" not in shown


def test_a_group_that_is_too_large_is_told_by_import_and_by_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    spans = []
    for n in range(12):
        given = {"input.value": "do it again" if n < 4 else f"task number {n}", "output.value": f"done {n}"}
        spans.append({"trace_id": f"{n:032x}", "span_id": "01", "attributes": given})
    Path("spans.jsonl").write_text("".join(json.dumps(span) + "\n" for span in spans))
    for words in (["import", "spans.jsonl", "--out", "data.jsonl"], ["split", "data.jsonl", "--out", "split.json"]):
        assert main(words) == 0
        assert "4 of 12 traces are one group ('goal " in capsys.readouterr().out
        assert main([*words, "--json"]) == 0
        assert "4 of 12 traces" in str(json.loads(capsys.readouterr().out)["warnings"])


def test_a_trace_with_a_score_alone_is_one_that_people_looked_at() -> None:
    trace = Trace("t", (Span("a", None, "agent"),))
    tally = Tally()
    tally.add(LabeledTrace(trace, scores=(ScoreLabel("plan_quality", 3),), clean="unknown"))
    counts = tally.counts(Counter())
    assert [counts[name] for name in ("labelled", "clean", "unknown")] == [1, 0, 0]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--out", "traces"], "traces: is a folder: accepted is the name of a file"),
        (["--out", "labels.json/data.jsonl"], "labels.json is a file, no folder"),
        (["--out", "data.jsonl", "--strict"], "bad.json: not JSON"),
        (["--out", "data.jsonl", "--taxonomy", "labels.json"], "labels.json: is list: accepted is a YAML mapping"),
    ],
)
def test_what_stops_an_import(capsys: pytest.CaptureFixture[str], more: list[str], message: str) -> None:
    assert main(["import", "traces", "--labels", "labels.json", *more]) == 2
    assert message in capsys.readouterr().err
    assert not Path("data.jsonl").exists()


@pytest.mark.usefixtures("folder")
def test_a_table_of_labels_is_told_with_its_guesses_and_with_what_joins_no_span(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = "".join(f"ab,gone-{n},TC,bob\n" for n in range(11))
    Path("labels.csv").write_text(f"run,span_id,dimensions,who\nab, cd ,TC,ann\n{lost}zz,cd,TC,bob\n")
    words = ["import", "traces/ab.json", "--labels", "labels.csv", "--columns", "rater=who", "--out", "data.jsonl"]
    assert main(words) == 2
    assert "labels.csv, row 14: labels of 'zz', which is no trace that was read" in capsys.readouterr().err
    assert main([*words, "--allow-missing"]) == 0
    shown = capsys.readouterr().out
    assert "labels.csv: columns recognised by their names: trace_id=run (else: --columns)" in shown
    assert "labels that join no span: 12, the first 10 places (all: --json):" in shown
    assert "labels.csv, row 3: trace 'ab', span 'gone-0': no such span" in shown
    assert main([*words, "--allow-missing", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["span"] for row in document["unjoined"]] == [*(f"gone-{n}" for n in range(11)), None]
    (row,) = Dataset.load(Path("data.jsonl"))
    assert (row.errors[0].span_id, row.errors[0].rater, row.raters) == ("cd", "ann", ("ann", "bob"))


def test_the_help_names_every_format_and_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["import", "--help"])
    shown = capsys.readouterr().out
    formats, labels = shown.partition("formats (--format NAME")[2].split("A table of labels has")
    words = set(re.findall(r"\w+", formats))
    assert words >= READERS.keys()
    for name, others in FIELDS.items():
        assert re.search(rf"^  {name} +{', '.join(others)}$", labels, re.MULTILINE), "as they are recognised"
    for part in ("Parquet", *(str(impact).lower() for impact in Impact)):
        assert part in shown


def test_a_parquet_file_is_imported_and_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = [{"trace": json.dumps({**TRACE, "trace_id": name}), "labels": None} for name in ("ab", "cd")]
    rows[0]["labels"] = json.dumps(annotation("Goal Deviation", "a"))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "gaia.parquet")
    assert main(["import", str(tmp_path / "gaia.parquet"), "--out", str(tmp_path / "data.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "2 traces: 1 with labels, 0 clean, 1 that nobody looked at" in shown
    assert f"1 x trace without annotation; first: {tmp_path / 'gaia.parquet'}, row 2, trace cd" in shown
    inspected = []
    for name in ("gaia.parquet", "data.jsonl"):
        assert main(["inspect", str(tmp_path / name), "--trace", "ab"]) == 0
        inspected.append(capsys.readouterr().out)
    assert inspected[0] == inspected[1]
    assert "Goal Deviation" in inspected[0]
