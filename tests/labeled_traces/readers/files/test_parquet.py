from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeled_traces.dataset import Dataset, to_json
from labeled_traces.readers import read, sniff
from labeled_traces.readers.files.parquet import parquet_rows
from labeled_traces.readers.files.records import first_record, read_records
from labeled_traces.readers.report import FILE, RECORD, ReadReport
from labeled_traces.trace import JSON, TraceError

QUESTION = "How many houses face east?"
ASK = {"inputs": QUESTION, "kind": "AGENT", "span_id": "a", "parent_id": None, "name": "agent", "outputs": "4"}
CALL = {"inputs": "x", "kind": "TOOL", "span_id": "b", "parent_id": "a", "name": "find", "start": 1.5}


def table(path: Path, rows: list[dict[str, JSON]], **how: JSON) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path, **how)
    return path


def trail_row(trace_id: str, location: str = "b1") -> dict[str, JSON]:
    """As in the table of TRAIL's data set: two texts."""
    attributes = {"openinference.span.kind": "AGENT", "input.value": f"{QUESTION} {trace_id}"}
    child = {"span_id": "b1", "span_name": "x", "span_attributes": {"openinference.span.kind": "TOOL"}}
    root = {"span_id": "a1", "span_name": "run", "span_attributes": attributes, "child_spans": [child]}
    error = {"category": "Goal Deviation", "location": location, "impact": "HIGH", "evidence": "e", "description": "d"}
    trace = json.dumps({"trace_id": trace_id, "spans": [root]})
    return {"trace": trace, "labels": f'{{"trace_id": "{trace_id}", "errors": [{json.dumps(error)},], "scores": []}}'}


def test_the_table_of_trail_gives_each_trace_with_its_labels(tmp_path: Path) -> None:
    table(tmp_path / "gaia.parquet", [trail_row("aa"), trail_row("bb")])
    table(tmp_path / "swe_bench.parquet", [trail_row("cc")])
    assert sniff(tmp_path) == "trail"
    data, report = read(tmp_path)
    assert [row.trace_id for row in data] == ["aa", "bb", "cc"]
    assert [[(error.span_id, error.category) for error in row.errors] for row in data] == [
        [("b1", "Goal Deviation")]
    ] * 3
    assert [row.clean for row in data] == ["checked"] * 3
    assert report.counts == {"trailing comma": 3}
    assert report.examples["trailing comma"][0] == f"{tmp_path / 'gaia.parquet'}, row 1, labels"


def test_a_table_is_known_without_its_name(tmp_path: Path) -> None:
    blob = table(tmp_path / "a.parquet", [trail_row("aa")]).rename(tmp_path / "0f3a9c")
    assert sniff(blob) == "trail"
    assert [row.trace_id for row in read(blob)[0]] == ["aa"]
    with pytest.raises(TraceError, match="nothing: no such file"):
        read(tmp_path / "nothing")


def test_a_row_of_trail_that_cannot_be_read_is_left_out_and_named(tmp_path: Path) -> None:
    path = table(tmp_path / "gaia.parquet", [trail_row("aa"), {**trail_row("bb"), "trace": "{oops"}, trail_row("cc")])
    data, report = read(path)
    assert [row.trace_id for row in data] == ["aa", "cc"]
    assert report.counts[RECORD] == 1
    assert "gaia.parquet, row 2, trace: not JSON" in report.examples[RECORD][0]
    with pytest.raises(TraceError, match=r"gaia\.parquet, row 2, trace: not JSON"):
        read(path, strict=True)


