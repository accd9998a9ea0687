from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.readers import READERS, read, sniff
from labeled_traces.readers.report import ReadReport
from labeled_traces.taxonomy import Taxonomy
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError

RUN: JSON = {"task_id": 1, "trial": 0, "reward": 0.0, "traj": [{"role": "user", "content": "hi"}]}
FAILURE: JSON = {"failure_id": 1, "step_number": 1, "failure_category": "System Failure"}
LABELS: JSON = {"trajectory_id": 1, "failures": [FAILURE], "root_cause": {"failure_id": 1}}
NESTED: JSON = {"trace_id": "ab", "spans": [{"span_id": "cd", "span_name": "x", "span_attributes": {}}]}
ANNOTATION: JSON = {
    "trace_id": "ab",
    "errors": [{"category": "Goal Deviation", "location": "cd", "impact": "LOW"}],
    "scores": [],
}
FLAT: JSON = {"name": "x", "context": {"trace_id": "0xab", "span_id": "0xcd"}, "attributes": {}}


def write(path: Path, value: JSON) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ([RUN], "agentrx"),
        ([LABELS], "agentrx"),
        (NESTED, "openinference"),
        (ANNOTATION, "openinference"),
        ([FLAT], "openinference"),
        ({"data": [FLAT]}, "openinference"),
        ({"trace": json.dumps(NESTED), "labels": json.dumps(ANNOTATION)}, "openinference"),
        ({"trace": NESTED, "labels": ANNOTATION}, "openinference"),
        ({"trace": {"trace_id": "ab", "spans": []}}, "dataset"),
    ],
)
def test_formats_are_told_apart(tmp_path: Path, value: JSON, name: str) -> None:
    assert sniff(write(tmp_path / "a.json", value)) == name


