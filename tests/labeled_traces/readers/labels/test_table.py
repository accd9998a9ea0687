from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace, from_json, to_json
from labeled_traces.label import NOT_PLACED, ErrorLabel, Impact, ScoreLabel
from labeled_traces.readers import read
from labeled_traces.readers.labels.table_columns import NOT_READ, TableForm
from labeled_traces.readers.report import LABEL, ReadReport
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError

A, B = "00f067aa0ba902b7a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4736"
ROOT, STEP = "00f067aa0ba902b7", "53995c3f42cd8ad8"


def trace(trace_id: str, *span_ids: str) -> LabeledTrace:
    root, *others = span_ids or (ROOT, STEP)
    spans = [Span(root, None, "agent", SpanKind.AGENT, inputs=f"goal of {trace_id}", outputs="done")]
    spans += [Span(name, root, "tool", SpanKind.TOOL, inputs={"n": name}, outputs="ok") for name in others]
    return LabeledTrace(Trace(trace_id, tuple(spans)), clean="unknown")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Dataset([trace(A), trace(B), trace("chat", "run", "step-0", "step-1", "step-2")]).save(tmp_path / "data.jsonl")
    return tmp_path


def with_labels(
    folder: Path, table: str | Sequence[Mapping[str, JSON]], form: TableForm | None = None, **options: Any
) -> tuple[Dataset, ReadReport]:
    path = folder / ("labels.csv" if isinstance(table, str) else "labels.jsonl")
    path.write_text(table if isinstance(table, str) else "".join(json.dumps(row) + "\n" for row in table))
    return read(folder / "data.jsonl", labels=path, table=form, **options)


def test_a_row_of_each_kind(folder: Path) -> None:
    data, report = with_labels(
        folder,
        "trace_id,span_id,category,dimensions,impact,description,evidence,rater,time,score\n"
        f'{A},{STEP},Goal Deviation,,HIGH,"went, elsewhere",n=1,ann,2025-05-31T12:00:00Z,\n'
        f"{A},,,TC; plan-quality,low,,,ann,,\n"
        f"{A},,,tool_calling,,said why,,bob,1748692800000,1\n"
        f"{B},,none,,,,,bob,1748692800,\n",
        strict=True,
    )
    first, second = data[A].errors
    assert first == ErrorLabel(
        STEP, first.dimensions, "Goal Deviation", Impact.HIGH, "went, elsewhere", "n=1", "ann", 1748692800.0
    )
    assert first.dimensions, "the taxonomy gives them"
    assert (second.span_id, second.dimensions) == (None, ("tool_calling", "plan_quality"))
    assert second.category == "tool_calling, plan_quality"
    assert data[A].scores == (ScoreLabel("tool_calling", 1, "bob", 1748692800.0),)
    assert data[A].raters == ("ann",), "who gave a score has judged one dimension"
    assert (data[B].errors, data[B].clean, data[B].raters) == ((), "checked", ("bob",))
    assert data[B].metadata == {"looked_at": {"bob": 1748692800.0}}
    assert (data["chat"].clean, data["chat"].raters) == ("unknown", ())
    assert report.counts == {}
    assert from_json(json.loads(json.dumps(to_json(data[A]))), "") == data[A]


def test_a_score_without_an_error_is_an_error_that_nobody_has_placed(folder: Path) -> None:
    rows: list[dict[str, JSON]] = [
        {"trace_id": A, "dimension": "TC", "score": 0, "description": "why", "rater": "bob"},
        {"trace_id": A, "dimension": "plan quality", "score": 2.0, "rater": "bob", "span_id": STEP},
        {"trace_id": A, "dimension": "PA", "score": "3", "rater": "bob"},
    ]
    data, _ = with_labels(folder, rows, strict=True)
    placed, unplaced = data[A].errors
    assert (placed.span_id, placed.dimensions, placed.impact) == (STEP, ("plan_quality",), Impact.LOW)
    assert unplaced == ErrorLabel(None, ("tool_calling",), NOT_PLACED, Impact.HIGH, "why", rater="bob")
    assert [score.score for score in data[A].scores] == [0, 2, 3]


FORMS = {
    "hex": (A, STEP),
    "0x and capitals": (f"0x{A.upper()}", f"0X{STEP.upper()}"),
    "base64": tuple(base64.b64encode(bytes.fromhex(name)).decode() for name in (A, STEP)),
    "int": (str(int(A, 16)), str(int(STEP, 16))),
    "UUID": (f"{A[:8]}-{A[8:12]}-{A[12:16]}-{A[16:20]}-{A[20:]}", STEP),
    "MLflow's, and an int of 64 bits with a sign": (f"tr-{A}", str(int(STEP, 16) - (1 << 64 if STEP[0] > "7" else 0))),
    "a float of a column with gaps": (f"{int(A, 16)}.0", f"{int(STEP, 16)}.0"),
}