def test_both_tables_of_who_and_when_are_what_their_files_are(tmp_path: Path) -> None:
    """As published: one has names, `ground_truth` and prompts by agent, the other roles, `groundtruth` and no names."""
    said = {"mistake_step": "1", "mistake_reason": "It guesses."}
    generated: list[dict[str, JSON]] = [
        {
            "is_correct": False,
            "question": QUESTION,
            "question_ID": f"q-{number}",
            "level": "2",
            "ground_truth": '["four", "4"]',
            "history": [
                {"content": "Count.", "name": agent, "role": "assistant"},
                {"content": "4", "name": "Checker", "role": "user"},
            ],
            "mistake_agent": "Checker",
            **said,
            "system_prompt": {agent: "You know tables."},
        }
        for number, agent in enumerate(("Excel_Expert", "Web_Expert"))
    ]
    log = ["human", "Orchestrator (thought)", "Orchestrator (-> WebSurfer)", "WebSurfer"]
    crafted: list[dict[str, JSON]] = [
        {
            "history": [{"content": f"{role} speaks", "role": role} for role in log],
            "question": QUESTION,
            "groundtruth": "4",
            "is_corrected": False,
            "mistake_agent": "Orchestrator",
            **said,
            "question_ID": "q-7",
            "mistake_type": None,
        }
    ]
    table(tmp_path / "Algorithm-Generated.parquet", generated)
    table(tmp_path / "Hand-Crafted.parquet", crafted)
    assert sniff(tmp_path) == "who_and_when"
    data, _ = read(tmp_path, strict=True)
    (tmp_path / "files").mkdir()
    for number, record in enumerate((*generated, *crafted)):
        (tmp_path / "files" / f"{number}.json").write_text(json.dumps(record))
    assert [to_json(row) for row in data] == [to_json(row) for row in read(tmp_path / "files", strict=True)[0]]
    assert next(iter(data)).trace.by_id["run"].inputs == {
        "task": QUESTION,
        "agents": {"Excel_Expert": "You know tables."},
    }
    assert [row.reference for row in data] == ['["four", "4"]', '["four", "4"]', "4"]