@pytest.mark.parametrize(
    "value", [3, "text", {"resourceSpans": []}, [[1]], {"errors": []}, {"events": [], "context": {}}]
)
def test_what_is_no_known_format_names_the_known_ones(tmp_path: Path, value: JSON) -> None:
    path = write(tmp_path / "a.json", value)
    with pytest.raises(TraceError, match=r"a\.json: no known format \(dataset, agentrx, mlflow, openinference\)"):
        sniff(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    (tmp_path / "b.json").write_text("")
    (tmp_path / "c.json").write_text("[]")
    for name, message in [("a", "not UTF-8"), ("b", "is empty"), ("c", "holds no record"), ("d", "no such file")]:
        for format in ("auto", "agentrx", "mlflow", "openinference", "dataset"):
            with pytest.raises(TraceError, match=rf"{name}\.json.*{message}"):
                read(tmp_path / f"{name}.json", format)
    with pytest.raises(TraceError, match="no file was given"):
        read([])
    with pytest.raises(
        TraceError, match="format 'csv' is unknown: accepted are auto, dataset, agentrx, mlflow, openinference"
    ):
        read(write(tmp_path / "e.json", [RUN]), "csv")


def test_a_folder_with_traces_and_labels(tmp_path: Path) -> None:
    write(tmp_path / "data" / "GAIA" / "ab.json", NESTED)
    write(tmp_path / "processed_annotations_gaia" / "ab.json", ANNOTATION)
    (tmp_path / "README.md").write_text("read me")
    assert sniff(tmp_path) == "openinference"
    (row,), report = read(tmp_path)
    assert [error.span_id for error in row.errors] == ["cd"]
    assert report.counts == {}
    (again,), _ = read(tmp_path / "data", labels=[tmp_path / "processed_annotations_gaia"])
    assert again.hash == row.hash


def test_labels_named_twice_count_once(tmp_path: Path) -> None:
    write(tmp_path / "runs.json", [RUN])
    path = write(tmp_path / "labels.json", [LABELS])
    (row,), report = read([tmp_path, str(path)], labels=str(path))
    assert len(row.errors) == 1
    assert report.counts == {}


def test_labels_alone_and_mixed_formats_are_errors(tmp_path: Path) -> None:
    labels = write(tmp_path / "a.json", [LABELS])
    with pytest.raises(TraceError, match=r"a\.json: holds labels, no traces: traces are needed"):
        read(labels)
    traces = write(tmp_path / "b.json", NESTED)
    for use in (lambda: read([labels, traces]), lambda: sniff(tmp_path)):
        with pytest.raises(TraceError, match="accepted is one format at a time"):
            use()
    with pytest.raises(TraceError, match=r"b\.json, line 1: not a tau-bench run"):
        read(traces, "agentrx")
    with pytest.raises(TraceError, match=r"b\.json, line 1: no AgentRx labels"):
        read(write(tmp_path / "runs.json", [RUN]), labels=traces)


def test_a_users_own_taxonomy(tmp_path: Path) -> None:
    traces, labels = write(tmp_path / "a.json", NESTED), write(tmp_path / "labels" / "a.json", ANNOTATION)
    mine = Taxonomy("mine", {"goal deviation": ("goal_fulfillment",)}, {})
    (row,), _ = read(traces, labels=labels, taxonomy=mine)
    assert row.errors[0].dimensions == ("goal_fulfillment",)
    path = tmp_path / "mine.yaml"
    path.write_text("categories:\n  Goal deviation:\n    dimensions: [tool_selection]\n")
    for taxonomy in (path, str(path)):
        (row,), _ = read(traces, labels=labels, taxonomy=taxonomy)
        assert row.errors[0].dimensions == ("tool_selection",)
    (row,), report = read(traces, labels=labels, taxonomy="agentrx")
    assert row.errors[0].dimensions == ()
    assert report.counts == {"category that the taxonomy does not have": 1}


def test_our_own_rows_come_back_unchanged(tmp_path: Path) -> None:
    trace = Trace("t", (Span("a", None, "agent", SpanKind.AGENT, inputs="x"),))
    data = Dataset([LabeledTrace(trace, (ErrorLabel("a", ("plan_quality",), "bad_plan", Impact.LOW),), group="g")])
    data.save(tmp_path / "a.jsonl")
    data.save(tmp_path / "b.jsonl")
    again, report = read(tmp_path)
    assert again.hash == data.hash
    assert report.counts == {"trace twice, kept once": 1}
    assert report.examples["trace twice, kept once"].count("line 1") == 2
    with pytest.raises(TraceError, match="no labels are read beside this format"):
        read(tmp_path / "a.jsonl", labels=write(tmp_path / "labels" / "l.json", [LABELS]))


def test_rows_that_others_wrote_are_mended(tmp_path: Path) -> None:
    record = {"trace": {"trace_id": "t", "spans": [{"span_id": "a", "inputs": ["\ud83d", float("nan")]}]}}
    (row,), report = read(write(tmp_path / "a.json", record))
    assert row.trace.spans[0].inputs == ["\ufffd", "nan"]
    assert report.counts == {"NUL or lone surrogate": 1, "number that is not finite": 1}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_gives_unique_ids_and_rows_that_survive_a_round_trip(
    tmp_path: Path, name: str, shared_data: Path
) -> None:
    source = {
        "agentrx": shared_data / "agentrx_tau",
        "openinference": shared_data / "formats" / "captured" / "openinference_langgraph_readablespan.jsonl",
        "mlflow": shared_data / "formats" / "captured" / "mlflow_langgraph_autolog.json",
        "dataset": tmp_path / "first.jsonl",
    }
    read(source["agentrx"])[0].save(source["dataset"])
    data, _ = read(source[name], name)
    assert len(set(data.ids)) == len(data) > 0
    data.save(tmp_path / "again.jsonl")
    assert Dataset.load(tmp_path / "again.jsonl").hash == data.hash


def test_a_report_keeps_counts_and_first_examples() -> None:
    report = ReadReport()
    report.add("comma", "a.json")
    report.add("comma", "b.json", 2)
    report.add("nothing", "c.json", 0)
    assert report.lines() == ["3 x comma; first: a.json"]
    assert report.to_json() == [{"kind": "comma", "count": 3, "first": "a.json"}]