@pytest.mark.parametrize("form", FORMS)
def test_ids_join_in_every_form(folder: Path, form: str) -> None:
    trace_id, span_id = FORMS[form]
    data, report = with_labels(folder, f"trace_id;span_id;dimension\n{trace_id};{span_id};TC\n")
    assert [error.span_id for error in data[A].errors] == [STEP]
    assert report.unjoined == []


def test_two_raters_who_write_one_id_in_two_forms(folder: Path) -> None:
    rows = [{"trace_id": name, "dimension": "TC", "rater": form} for form, (name, _) in FORMS.items()]
    data, _ = with_labels(folder, rows)
    assert {error.rater for error in data[A].errors} == set(FORMS)


def test_an_id_above_the_largest_signed_number(tmp_path: Path) -> None:
    number = 0xEEE19B7EC3C1B174
    Dataset([trace("t", ROOT, format(number, "x"))]).save(tmp_path / "data.jsonl")
    data, _ = with_labels(tmp_path, [{"trace_id": "t", "span_id": number - 2**64, "dimension": "TC"}])
    assert data["t"].errors[0].span_id == format(number, "x")


def test_small_numbers_are_no_forms_of_each_other(tmp_path: Path) -> None:
    Dataset([trace("10"), trace("16"), trace("a")]).save(tmp_path / "data.jsonl")
    data, _ = with_labels(tmp_path, [{"trace_id": 16, "dimension": "TC"}, {"trace_id": "10", "dimension": "PA"}])
    assert {row.trace_id: [error.dimensions for error in row.errors] for row in data} == {
        "10": [("plan_adherence",)],
        "16": [("tool_calling",)],
        "a": [],
    }


def test_an_id_that_may_be_two_is_an_error_unless_one_is_written_so(tmp_path: Path) -> None:
    number = "1234567890123456"  # 16 hex digits, and a decimal number
    other = format(int(number), "016x")
    upper = f"0x{number}"
    Dataset([trace(upper), trace(other)]).save(tmp_path / "data.jsonl")
    with pytest.raises(TraceError, match=rf"line 1: '{number}' may be the trace '{upper}' and '{other}'"):
        with_labels(tmp_path, [{"trace_id": number, "dimension": "TC"}])
    data, _ = with_labels(tmp_path, [{"trace_id": other, "dimension": "TC"}])
    assert [len(row.errors) for row in data] == [0, 1]
    Dataset([trace("t", upper, other)]).save(tmp_path / "data.jsonl")
    data, report = with_labels(tmp_path, [{"trace_id": "t", "span_id": number, "dimension": "TC"}], allow_missing=True)
    assert f"{number!r} may be {other!r} and {upper!r}" in report.examples[LABEL][0]
    assert data["t"].clean == "unknown"


def test_labels_that_join_no_span_are_kept_and_all_listed(folder: Path) -> None:
    rows = [{"trace_id": A, "span_id": f"gone-{n}", "dimension": "TC"} for n in range(12)]
    data, report = with_labels(folder, rows)
    assert [error.span_id for error in data[A].errors] == [None] * 12
    assert [(row["span"], row["why"]) for row in report.unjoined] == [(f"gone-{n}", "no such span") for n in range(12)]
    assert report.unjoined[3]["where"] == f"{folder / 'labels.jsonl'}, line 4"


def test_what_is_wrong_with_labels_is_not_about_one_of_the_files(folder: Path) -> None:
    (folder / "more.jsonl").write_bytes((folder / "data.jsonl").read_bytes())
    for wrong in ({"trace_id": "gone"}, {"impact": "severe"}):
        (folder / "labels.jsonl").write_text(json.dumps({"trace_id": A, "dimension": "TC", **wrong}))
        with pytest.raises(TraceError) as raised:
            read([folder / "data.jsonl", folder / "more.jsonl"], labels=folder / "labels.jsonl")
        assert "other file" not in str(raised.value)


