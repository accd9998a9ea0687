from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.readers import READERS, read, sniff
from labeled_traces.readers.files.records import OTHER_FILE
from labeled_traces.readers.report import FILE, NO_CONTENT, OTHER_TWICE, RECORD, ReadReport
from labeled_traces.taxonomy import Taxonomy
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError

RUN: JSON = {"task_id": 1, "trial": 0, "reward": 0.0, "traj": [{"role": "user", "content": "hi"}]}
FAILURE: JSON = {"failure_id": 1, "step_number": 1, "failure_category": "System Failure"}
LABELS: JSON = {"trajectory_id": 1, "failures": [FAILURE], "root_cause": {"failure_id": 1}}
NESTED: JSON = {
    "trace_id": "ab",
    "spans": [{"span_id": "cd", "span_name": "x", "span_attributes": {"input.value": "hi"}}],
}
ANNOTATION: JSON = {
    "trace_id": "ab",
    "errors": [{"category": "Goal Deviation", "location": "cd", "impact": "LOW"}],
    "scores": [],
}
MARKED: JSON = {
    "history": [{"role": "Coder", "content": "I guess 3.", "fail_annotation": "1", "fail_category": "Planning Errors"}],
    "question": "What is 1 + 1?",
    "annotator": 1,
}
PROCESS: JSON = {
    "data_source": "hotpotqa",
    "query_index": 0,
    "sample_index": 1,
    "messages": [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "She."}],
    "step_labels": {"1": 1},
    "final_label": 1,
}
BLAMED: JSON = {
    "history": [{"role": "user", "name": "Coder", "content": "I guess 3."}],
    "question": "What is 1 + 1?",
    "question_ID": "q1",
    "mistake_agent": "Coder",
    "mistake_step": "0",
}
FLAT: JSON = {"name": "x", "context": {"trace_id": "0xab", "span_id": "0xcd"}, "attributes": {"input.value": "hi"}}


def write(path: Path, value: JSON) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ([RUN], "agentrx"),
        ([LABELS], "agentrx"),
        (NESTED, "trail"),
        (ANNOTATION, "trail"),
        ([FLAT], "openinference"),
        (BLAMED, "who_and_when"),
        (PROCESS, "agent_process_bench"),
        (MARKED, "mp_bench"),
        ({"messages": [], "metadata": {"won": False, "steps": 1}}, "agent_error_bench"),
        ([{"role": "human", "content": "What?"}], "agentrx"),
        ({"data": [FLAT]}, "openinference"),
        ({"trace": json.dumps(NESTED), "labels": json.dumps(ANNOTATION)}, "trail"),
        ({"trace": NESTED, "labels": ANNOTATION}, "trail"),
        ({"trace": {"trace_id": "ab", "spans": []}}, "dataset"),
    ],
)
def test_formats_are_told_apart(tmp_path: Path, value: JSON, name: str) -> None:
    assert sniff(write(tmp_path / "a.json", value)) == name


@pytest.mark.parametrize(
    "value", [3, "text", {"resourceSpans": 3}, [[1]], {"errors": []}, {"events": [], "context": {}}]
)
def test_what_is_no_known_format_names_the_known_ones(tmp_path: Path, value: JSON) -> None:
    path = write(tmp_path / "a.json", value)
    with pytest.raises(TraceError, match=r"a\.json: no known format in its first record") as error:
        sniff(path)
    for name, reader in READERS.items():
        assert f"{name}: {reader.record}" in str(error.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"colour": 1, "age": 2}, r"\(keys: age, colour\): accepted are dataset: "),
        (3, r"\(a int\): accepted are .*resourceSpans"),
    ],
)
def test_what_another_system_wrote_is_named(tmp_path: Path, value: JSON, message: str) -> None:
    with pytest.raises(TraceError, match=rf"a\.json: no known format .*{message}"):
        read(write(tmp_path / "a.json", value))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    (tmp_path / "b.json").write_text("")
    (tmp_path / "c.json").write_text("[]")
    for name, message in [("a", "not UTF-8"), ("b", "is empty"), ("c", "holds no record"), ("d", "no such file")]:
        for format in ("auto", *READERS):
            with pytest.raises(TraceError, match=rf"{name}\.json.*{message}"):
                read(tmp_path / f"{name}.json", format)
    with pytest.raises(TraceError, match="no file was given"):
        read([])
    with pytest.raises(TraceError, match=f"format 'csv' is unknown: accepted are auto, {', '.join(READERS)}"):
        read(write(tmp_path / "e.json", [RUN]), "csv")


