from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from judges.judgment import Finding, Judgment, Outcome
from judges.render import render
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import Impact
from labeled_traces.simulated import simulate
from labeled_traces.trace import Span, Trace
from pipeline.cli import main
from pipeline.evaluate import save_judgments
from pipeline.labelling.copies import Copy
from pipeline.labelling.merge import SAW_VERDICTS
from pipeline.live_traces import LiveSource, read_live_into
from pipeline.mlflow_traces import MlflowTraces, assessments_of

Command = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: object) -> tuple[int, dict[str, Any]]:
        capsys.readouterr()
        code = main(["label", *map(str, words), "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def rows() -> list[LabeledTrace]:
    """Two of them with labels, which nobody is to see."""
    return simulate(3, seed=3)


@pytest.fixture
def data(rows: list[LabeledTrace], tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    Dataset(rows).save(path)
    return path


def say(uri: str, trace_id: str, rater: str, value: str, **more: Any) -> str:
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.tracing.client import TracingClient

    feedback = Feedback(name="gpa_error", value=value, source=AssessmentSource("HUMAN", rater), **more)
    return str(TracingClient(uri).log_assessment(trace_id, feedback).assessment_id)


def test_there_and_back(
    mlflow_server: str, rows: list[LabeledTrace], data: Path, tmp_path: Path, command: Command
) -> None:
    where = ("--tracking-uri", mlflow_server, "--experiment", "to label")
    code, sent = command("export", data, *where, "--raters", "ann", "ben")
    assert (code, sent["traces"], sent["there"], sent["queues"]) == (0, 3, 0, ["ann", "ben"])
    assert command("export", data, *where, "--raters", "ann", "ben")[1]["there"] == 3

    traces = MlflowTraces(mlflow_server, "to label")
    assert [assessments_of(record) for record in traces.records()] == [[], [], []], "nobody sees what others said"
    shown = read_live_into(lambda it, _: Dataset(row for _, row in it), LiveSource(mlflow_server, "to label"))[0]
    assert sent["page"] == f"{mlflow_server}/#/experiments/{traces.experiment_id}/traces"
    copies = [Copy.of(row.trace, traces.experiment_id) for row in rows]
    for row, copy in zip(rows, copies, strict=True):
        theirs = render(shown[copy.trace_id].trace, 100_000).text
        for old, new in copy.spans.items():
            theirs = theirs.replace(new, old)
        assert theirs == render(row.trace, 100_000).text

    tool = next(span.span_id for span in rows[0].trace.spans if span.parent_id)
    first = say(mlflow_server, copies[0].trace_id, "ann", "Tool-related", span_id=copies[0].spans[tool], rationale="no")
    say(mlflow_server, copies[0].trace_id, "ben", "Resource Abuse", rationale=f"[{copies[0].spans[tool]}] [high] slow")
    say(mlflow_server, copies[1].trace_id, "ann", "none")
    out = tmp_path / "labelled.jsonl"
    code, took = command("import", data, *where, "--out", out)
    assert (code, took["added"], took["known"], took["withdrawn"], took["biased"]) == (0, 2, 0, 0, 0)
    row = Dataset.load(out)[rows[0].trace_id]
    found = [error for error in row.errors if error.rater in ("ann", "ben")]
    assert [(error.span_id, error.rater, error.impact) for error in found] == [
        (tool, "ann", Impact.MEDIUM),
        (tool, "ben", Impact.HIGH),
    ]
    assert set(rows[0].errors) <= set(row.errors), "labels from before stay"
    assert Dataset.load(out)[rows[1].trace_id].raters == ("ann",)

    code, again = command("import", out, *where, "--out", out, "--force")
    assert (code, again["added"], again["known"], again["withdrawn"]) == (0, 0, 2, 0)
    assert Dataset.load(out)[rows[0].trace_id] == row
    say(mlflow_server, copies[0].trace_id, "ann", "Goal Deviation", rationale="second thought", overrides=first)
    code, changed = command("import", out, *where, "--out", out, "--force")
    assert (changed["added"], changed["withdrawn"]) == (1, 1)
    ann = [error for error in Dataset.load(out)[rows[0].trace_id].errors if error.rater == "ann"]
    assert [(error.category, error.description) for error in ann] == [("Goal Deviation", "second thought")]


def test_reviewers_find_their_questions(mlflow_server: str, data: Path, command: Command) -> None:
    import mlflow
    from mlflow.genai import label_schemas, review_queues

    where = ("--tracking-uri", mlflow_server, "--experiment", "queues")
    assert command("export", data, *where)[1]["queues"] == ["gpa-judges"]
    assert command("export", data, *where, "--raters", "ann")[1]["queues"] == ["ann"]
    experiment_id = MlflowTraces(mlflow_server, "queues").experiment_id
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(mlflow_server)
    try:
        names = {one.name: one for one in label_schemas.list_label_schemas(experiment_id=experiment_id)}
        queues = review_queues.list_review_queues(experiment_id=experiment_id)
        items = [len(review_queues.list_review_queue_items(queue.queue_id)) for queue in queues]
    finally:
        mlflow.set_tracking_uri(before)
    assert {"gpa_error", "gpa_plan_quality"} <= names.keys()
    assert "Kinds: none, " in names["gpa_error"].instruction
    assert sorted(queue.name for queue in queues) == ["ann", "gpa-judges"]
    assert items == [3, 3]


def test_verdicts_are_shown_on_request_alone_and_make_labels_biased(
    mlflow_server: str, rows: list[LabeledTrace], data: Path, tmp_path: Path, command: Command
) -> None:
    row = rows[0]
    finding = Finding("plan_quality", (row.trace.spans[1].span_id,), "no plan")
    save_judgments(
        tmp_path / "judgments.jsonl",
        [Judgment(row.trace_id, "plan_quality", "p" * 64, 0, Outcome.SCORED, 1, (finding,), "because")],
    )
    where = ("--tracking-uri", mlflow_server, "--experiment", "shown")
    for _ in range(2):
        shown = command("export", data, *where, "--with-verdicts", tmp_path / "judgments.jsonl")[1]
        assert shown["with_verdicts"] == 1
    copy = Copy.of(row.trace, MlflowTraces(mlflow_server, "shown").experiment_id)
    said = [assessments_of(record) for record in MlflowTraces(mlflow_server, "shown").records()]
    assert sorted(map(len, said)) == [0, 0, 2]
    say(mlflow_server, copy.trace_id, "ann", "none")
    code, took = command("import", data, *where, "--out", tmp_path / "out.jsonl")
    assert (code, took["biased"]) == (0, 1)
    labelled = Dataset.load(tmp_path / "out.jsonl")[row.trace_id]
    assert labelled.metadata[SAW_VERDICTS] == ["ann"]
    assert labelled.scores == row.scores, "a judge's score is no label"


def test_an_experiment_with_other_traces_is_refused(mlflow_server: str, data: Path, command: Command) -> None:
    from mlflow import MlflowClient

    MlflowClient(tracking_uri=mlflow_server).create_experiment("production")
    where, out = ("--tracking-uri", mlflow_server, "--experiment"), data.with_name("o.jsonl")
    code, said = command("export", data, *where, "production")
    assert code == 2
    assert "is there and not for labelling" in said["error"]["message"]
    code, said = command("import", data, *where, "production", "--out", out)
    assert code == 2
    assert "has none of the 3 traces of this data: accepted is the experiment that" in said["error"]["message"]
    code, said = command("import", data, *where, "produktion", "--out", out)
    assert "no experiment 'produktion' (did you mean `production`?)" in said["error"]["message"]


def test_a_table_there_and_back(rows: list[LabeledTrace], data: Path, tmp_path: Path, command: Command) -> None:
    table, out = tmp_path / "ann.csv", tmp_path / "out.jsonl"
    assert command("export", data, "--table", table, "--raters", "ann")[0] == 0
    code, said = command("import", data, "--table", table, "--out", out)
    assert code == 2
    assert "no row says anything" in said["error"]["message"]
    with table.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == sum(len(row.trace.spans) + 1 for row in rows)
    assert {line["rater"] for line in lines} == {"ann"}
    target = next(line for line in lines if line["span_id"])
    target |= {"category": "Tool-related", "impact": "high", "description": "wrong"}
    next(line for line in lines if line["trace_id"] == rows[2].trace_id)["category"] = "none"
    with table.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, lines[0].keys())
        writer.writeheader()
        writer.writerows(lines)
    code, took = command("import", data, "--table", table, "--out", out)
    assert (code, took["added"]) == (0, 1)
    labelled = Dataset.load(out)
    (error,) = [error for error in labelled[target["trace_id"]].errors if error.rater == "ann"]
    assert (error.span_id, error.impact, error.description) == (target["span_id"], Impact.HIGH, "wrong")
    assert labelled[rows[2].trace_id].raters == ("ann",)
    assert command("import", out, "--table", table, "--out", out, "--force")[1]["added"] == 0


def test_a_table_runs_nothing(rows: list[LabeledTrace], tmp_path: Path, command: Command) -> None:
    root = rows[0].trace.spans[0]
    spans = (replace(root, inputs="=1+1", name="@sum"), *rows[0].trace.spans[1:])
    data = tmp_path / "data.jsonl"
    Dataset([replace(rows[0], trace=replace(rows[0].trace, spans=spans))]).save(data)
    command("export", data, "--table", tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(encoding="utf-8-sig", newline="") as file:
        line = list(csv.DictReader(file))[1]
    assert (line["given"], line["name"]) == ("'=1+1", "'@sum")


def test_ids_that_a_spreadsheet_takes_for_formulas(tmp_path: Path, command: Command) -> None:
    """A base64 id may begin with +, and what has come from elsewhere with anything."""
    row = LabeledTrace(Trace("=2+5", (Span("+abc=", None, "agent", inputs="go"),)), clean="unknown")
    data, table, out = tmp_path / "data.jsonl", tmp_path / "t.csv", tmp_path / "out.jsonl"
    Dataset([row]).save(data)
    command("export", data, "--table", table)
    text = table.read_text(encoding="utf-8")
    assert "'=2+5,'+abc=,UNKNOWN" in text
    lines = text.splitlines()
    cells = lines[-1].split(",")
    cells[lines[0].split(",").index("dimensions")] = "TC"
    table.write_text("\n".join([lines[0], ",".join(cells)]), encoding="utf-8")
    assert command("import", data, "--table", table, "--out", out)[0] == 0
    assert [error.span_id for error in Dataset.load(out)["=2+5"].errors] == ["+abc="]


@pytest.mark.parametrize("words", [[], ["--table", "t.csv", "--experiment", "x"], ["--experiment", "x"]])
def test_where_people_label_is_said_once(words: list[str], data: Path, command: Command) -> None:
    code, said = command("export", data, *words)
    assert code == 2
    assert "where do people label?" in said["error"]["message"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_cells_of_several_lines_come_back_and_a_bad_row_is_told_in_the_users_file(
    tmp_path: Path, command: Command, end: str
) -> None:
    """Without a comma or a quote in it, such a cell is quoted for its line ends alone."""
    row = LabeledTrace(Trace("t", (Span("a", None, "agent", inputs="go", outputs=f"one{end}two"),)), clean="unknown")
    data, table, out = tmp_path / "data.jsonl", tmp_path / "t.csv", tmp_path / "out.jsonl"
    Dataset([row]).save(data)
    command("export", data, "--table", table, "--raters", "ann")
    with table.open(encoding="utf-8-sig", newline="") as file:
        first, second = csv.DictReader(file)
    assert (second["gave"][:3], second["gave"][-3:], second["rater"]) == ("one", "two", "ann")
    assert table.read_bytes().startswith(b"\xef\xbb\xbf"), "or Excel takes it for another encoding"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, first.keys())
        writer.writeheader()
        writer.writerows([{**first, "category": "none"}, {**second, "dimensions": "TC", "impact": "severe"}])
    code, said = command("import", data, "--table", table, "--out", out)
    assert (code, out.exists()) == (2, False), "no label is lost unasked"
    assert f"{table}, row 3, column 'impact': impact 'severe' is unknown" in said["error"]["message"]
    code, said = command("import", data, "--table", table, "--out", out, "--allow-missing")
    assert code == 0
    assert Dataset.load(out)["t"].clean == "unknown", "what ann said of it is not known whole"
    assert str(table) in json.dumps(said["warnings"])
    assert "impact 'severe' is unknown" in json.dumps(said["warnings"])