def test_labels_of_unknown_traces_are_refused_or_counted(folder: Path) -> None:
    rows = [{"trace_id": name, "dimension": "TC"} for name in (A, "gone", "gone", "lost")]
    with pytest.raises(TraceError, match=r"line 2: labels of 'gone', .* \(3 such labels, of 2 ids\).*--allow-missing"):
        with_labels(folder, rows)
    data, report = with_labels(folder, rows, allow_missing=True)
    assert len(data[A].errors) == 1
    assert report.counts["label of a trace that was not read, left out"] == 3
    assert [(row["trace_id"], row["labels"]) for row in report.unjoined] == [("gone", 2), ("lost", 1)]


def test_an_unknown_trace_is_told_with_what_may_be_meant(tmp_path: Path) -> None:
    Dataset([trace("support-17"), trace("support-18")]).save(tmp_path / "data.jsonl")
    for given, hint in (
        ("Support-17", r"did you mean `support-17`\?"),
        ("x", "a trace is 'support-17'"),
        ("1.23E+15", "a spreadsheet has cut digits off: write ids as text"),
    ):
        with pytest.raises(TraceError, match=hint):
            with_labels(tmp_path, f"trace_id,dimension\n{given},TC\n")


@pytest.mark.parametrize(("start", "expected"), [(0, ["step-0", "step-2", None]), (1, [None, "step-1", "step-2"])])
def test_steps_count_from_where_the_user_says(folder: Path, start: int, expected: list[str | None]) -> None:
    rows = [{"run": "chat", "turn": turn, "dimension": "TC"} for turn in ("0", 2, 3.0)]
    data, report = with_labels(folder, rows, TableForm.parse(["trace_id=run,step=turn"], start))
    assert [error.span_id for error in data["chat"].errors] == expected
    assert len(report.unjoined) == 1
    by_span, _ = with_labels(folder, rows, TableForm.parse(["trace_id=run", "span_id=turn"], start))
    assert by_span["chat"].errors == data["chat"].errors
    with pytest.raises(TraceError, match=r"line 1, column 'turn': counts steps, but from where\?.*--steps-from 0"):
        with_labels(folder, rows)


def test_steps_of_a_trace_without_numbered_ones_are_its_spans_in_order(folder: Path) -> None:
    rows: list[dict[str, JSON]] = [
        {"trace_id": A, "step": 1, "dimension": "TC"},
        {"trace_id": A, "step": "step-1", "dimension": "TC"},
    ]
    data, report = with_labels(folder, rows, TableForm(steps_from=0))
    assert [error.span_id for error in data[A].errors] == [STEP, None]
    assert report.counts["step counted over the spans of its trace, which has no numbered steps"] == 1
    both = [{"trace_id": "chat", "span_id": "step-2", "step": 1, "dimension": "TC"}]
    _, report = with_labels(folder, both, TableForm(steps_from=0), allow_missing=True)
    assert "the span 'step-2' is not the step, which is 'step-1'" in report.examples[LABEL][0]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"trace_id": ""}, "column 'trace_id': is empty"),
        ({"dimensions": "tool_caling"}, r"column 'dimensions': 'tool_caling' is unknown \(did you mean `tool_calling`"),
        ({"impact": "severe"}, "column 'impact': impact 'severe' is unknown: accepted are low, medium and high"),
        ({"score": 4}, "column 'score': '4' is no score: accepted are 0"),
        ({"score": True}, "column 'score': 'True' is no score"),
        ({"score": 1, "dimensions": "TC,PA"}, "a score of 2 dimensions: accepted is a score with one dimension"),
        ({"score": 3, "span_id": STEP}, "score 3 contradicts"),
        ({"score": 1, "dimensions": "TC", "category": "none"}, "score 1 contradicts"),
        ({"category": "none"}, "says `none` and marks an error"),
        ({"dimensions": "none", "span_id": STEP}, "says `none` and marks an error"),
        ({"dimensions": ""}, "says nothing: accepted are a category, dimensions, a score"),
        ({"dimensions": "", "span_id": STEP}, "an error of no kind: accepted is a category or dimensions"),
        ({"rater": {"name": "ann"}}, "column 'rater': is dict: accepted is a text"),
        ({"span_id": [ROOT, STEP]}, "column 'span_id': is list: accepted is a text, in a row of its own"),
        ({"span_id": True}, "column 'span_id': is True: accepted is an id"),
        ({"span_id": 1.2e19}, "column 'span_id': 1.2e.19 is a number that lost digits"),
    ],
)
def test_a_bad_row_names_file_row_column_and_what_is_accepted(folder: Path, cells: JSON, message: str) -> None:
    rows = [{"trace_id": A, "dimensions": "TC"}, {"trace_id": B, "dimensions": "TC", **cells}]
    with pytest.raises(TraceError, match=rf"labels\.jsonl, line 2(, |: ).*{message}"):
        with_labels(folder, rows, strict=True)
    with pytest.raises(TraceError, match=rf"1 label cannot be read: .*--allow-missing.*\n.*line 2(, |: ).*{message}"):
        with_labels(folder, rows)
    data, report = with_labels(folder, rows, allow_missing=True)
    assert len(data[A].errors) == 1
    assert data[B].clean == "unknown"
    assert report.counts[LABEL] == len(report.unjoined) == 1


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ("yesterday", "'yesterday' is no time: accepted are ISO 8601"),
        (-1, "'-1' is no time"),
        ("45808.5", "'45808.5' counts days, as spreadsheets do: accepted is ISO 8601"),
    ],
)
def test_a_label_is_kept_without_a_time_that_cannot_be_read(folder: Path, time: JSON, message: str) -> None:
    rows = [{"trace_id": A, "dimensions": "TC", "time": time}]
    data, report = with_labels(folder, rows)
    assert [error.time for error in data[A].errors] == [None]
    assert message in report.examples["label whose time cannot be read, kept without one"][0]
    with pytest.raises(TraceError, match=f"line 1, column 'time': {message}"):
        with_labels(folder, rows, strict=True)