def test_a_folder_with_traces_and_labels(tmp_path: Path) -> None:
    write(tmp_path / "data" / "GAIA" / "ab.json", NESTED)
    write(tmp_path / "processed_annotations_gaia" / "ab.json", ANNOTATION)
    (tmp_path / "README.md").write_text("read me")
    assert sniff(tmp_path) == "trail"
    (row,), report = read(tmp_path)
    assert [error.span_id for error in row.errors] == ["cd"]
    assert report.examples == {OTHER_FILE: [str(tmp_path / "README.md")]}
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
        with pytest.raises(TraceError, match=r"a\.json is agentrx and .*b\.json is trail: .* --format NAME"):
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
    assert report.counts == {"category that the taxonomy does not have, so of no dimension": 1}
    assert report.unmapped == {"Goal Deviation": 1}


def test_our_own_rows_come_back_unchanged(tmp_path: Path) -> None:
    trace = Trace("t", (Span("a", None, "agent", SpanKind.AGENT, inputs="x"),))
    data = Dataset([LabeledTrace(trace, (ErrorLabel("a", ("plan_quality",), "bad_plan", Impact.LOW),), group="g")])
    data.save(tmp_path / "a.jsonl")
    data.save(tmp_path / "b.jsonl")
    again, report = read(tmp_path)
    assert again.hash == data.hash
    assert report.counts == {"trace twice, kept once": 1}
    assert report.examples["trace twice, kept once"][0].count("line 1") == 2
    with pytest.raises(TraceError, match="no table of labels, and rows of this format hold theirs"):
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
        "openinference": shared_data / "formats" / "captured" / "google_adk_readablespan.jsonl",
        "otlp": shared_data / "formats" / "captured" / "google_adk_otlp_json.json",
        "trail": write(tmp_path / "trail.json", NESTED),
        "mlflow": shared_data / "formats" / "captured" / "mlflow_langgraph_autolog.json",
        "adk": shared_data / "formats" / "adk",
        "smolagents": shared_data / "formats" / "captured" / "smolagents_memory_full_steps.json",
        "langfuse": shared_data / "formats" / "langfuse",
        "langsmith": shared_data / "formats" / "captured" / "langsmith_runs_langgraph.json",
        "dataset": tmp_path / "first.jsonl",
    }
    read(source["agentrx"])[0].save(source["dataset"])
    path = source.get(name) or write(tmp_path / "made.json", smallest(name))
    data, _ = read(path, name, strict=True)
    assert len(set(data.ids)) == len(data) > 0
    data.save(tmp_path / "again.jsonl")
    assert Dataset.load(tmp_path / "again.jsonl").hash == data.hash


def smallest(name: str) -> JSON:
    """A record that is a trace by itself: the sample's first one, or one of these."""
    sample = Path(__file__).parent / "samples" / f"{name}.jsonl"
    return RECORDS[name] if name in RECORDS else json.loads(sample.read_text(encoding="utf-8").splitlines()[0])


RECORDS: dict[str, JSON] = {
    "dataset": {"trace": {"trace_id": "t", "spans": [{"span_id": "a"}]}},
    "agentrx": RUN,
    "mlflow": {
        "info": {"trace_id": "tr-1"},
        "data": {"spans": [{"span_id": "1" * 16, "attributes": {"mlflow.spanInputs": '"hi"'}}]},
    },
    "langfuse": {"trace": {"id": "t"}, "observations": [{"id": "a", "type": "SPAN", "input": "hi"}]},
    "adk": {"id": "t", "app_name": "a", "events": [{"author": "user", "content": {"parts": [{"text": "hi"}]}}]},
    "smolagents": {"task": "hi", "task_images": None},
    "langsmith": {"id": "t", "run_type": "chain", "inputs": {"q": "hi"}},
    "openai_agents": {"object": "trace.span", "id": "a", "trace_id": "t", "span_data": {"type": "x", "input": "hi"}},
    "trulens": {
        "record": {"name": "ask"},
        "record_attributes": {"ai.observability.call.kwargs.query": "hi"},
        "trace": {"trace_id": "1", "span_id": "2"},
    },
    "trail": NESTED,
    "otlp": {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "ab",
                                "spanId": "cd",
                                "attributes": [{"key": "input.value", "value": {"stringValue": "hi"}}],
                            }
                        ]
                    }
                ]
            }
        ]
    },
    "openinference": FLAT,
    "who_and_when": BLAMED,
    "mp_bench": MARKED,
    "agent_process_bench": PROCESS,
    "agent_error_bench": {"messages": [{"role": "assistant", "content": "x"}], "metadata": {"won": False}},
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("bad", "what"),
    [(b'{"a": 1', "not JSON"), (b"3", "accepted|is int"), (b'"\xff"', "not UTF-8"), (b"[" * 9000, "deeply")],
)
@pytest.mark.parametrize("first", [True, False])
def test_one_bad_line_stops_nothing(tmp_path: Path, name: str, bad: bytes, what: str, first: bool) -> None:
    good = json.dumps(smallest(name)).encode()
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join([bad, good] if first else [good, bad, good]))
    if first and what == "not UTF-8":
        with pytest.raises(TraceError, match="not UTF-8"):  # what begins so is binary
            read(path, name)
        return
    data, report = read(path, name)
    assert len(data) == 1
    assert report.counts[RECORD] == 1
    assert f"{path}, line {1 if first else 2}" in report.examples[RECORD][0]
    with pytest.raises(TraceError, match=what):
        read(path, name, strict=True)


