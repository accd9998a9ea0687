from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from judges.render import render
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.readers import read
from labeled_traces.simulated import simulate
from labeled_traces.trace import Span, SpanKind, Trace
from labeled_traces.writers import write

TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}]
CALL = {"id": "c1", "name": "search", "arguments": {"q": "é"}}
TRACE = Trace(
    "run-1",
    (
        Span("root", None, "agent", SpanKind.AGENT, 1_796_000_000.0, 1_796_000_009.5, "find it", "found", "OK"),
        Span(
            "step-1",
            "root",
            "model",
            SpanKind.LLM,
            1_796_000_001.0,
            1_796_000_002.0,
            {"messages": [{"role": "user", "content": "go"}], "tools": TOOLS},
            {"messages": [{"role": "assistant", "content": None, "tool_calls": [CALL]}]},
            "OK",
            attributes={"llm.model_name": "m-1", "llm.token_count": {"prompt": 7, "completion": 2, "total": 9}},
        ),
        Span("step-2", "root", "search", SpanKind.TOOL, None, None, {"q": "é"}, None, "ERROR", "HTTP 429"),
    ),
)
ANN = ErrorLabel("step-2", ("tool_calling",), "Rate Limiting", Impact.HIGH, "gives up", "HTTP 429", "ann", 1.8e9)
BOB = ErrorLabel("step-1", (), "Tool-related", Impact.LOW, "the service's fault", rater="bob", time=1.8e9 + 5)
ROW = LabeledTrace(
    TRACE, (ANN, BOB), (ScoreLabel("tool_calling", 0, "ann", 1.8e9),), "task 7", reference="42", raters=("ann", "bob")
)


def record_of(row: LabeledTrace, path: Path) -> dict[str, Any]:
    write([row], "mlflow", path)
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def test_mlflow_reads_the_trace(tmp_path: Path) -> None:
    from mlflow.entities import Trace as MlflowTrace

    trace = MlflowTrace.from_dict(record_of(ROW, tmp_path / "a.jsonl"))
    root, model, tool = trace.data.spans
    assert (root.inputs, root.outputs, root.span_type) == ("find it", "found", "AGENT")
    assert (model.span_type, model.parent_id, model.start_time_ns) == (
        "CHAT_MODEL",
        root.span_id,
        1_796_000_001 * 10**9,
    )
    assert model.get_attribute("mlflow.chat.tokenUsage") == {"input_tokens": 7, "output_tokens": 2, "total_tokens": 9}
    assert model.get_attribute("mlflow.chat.tools") == TOOLS
    call = model.outputs["messages"][0]["tool_calls"][0]
    assert call == {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "é"}'}}
    assert tool.status.status_code == "ERROR"
    assert tool.status.description == "HTTP 429"
    said = {(one.name, one.source.source_id): one for one in trace.info.assessments}
    assert said["gpa_error", "ann"].span_id == tool.span_id
    assert said["gpa_error", "ann"].rationale == "gives up"
    assert said["gpa_tool_calling", "ann"].value == 0
    assert all(one.source.source_type == "HUMAN" for one in said.values())
    assert trace.to_dict()["data"] == record_of(ROW, tmp_path / "b.jsonl")["data"]


def test_through_a_store_of_mlflow(tmp_path: Path, mlflow_database: str) -> None:
    """Traces and assessments logged through MLflow's own client, and read back from it."""
    from mlflow import MlflowClient
    from mlflow.entities import Trace as MlflowTrace
    from mlflow.tracing.client import TracingClient

    experiment = MlflowClient(tracking_uri=mlflow_database).create_experiment("converted", tmp_path.as_uri())
    client = TracingClient(mlflow_database)
    rows = [ROW, *simulate(2, seed=9)]
    with (tmp_path / "exported.jsonl").open("w", encoding="utf-8") as exported:
        for row in rows:
            trace = MlflowTrace.from_dict(record_of(row, tmp_path / "a.jsonl"))
            client.log_spans(experiment, trace.data.spans)
            for one in trace.info.assessments:
                client.log_assessment(trace.info.trace_id, one)
            exported.write(json.dumps(client.get_trace(trace.info.trace_id).to_dict()) + "\n")
    back, _ = read(tmp_path / "exported.jsonl")
    for row in rows:
        assert render(back[row.trace_id].trace, 10**6) == render(row.trace, 10**6)
    assert sorted(back["run-1"].errors, key=lambda error: error.rater) == [ANN, BOB]
    assert (back["run-1"].group, back["run-1"].reference) == ("task 7", "42")


def test_labels_that_were_given_changed_or_removed_in_mlflow_stay_so(tmp_path: Path) -> None:
    record = record_of(ROW, tmp_path / "a.jsonl")
    first, second, *rest = record["info"]["assessments"]
    new = {**first, "source": {"source_type": "HUMAN", "source_id": "eve"}, "assessment_id": "a-new"}
    first["metadata"] = {**first["metadata"], "impact": "low"}
    second["valid"] = False
    record["info"]["assessments"] = [first, second, *rest, new]
    (tmp_path / "b.jsonl").write_text(json.dumps(record), encoding="utf-8")
    (row,) = read(tmp_path / "b.jsonl")[0]
    told = {(error.rater, error.impact, error.span_id) for error in row.errors}
    assert told == {("ann", Impact.LOW, "step-2"), ("eve", Impact.HIGH, "step-2")}


def test_who_looked_and_saw_nothing_says_so(tmp_path: Path) -> None:
    clean = LabeledTrace(TRACE, clean="checked", raters=("ann", "bob"))
    said = record_of(clean, tmp_path / "a.jsonl")["info"]["assessments"]
    assert [(one["source"]["source_id"], one["feedback"]["value"]) for one in said] == [
        ("ann", "none"),
        ("bob", "none"),
    ]
    assert record_of(replace(clean, clean="unknown", raters=()), tmp_path / "b.jsonl")["info"]["assessments"] == []