@pytest.mark.parametrize(
    ("heading", "columns", "message"),
    [
        (
            "trase_id,dimension",
            "",
            r"no column for trace_id \(did you mean `trase_id`\?\): the columns are trase_id, dim",
        ),
        ("trace_id,note", "", "no column for any of category, dimensions, score: the columns are trace_id, note"),
        ("trace_id,dimension", "rater=whoo", "no column 'whoo' for rater: the columns are"),
        ("trace_id,dimension,who", "rater=whoo", r"no column 'whoo' for rater \(did you mean `who`\?\)"),
        ("trace_id,dimension,note,comment", "", "'comment' and 'note' may both be description: accepted is --columns"),
        ("trace_id,trace_id,dimension", "", "row 1: two columns are called 'trace_id'"),
        ("trace_id,dimension", "traceid=x", r"--columns: 'traceid' is unknown \(did you mean `trace_id`\?\)"),
        ("trace_id,dimension", "rater", "--columns 'rater': accepted is FIELD=COLUMN"),
        ("trace_id,dimension", "step=a,step=b", "--columns: step is there twice"),
        ("id,dimension", "trace_id=id,rater=id", "column 'id' is trace_id and rater: accepted is one field"),
    ],
)
def test_bad_columns_are_told(folder: Path, heading: str, columns: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        with_labels(folder, f"{heading}\n{A},TC\n", TableForm.parse([columns]) if columns else None)


def test_columns_whose_names_are_awkward(folder: Path) -> None:
    form = TableForm.parse(["trace_id=run, of the agent,category=a=b", "rater=span_id"])
    data, _ = with_labels(folder, f'"run, of the agent",a=b,span_id\n{A},Tool-related,ann\n', form)
    (error,) = data[A].errors
    assert (error.category, error.rater, error.span_id) == ("Tool-related", "ann", None)
    data, report = with_labels(folder, f"trace_id,Trace ID,dimension\n{A},{B},TC\n")
    assert [len(row.errors) for row in data] == [1, 0, 0]
    assert report.examples[NOT_READ] == [f"{folder / 'labels.csv'}: Trace ID"]


def test_what_was_guessed_and_what_is_not_read_is_told(folder: Path) -> None:
    _, report = with_labels(folder, f"Run ID,Annotator,dimensions,catgory,confidence\n{A},ann,TC,x,0.9\n")
    path = folder / "labels.csv"
    assert report.notes == [
        f"{path}: columns recognised by their names: trace_id=Run ID, rater=Annotator (else: --columns)"
    ]
    assert report.examples[NOT_READ] == [f"{path}: catgory (did you mean `category`?), confidence"]
    assert report.counts[NOT_READ] == 2
    data, report = with_labels(folder, f"trace_id,note,dimensions\n{A},x,TC\n", TableForm.parse(["description="]))
    assert data[A].errors[0].description == ""
    assert report.examples[NOT_READ] == [f"{path}: note"]
    data, report = with_labels(folder, f"run,who,when,dimensions\n{A},ann,2025-05-31,TC\n")
    assert (data[A].errors[0].rater, NOT_READ in report.counts) == ("ann", False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f'trace_id,dimension\n{A},"TC\n', r"line \d: no table \(unexpected end of data\)"),
        (f"trace_id,dimension\n{A},TC,too,many\n", "row 2: has 4 cells, the heading 2"),
        ("", "is empty"),
        ("trace_id,dimension\n,\n", "holds no row"),
        ("trace_id,dimension\n", "holds no row"),
        ("PK\x03\x04", "is in a spreadsheet's own form: accepted is .*saved as CSV UTF-8"),
        (f"trace_id,dimension,score\n{A},TC,N/A\n", "no score was given, passed over, and so are all rows"),
    ],
)
def test_broken_tables(folder: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=rf"labels\.csv.*{message}"):
        with_labels(folder, text)