@pytest.mark.parametrize("name", READERS)
def test_nothing_but_bad_records_is_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n3\n')
    with pytest.raises(TraceError, match=r"nothing could be read, 2 x .*; first: .*a\.jsonl, line 1.*accepted"):
        read(path, name)


def test_foreign_files_in_a_folder_are_named(tmp_path: Path) -> None:
    write(tmp_path / "b.json", NESTED)
    write(tmp_path / "package.json", {"name": "x"})
    (tmp_path / "broken.json").write_text('{"a":')
    (tmp_path / "image.json").write_bytes(b"\x89PNG")
    for name in ("README.md", ".DS_Store", "scores.csv"):
        (tmp_path / name).write_bytes(b"\x00\xff")
    (row,), report = read(tmp_path)
    assert row.trace_id == "ab"
    assert report.counts == {OTHER_FILE: 3, FILE: 3}
    assert [Path(name).name for name in report.examples[OTHER_FILE]] == [".DS_Store", "README.md", "scores.csv"]
    assert all(name in "".join(report.lines()) for name in ("package.json", "broken.json", "image.json"))
    assert sniff(tmp_path) == "trail"
    with pytest.raises(TraceError, match=r"broken\.json"):
        read(tmp_path, strict=True)


def test_an_id_with_two_contents_keeps_the_first(tmp_path: Path) -> None:
    other = json.loads(json.dumps(NESTED).replace("hi", "ho"))
    (row,), report = read(write(tmp_path / "a.json", [NESTED, other]))
    assert row.trace.spans[0].inputs == "hi"
    assert "record 1 and, with other content, at" in report.examples[OTHER_TWICE][0]


def test_labels_of_which_none_can_be_read_are_an_error(tmp_path: Path) -> None:
    for traces in (RUN, NESTED):
        path = write(tmp_path / "a.json", traces)
        with pytest.raises(TraceError, match=r"l\.json.*accepted"):
            read(path, labels=write(tmp_path / "labels" / "l.json", [3]))


def test_traces_without_any_content_are_reported_and_alone_an_error(tmp_path: Path) -> None:
    empty = {"trace_id": "ef", "spans": [{"span_id": "cd", "span_name": "x", "span_attributes": {"output.value": ""}}]}
    data, report = read(write(tmp_path / "a.json", [NESTED, empty]))
    assert len(data) == 2
    assert report.counts == {NO_CONTENT: 1}
    with pytest.raises(TraceError, match=r"trace ef: trace without any input or output.*accepted are spans with"):
        read(write(tmp_path / "a.json", [empty]))


def test_a_report_keeps_counts_and_first_examples() -> None:
    report = ReadReport()
    report.add("comma", "a.json")
    report.add("comma", "b.json", 2)
    report.add("nothing", "c.json", 0)
    assert report.lines() == ["3 x comma; first: a.json"]
    assert report.to_json() == [{"kind": "comma", "count": 3, "first": "a.json", "examples": ["a.json", "b.json"]}]


def test_an_error_in_one_of_many_files_says_how_many_others_there_are(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.json", [RUN])
    write(tmp_path / "c.json", {"what": "is this"})
    with pytest.raises(TraceError, match=r"c\.json: no known format .* \(2 other files were given\)$"):
        read(tmp_path, strict=True)