MLFLOW_SPANS: list[JSON] = [
    {
        "trace_id": "bGBpy26KIev+zoSTJ7+kdA==",
        "span_id": "TaxKGZLR414=",
        "parent_span_id": None,
        "name": "agent",
        "start_time_unix_nano": 1796092246669966807,
        "end_time_unix_nano": 1796092246670848470,
        "events": [],
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {
            "mlflow.spanType": '"AGENT"',
            "mlflow.spanInputs": '{"question": "three"}',
            "mlflow.spanOutputs": '"done"',
        },
        "links": [],
    },
    {
        "trace_id": "bGBpy26KIev+zoSTJ7+kdA==",
        "span_id": "XK1gq9kZTOo=",
        "parent_span_id": "TaxKGZLR414=",
        "name": "calc",
        "start_time_unix_nano": 1796092246670295931,
        "end_time_unix_nano": 1796092246670782111,
        "events": [{"name": "exception", "attributes": {"exception.message": "boom", "exception.type": "ValueError"}}],
        "status": {"code": "STATUS_CODE_ERROR", "message": "ValueError: boom"},
        "attributes": {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": '{"a": 2}'},
        "links": [],
    },
]
SAID: list[JSON] = [
    {
        "assessment_id": "a-1",
        "assessment_name": "gpa_error",
        "span_id": "5cad60abd9194cea",
        "source": {"source_type": "HUMAN", "source_id": "ann"},
        "create_time": "2026-12-01T02:30:47.778Z",
        "feedback": {"value": "Tool-related"},
        "rationale": "bad",
        "metadata": {"impact": "high"},
        "valid": True,
    },
    {
        "assessment_id": "a-2",
        "assessment_name": "expected_answer",
        "source": {"source_type": "HUMAN", "source_id": "ann"},
        "create_time": "2026-12-01T02:30:47.797Z",
        "expectation": {"value": "42"},
        "valid": True,
    },
]


def mlflow_row() -> dict[str, JSON]:
    """A row of MLflow's `search_traces`."""
    about = {"mlflow.trace.session": "s1", "mlflow.trace_schema.version": "3"}
    info = {"trace_id": "tr-1", "trace_metadata": about, "assessments": SAID, "tags": {"mlflow.traceName": "agent"}}
    return {
        "trace_id": "tr-1",
        "trace": json.dumps({"info": info, "data": {"spans": MLFLOW_SPANS}}),
        "client_request_id": None,
        "state": "OK",
        "request_time": 1796092246669,
        "execution_duration": 1,
        "request": {"question": "three"},
        "response": "done",
        "trace_metadata": about,
        "tags": {"mlflow.traceName": "agent"},
        "spans": MLFLOW_SPANS,
        "assessments": SAID,
    }


def texts(row: dict[str, JSON]) -> dict[str, JSON]:
    return {name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in row.items()}


@pytest.mark.parametrize("without", [(), ("trace",), ("spans", "assessments", "trace_metadata")])
@pytest.mark.parametrize("form", ["nested", "texts", "lines"])
def test_the_table_of_mlflows_search_is_its_traces(tmp_path: Path, without: tuple[str, ...], form: str) -> None:
    row = {name: value for name, value in mlflow_row().items() if name not in without}
    path = tmp_path / ("a.jsonl" if form == "lines" else "a.parquet")
    if form == "lines":
        path.write_text(f"{json.dumps(row)}\n")
    else:
        table(path, [texts(row) if form == "texts" else row])
    (tmp_path / "whole.json").write_text(mlflow_row()["trace"])
    assert sniff(path) == "mlflow"
    ((found,), report), ((whole,), _) = read(path, strict=True), read(tmp_path / "whole.json", strict=True)
    assert to_json(found) == to_json(whole)
    assert (found.trace_id, found.reference, found.metadata["session"]) == ("tr-1", "42", "s1")
    assert [(one.span_id, one.category, one.rater) for one in found.errors] == [
        ("5cad60abd9194cea", "Tool-related", "ann")
    ]
    assert found.trace.spans[1].error == "ValueError: boom"
    assert report.counts == {}


@pytest.mark.parametrize("form", ["nested", "texts"])
def test_our_own_rows_come_back_from_a_table(tmp_path: Path, form: str) -> None:
    rows: list[dict[str, JSON]] = [
        {"trace": {"trace_id": trace_id, "spans": [ASK, CALL]}, "errors": [], "scores": [], "group": trace_id}
        for trace_id in ("one", "two")
    ]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    table(tmp_path / "a.parquet", [texts(row) if form == "texts" else row for row in rows])
    assert sniff(tmp_path / "a.parquet") == "dataset"
    assert list(read(tmp_path / "a.parquet")[0]) == list(Dataset.load(tmp_path / "a.jsonl"))


def test_spans_one_a_row_with_dotted_columns(tmp_path: Path) -> None:
    """As Phoenix gives them as a data frame."""
    shared = {"context.trace_id": "ab" * 16, "status_code": "OK", "attributes.input.mime_type": None}
    rows: list[dict[str, JSON]] = [
        {
            **shared,
            "context.span_id": "cd" * 8,
            "parent_id": None,
            "name": "agent",
            "start_time": datetime(2025, 5, 31, 12, tzinfo=UTC),
            "attributes.openinference.span.kind": "AGENT",
            "attributes.input.value": QUESTION,
            "attributes.llm.input_messages": None,
        },
        {
            **shared,
            "context.span_id": "ef" * 8,
            "parent_id": "cd" * 8,
            "name": "model",
            "start_time": datetime(2025, 5, 31, 12, 0, 1, tzinfo=UTC),
            "attributes.openinference.span.kind": "LLM",
            "attributes.input.value": None,
            "attributes.llm.input_messages": [{"message.role": "user", "message.content": QUESTION}],
        },
    ]
    (row,), report = read(table(tmp_path / "spans.parquet", rows))
    agent, model = row.trace.spans
    assert (agent.kind, agent.inputs, agent.start) == ("AGENT", QUESTION, 1748692800.0)
    assert (model.parent_id, model.inputs) == ("cd" * 8, {"messages": [{"role": "user", "content": QUESTION}]})
    assert report.counts == {}


@pytest.mark.parametrize("folder", ["", "t.parquet"])
def test_a_table_of_one_column_holds_records(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    run = {"task_id": 1, "trial": 0, "reward": 0.0, "traj": [{"role": "user", "content": "hi"}]}
    table(tmp_path / folder / "part-0.parquet", [{"record": json.dumps(run)}])
    (row,), _ = read(tmp_path)
    assert row.trace_id == "tau-1-0"


def test_every_type_is_json(tmp_path: Path) -> None:
    columns = {
        "ns": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")),
        "zone": pa.array([datetime(2025, 5, 31, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        "day": [date(2025, 5, 31)],
        "lasted": [timedelta(milliseconds=1500)],
        "price": [Decimal("1.50")],
        "count": pa.array([Decimal("12")], pa.decimal128(10, 0)),
        "small": pa.array([0.5], pa.float16()),
        "nan": [float("nan")],
        "bytes": [b"caf\xc3\xa9"],
        "id": pa.array([b"\x00\xff" * 4], pa.binary(8)),
        "struct": [{"a": 1, "b": None, "c": [{"d": None, "e": b"x"}, None]}],
        "map": pa.array([[("k", 1), ("l", None)]], pa.map_(pa.string(), pa.int64())),
        "words": pa.array(["w"]).dictionary_encode(),
        "big": [2**53 + 1],
        "yes": [True],
        "nothing": pa.nulls(1),
        "list": pa.array([[1.5, float("nan")]], pa.large_list(pa.float64())),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    refused: list[TraceError] = []
    ((place, row),) = parquet_rows(tmp_path / "a.parquet", refused.append)
    assert place == f"{tmp_path / 'a.parquet'}, row 1"
    assert row == {
        "ns": "2023-11-14T22:13:20.123456789",
        "zone": "2025-05-31T00:00:00+00:00",
        "day": "2025-05-31",
        "lasted": 1.5,
        "price": 1.5,
        "count": 12,
        "small": 0.5,
        "nan": None,
        "bytes": "café",
        "id": "00ff00ff00ff00ff",
        "struct": {"a": 1, "c": [{"e": "x"}, None]},
        "map": {"k": 1, "l": None},
        "words": "w",
        "big": 2**53 + 1,
        "yes": True,
        "nothing": None,
        "list": [1.5, None],
    }
    assert json.loads(json.dumps(row)) == row


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([b"x", b"\xff\xfe"]), "'utf-8' codec can't decode"),
        (pa.array([0, 10**15], pa.timestamp("ms")), "out of range|year"),
    ],
)
def test_a_cell_that_is_no_json_takes_its_row_alone(tmp_path: Path, column: pa.Array, reason: str) -> None:
    pq.write_table(pa.table({"trace_id": ["a", "b"], "odd": column}), tmp_path / "a.parquet")
    refused: list[TraceError] = []
    assert [row["trace_id"] for _, row in parquet_rows(tmp_path / "a.parquet", refused.append)] == ["a"]
    (error,) = refused
    with pytest.raises(TraceError, match=rf"a\.parquet, row 2, column 'odd': .*({reason}).*: accepted are values that"):
        raise error


def test_what_is_no_table_or_a_damaged_one_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("no parquet at all")
    (tmp_path / "empty.parquet").write_bytes(b"")
    whole = table(tmp_path / "whole.parquet", [trail_row("aa")]).read_bytes()
    (tmp_path / "half.parquet").write_bytes(whole[: len(whole) // 2])
    for name in ("text", "empty", "half"):
        with pytest.raises(
            TraceError, match=rf"{name}\.parquet: cannot be read as Parquet \(.+\): accepted is a Parquet"
        ):
            read(tmp_path / f"{name}.parquet")
    table(tmp_path / "none.parquet", [trail_row("aa")])
    pq.write_table(pq.read_table(tmp_path / "none.parquet").slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(TraceError, match=r"none\.parquet: holds no record"):
        read(tmp_path / "none.parquet")
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(TraceError, match=r"twice\.parquet: two columns are called 'a'"):
        read(tmp_path / "twice.parquet")


def test_damage_within_a_table_leaves_what_stands_before_it(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", [trail_row(f"a{n}") for n in range(4)], row_group_size=2, compression="gzip")
    raw = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
    raw[start + 40 : start + 80] = bytes(40)
    path.write_bytes(raw)
    data, report = read(path)
    assert [row.trace_id for row in data] == ["a0", "a1"]
    assert "a.parquet: cannot be read as Parquet" in report.examples[FILE][0]
    assert "2 rows before it were read" in report.examples[FILE][0]


def test_no_damage_is_silent(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", [trail_row(f"a{n}") for n in range(40)])
    raw = path.read_bytes()
    rows = b"\x16\x50\x19"  # the footer's count of rows, which is written twofold, and the list that follows it
    assert raw.count(rows) == 1
    path.write_bytes(raw.replace(rows, b"\x16\x52\x19"))
    data, report = read(path)
    assert len(data) == 40
    assert "it has 40 rows and says that they are 41" in report.examples[FILE][0]
    path.write_bytes(raw.replace(b"labels", b"\xf4abels"))
    with pytest.raises(TraceError, match=r"a\.parquet: cannot be read as Parquet \('utf-8' codec"):
        read(path)
    pq.write_table(pa.table({"trace": [b"x", b"\xff"], "labels": ["", ""]}), path)
    with pytest.raises(TraceError, match=r"a\.parquet, row 2, column 'trace': "):
        list(parquet_rows(path, ReadReport(strict=True).leave_out))


def test_columns_that_no_reader_knows_are_named(tmp_path: Path) -> None:
    path = table(tmp_path / "a.parquet", [{"prompt": "a", "completion": "b"}])
    with pytest.raises(TraceError, match=r"\(columns: prompt, completion\): accepted are .*rows \{trace, labels\}"):
        read(path)
    wide = table(tmp_path / "b.parquet", [{f"c{number}": 1 for number in range(40)}])
    with pytest.raises(TraceError, match=r"c29 and 10 more\)"):
        read(wide)


@pytest.mark.parametrize("name", ["labels.parquet", "labels.jsonl", "labels.csv"])
def test_labels_given_as_traces_are_recognised(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        table(path, [{"trace_id": "a", "category": "Goal Deviation"}])
    elif name.endswith("jsonl"):
        path.write_text('{"trace_id": "a", "category": "Goal Deviation"}\n')
    else:
        path.write_text("run,category\na,Goal Deviation\n")
    for format in ("auto", "trail") if name.endswith("csv") else ("auto",):
        with pytest.raises(
            TraceError, match=rf"it seems to be a table of labels: accepted is --labels .*{name}, beside"
        ):
            read(path, format)


@pytest.mark.parametrize("text", ["colour,age\nred,3\n", "", "\xff"])
def test_a_csv_file_holds_no_traces(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text, "latin-1")
    with pytest.raises(
        TraceError, match=r"a\.csv: a table of texts, no traces: accepted as traces are JSON, .*--labels"
    ):
        read(tmp_path / "a.csv")


def test_labels_in_their_own_form_may_stand_in_a_table(tmp_path: Path) -> None:
    row = trail_row("aa")
    (tmp_path / "a.json").write_text(row["trace"])
    labels = {
        "trace_id": "aa",
        "errors": json.dumps([{"category": "Goal Deviation", "location": "b1"}]),
        "scores": "[]",
    }
    (found,), _ = read(tmp_path / "a.json", labels=table(tmp_path / "labels.parquet", [labels]))
    assert [error.span_id for error in found.errors] == ["b1"]


def test_rows_are_streamed(tmp_path: Path) -> None:
    path = tmp_path / "big.parquet"
    with pq.ParquetWriter(path, pa.schema([("number", pa.int64()), ("text", pa.string())])) as writer:
        for start in range(0, 20_000, 200):
            numbers = range(start, start + 200)
            writer.write_table(pa.table({"number": list(numbers), "text": [str(n).zfill(2_500) for n in numbers]}))
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    assert first_record(path)["number"] == 0
    most = total = 0
    for _, record in read_records(path, ReadReport()):
        total += record["number"]
        most = max(most, pa.total_allocated_bytes() - before)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == 19_999 * 10_000
    assert most < 8_000_000  # of 50 MB
    assert peak < 1_000_000