def test_csv_as_spreadsheets_write_it(folder: Path) -> None:
    text = f'\ufefftrace_id;description;dimension\r\n{A};"one;\ntwo";TC\r\n;;\r\n{B};;PA;;\r\n'
    data, _ = with_labels(folder, text)
    assert data[A].errors[0].description == "one;\ntwo"
    assert data[B].errors[0].dimensions == ("plan_adherence",)


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [
        ("l.csv", f'"trace_id";"dimension";"a, b, c"\n{A};TC;x\n', "utf-8"),
        ("l.csv", f"sep=;\r\ntrace_id;dimension\r\n{A};TC\r\n", "utf-8"),
        ("l.csv", f'trace_id,dimension,"a\nnote"\n{A},TC,x\n', "utf-8"),
        ("l.tsv", f"trace_id\tdimension\n{A}\tTC\n", "utf-16"),
        ("l.tsv", f"trace_id,dimension\n{A},TC\n", "utf-8-sig"),
    ],
)
def test_separators_and_encodings(folder: Path, name: str, text: str, encoding: str) -> None:
    (folder / name).write_bytes(text.encode(encoding))
    data, _ = read(folder / "data.jsonl", labels=folder / name, strict=True)
    assert [error.dimensions for error in data[A].errors] == [("tool_calling",)]


def test_a_cell_as_long_as_a_trace(folder: Path) -> None:
    data, _ = with_labels(folder, f"trace_id,dimension,evidence\n{A},TC,{'x' * 200_000}\n")
    assert len(data[A].errors[0].evidence) == 200_000


def test_traces_that_are_given_as_labels(folder: Path) -> None:
    with pytest.raises(TraceError, match=r"data\.jsonl: is given as labels, and nothing else as traces"):
        read(folder / "data.jsonl", labels=folder / "data.jsonl")


def test_a_dimension_that_was_not_scored_is_no_error(folder: Path) -> None:
    rows = "".join(
        f"{A},{cells}\n" for cells in ("TC,2,", "PQ,,", "PA,N/A,no plan", "GF,nan,", "LC,,reads odd", "EE,none,")
    )
    data, report = with_labels(folder, f"trace_id,dimension,score,comment\n{rows}", allow_missing=True)
    assert [(score.dimension, score.score) for score in data[A].scores] == [("tool_calling", 2)]
    assert [error.dimensions for error in data[A].errors] == [("tool_calling",)]
    assert report.counts["dimension to which no score was given, passed over"] == 4
    assert "row 6: a dimension without a score: accepted is one, `N/A`" in report.examples[LABEL][0]


def test_cells_that_hold_nothing(folder: Path) -> None:
    data, _ = with_labels(
        folder,
        f"trace_id,step,category,impact,rater,time\nchat,1.0,Tool-related,N/A,nan,20250531\n{A},-,Tool-related,-,-,NaN\n",
        TableForm(steps_from=1),
    )
    (error,) = data["chat"].errors
    assert (error.span_id, error.rater, error.time) == ("step-0", "", 1748649600.0)
    assert [(error.span_id, error.rater, error.time) for error in data[A].errors] == [(None, "", None)]


def test_none_beside_an_error_of_the_same_rater_is_told(folder: Path) -> None:
    data, report = with_labels(folder, f"trace_id,category,rater\n{A},none,ann\n{A},Tool-related,ann\n{B},none,ann\n")
    assert [len(row.errors) for row in data] == [1, 0, 0]
    assert report.counts["`none` of a rater who marks an error in the same trace, the error counts"] == 1


def test_rows_in_an_object(folder: Path) -> None:
    (folder / "labels.json").write_text(json.dumps({"version": 1, "labels": [{"trace_id": A, "dimension": "TC"}]}))
    data, _ = read(folder / "data.jsonl", labels=folder / "labels.json")
    assert len(data[A].errors) == 1
    (folder / "labels.json").write_text(json.dumps({"trace_id": {"0": A}, "dimension": {"0": "TC"}}))
    with pytest.raises(TraceError, match=r"no table of labels.*orient='records'"):
        read(folder / "data.jsonl", labels=folder / "labels.json")


def test_parquet_and_a_folder_of_tables(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "tables").mkdir()
    frame = pa.table(
        {
            "trace_id": [A, B],
            "dimensions": [["TC", "PA"], ["none"]],
            "score": [None, None],
            "rater": ["ann", "ann"],
            "time": [datetime(2025, 5, 31, 12), None],
        }
    )
    pq.write_table(frame, folder / "tables" / "a.parquet")
    (folder / "tables" / "b.csv").write_text(f"trace_id,dimension,rater\n{A},EE,bob\n")
    data, report = read(folder / "data.jsonl", labels=folder / "tables", strict=True)
    assert [(error.dimensions, error.rater, error.time) for error in data[A].errors] == [
        (("tool_calling", "plan_adherence"), "ann", 1748692800.0),
        (("execution_efficiency",), "bob", None),
    ]
    assert (data[A].raters, data[B].raters) == (("ann", "bob"), ("ann",))
    (folder / "bad.parquet").write_text("no parquet")
    with pytest.raises(TraceError, match=r"bad\.parquet: cannot be read as Parquet"):
        read(folder / "data.jsonl", labels=folder / "bad.parquet")
    assert report.unjoined == []


def test_labels_stand_beside_those_of_the_row_and_twice_is_once(folder: Path) -> None:
    rows = [{"trace_id": A, "span_id": STEP, "dimension": "TC", "rater": "ann"}] * 2
    data, report = with_labels(folder, rows)
    assert (len(data[A].errors), report.counts["label twice, kept once"]) == (1, 1)
    _, report = with_labels(folder, [{**rows[0], "trace_id": f"0x{A}", "span_id": f"0x{STEP}"}, rows[0]])
    assert report.counts["label twice, kept once"] == 1, "in another form of the ids"
    data.save(folder / "data.jsonl")
    data, report = with_labels(folder, [*rows, {"trace_id": A, "span_id": STEP, "dimension": "TC", "rater": "bob"}])
    assert [error.rater for error in data[A].errors] == ["ann", "bob"]
    assert report.counts["label twice, kept once"] == 2


def test_of_two_scores_of_one_rater_the_newest_is_kept(folder: Path) -> None:
    score = {"trace_id": A, "dimension": "TC", "rater": "ann"}
    data, report = with_labels(folder, [{**score, "score": 1, "time": 20}, {**score, "score": 3, "time": 10}])
    assert data[A].scores == (ScoreLabel("tool_calling", 1, "ann", 20.0),)
    assert report.counts["score given again, the newest kept"] == 1
    data, report = with_labels(folder, [{**score, "score": 1}, {**score, "score": 3}], allow_missing=True)
    assert "ann scored tool_calling 1 before and 3 here" in report.examples[LABEL][0]


def test_labels_of_the_traces_own_format_may_stand_beside_a_table(tmp_path: Path) -> None:
    spans = [{"span_id": STEP, "span_attributes": {"input.value": "hi"}}]
    (tmp_path / "trace.json").write_text(json.dumps({"trace_id": A, "spans": spans}))
    error = {"category": "Goal Deviation", "location": STEP, "impact": "LOW"}
    (tmp_path / "said.json").write_text(json.dumps({"trace_id": A, "annotator": "ann", "errors": [error]}))
    (tmp_path / "said.csv").write_text(f"trace_id,category,rater\n{A},none,bob\n")
    (row,), _ = read(tmp_path / "trace.json", labels=[tmp_path / "said.json", tmp_path / "said.csv"], strict=True)
    assert ([error.rater for error in row.errors], row.raters) == (["ann"], ("ann", "bob"))
    with pytest.raises(TraceError, match="no label file is a table"):
        read(tmp_path / "trace.json", labels=tmp_path / "said.json", table=TableForm(steps_from=0))


def test_a_misspelt_category_is_told_with_what_was_meant_and_the_taxonomy_in_use(folder: Path) -> None:
    _, report = with_labels(folder, [{"trace_id": A, "category": "Gaol Deviation"}])
    (said,) = report.examples["category that the taxonomy does not have, so of no dimension"]
    assert said.endswith("line 1: 'Gaol Deviation' (did you mean `Goal Deviation`?) in 'trail'")
