"""What three systems leave in a real MLflow server and three people say there comes back whole."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.label import Impact
from labeled_traces.readers import read as read_files
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import Span, SpanKind, TraceError
from pipeline import mlflow_traces
from pipeline.cli import main
from pipeline.config import PipelineError
from pipeline.live_traces import UNFINISHED, LiveSource, read_live_into

EXPERIMENT = "live traces"
OTLP_TRACE = "5b8efff798038103d269b633813fc60c"
ROOT, CALL, TOOL = "eee19b7ec3c1b174", "eee19b7ec3c1b175", "eee19b7ec3c1b176"
AGENTS = Path(__file__).parent.parent / "scripted_agents.py"


def otlp_span(span_id: str, parent: str, name: str, **attributes: Any) -> dict[str, Any]:
    """`attributes`: with `__` for the dots of their names."""
    return {
        "traceId": OTLP_TRACE,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": name,
        "startTimeUnixNano": "1796033757000000000",
        "endTimeUnixNano": "1796033758000000000",
        "attributes": [
            {"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in attributes.items()
        ],
        "status": {},
    }


def post_otlp(server: str, experiment_id: str) -> None:
    asked = [{"role": "system", "parts": [{"type": "text", "content": "Be kind."}]}]
    asked.append({"role": "user", "parts": [{"type": "text", "content": "Rain?"}]})
    call = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Ulm"}}
    spans = [
        otlp_span(ROOT, "", "agent", openinference__span__kind="AGENT", input__value="Rain?", output__value="Yes."),
        otlp_span(
            *(CALL, ROOT, "chat m"),
            gen_ai__operation__name="chat",
            gen_ai__input__messages=json.dumps(asked),
            gen_ai__output__messages=json.dumps([{"role": "assistant", "parts": [call]}]),
        ),
        otlp_span(
            *(TOOL, ROOT, "execute_tool"),
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name="weather",
            gen_ai__tool__call__arguments='{"city": "Ulm"}',
            gen_ai__tool__call__result="42",
        ),
    ]
    body = json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]})
    headers = {"Content-Type": "application/json", "x-mlflow-experiment-id": experiment_id}
    urllib.request.urlopen(urllib.request.Request(f"{server}/v1/traces", body.encode(), headers), timeout=30).close()


def say(client: Any, trace_id: str, rater: str, name: str, value: str, **more: Any) -> str:
    from mlflow.entities import AssessmentSource, Feedback

    feedback = Feedback(name=f"gpa_{name}", value=value, source=AssessmentSource("HUMAN", rater), **more)
    return str(client.log_assessment(trace_id, feedback).assessment_id)


@pytest.fixture(scope="module")
def server(mlflow_server: str) -> str:
    """With four traces, each labelled by three people, and the verdict of a judge."""
    from mlflow import MlflowClient
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.tracing.client import TracingClient

    experiment_id = str(MlflowClient(tracking_uri=mlflow_server).create_experiment(EXPERIMENT))
    command = [sys.executable, str(AGENTS), mlflow_server, EXPERIMENT]
    subprocess.run(command, env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}, check=True, capture_output=True)
    post_otlp(mlflow_server, experiment_id)
    client = TracingClient(mlflow_server)
    for trace in client.search_traces(locations=[experiment_id]):
        trace_id, spans = trace.info.trace_id, trace.data.spans
        at = next(span.span_id for span in spans if span.parent_id)
        about = {"dimensions": "tool_calling", "impact": "high", "evidence": "é"}
        say(client, trace_id, "ann", "error", "Tool-related", span_id=at, rationale="wrong call", metadata=about)
        say(client, trace_id, "ben", "error", "none")
        say(client, trace_id, "ben", "plan_quality", "3")
        old = say(client, trace_id, "cem", "error", "Goal Deviation", rationale="first thought")
        say(client, trace_id, "cem", "error", "Resource Abuse", rationale="[low] slow", overrides=old)
        say(client, trace_id, "cem", "plan_quality", "1", rationale="no plan")
        judge = Feedback(name="gpa_plan_quality", value="0", source=AssessmentSource("LLM_JUDGE", "m"))
        client.log_assessment(trace_id, judge)
    return mlflow_server


def dataset_of(rows: Iterator[Any], report: ReadReport) -> Dataset:
    return Dataset.from_places(rows, lambda message: report.add("twice", message), report.leave_out)


def read(server: str, **more: str) -> tuple[Dataset, ReadReport]:
    return read_live_into(dataset_of, LiveSource(server, EXPERIMENT, **more))


@pytest.fixture(scope="module")
def live(server: str) -> Dataset:
    return read(server)[0]


def named(dataset: Dataset, root: str) -> list[dict[str, list[Span]]]:
    """The spans of the traces with a root of this name, by their names."""
    found = []
    for row in dataset:
        if row.trace.roots[0].name == root:
            by_name: dict[str, list[Span]] = {}
            for span in row.trace.spans:
                by_name.setdefault(span.name, []).append(span)
            found.append(by_name)
    return found


def test_all_traces_come_back_over_more_than_a_page(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = read(server)
    monkeypatch.setattr(mlflow_traces, "_PAGE", 3)
    paged, report = read(server)
    assert len(paged) == 4
    assert paged.hash == whole.hash
    assert "twice" not in report.counts


def test_the_table_that_its_search_gives_holds_the_same(server: str, live: Dataset, tmp_path: Path) -> None:
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(server)
    try:
        (experiment,) = mlflow.search_experiments(filter_string=f"name = '{EXPERIMENT}'")
        table = mlflow.search_traces(locations=[experiment.experiment_id])
    finally:
        mlflow.set_tracking_uri(before)
    texts = table.drop(columns="trace").map(lambda cell: json.dumps(cell) if isinstance(cell, dict | list) else cell)
    table[["trace_id", "trace"]].to_parquet(tmp_path / "whole.parquet")
    table.drop(columns=["trace", "request", "response"]).to_parquet(tmp_path / "columns.parquet")
    texts.to_parquet(tmp_path / "texts.parquet")
    for name in ("whole", "columns", "texts"):
        found, report = read_files(tmp_path / f"{name}.parquet", strict=True)
        assert {row.trace_id: row.hash for row in found} == {row.trace_id: row.hash for row in live}, name
        assert not report.unjoined


def test_a_graph_of_langgraph_as_autolog_writes_it(live: Dataset) -> None:
    runs = named(live, "geo")
    assert len(runs) == 2
    for run in runs:
        (root,) = run["geo"]
        assert (root.kind, root.inputs, root.status) == (SpanKind.AGENT, "How long is the equator?", "ERROR")
        first, second = run["Scripted"]
        assert first.inputs["messages"][0] == {"role": "system", "content": "Be careful."}
        assert [tool["function"]["name"] for tool in first.inputs["tools"]] == ["search", "compute"]
        assert first.attributes["llm.token_count"] == {"prompt": 10, "completion": 5, "total": 15}
        assert second.outputs["messages"][0]["tool_calls"][0]["name"] == "compute"
        (found,), (failed,) = run["search"], run["compute"]
        assert (found.inputs, found.outputs) == ({"query": "radius"}, {"found": "radius: 6371 km"})
        assert (failed.inputs, failed.status) == ({"expression": "2*"}, "ERROR")
        assert failed.error == "ValueError: cannot read '2*'"
        assert sum(map(len, run.values())) == 9


def test_spans_that_came_over_otlp(live: Dataset) -> None:
    (run,) = named(live, "agent")
    (root,), (call,), (tool,) = run["agent"], run["chat m"], run["weather"]
    assert (root.span_id, call.span_id, tool.span_id) == (ROOT, CALL, TOOL)
    assert (root.kind, root.inputs, root.outputs) == (SpanKind.AGENT, "Rain?", "Yes.")
    assert [(one["role"], one["content"]) for one in call.inputs["messages"]] == [
        ("system", "Be kind."),
        ("user", "Rain?"),
    ]
    assert call.outputs["messages"][0]["tool_calls"][0]["arguments"] == {"city": "Ulm"}
    assert (tool.kind, tool.inputs, str(tool.outputs)) == (SpanKind.TOOL, {"city": "Ulm"}, "42")
    assert f"tr-{OTLP_TRACE}" in live


def test_opencodes_turns(live: Dataset) -> None:
    (run,) = named(live, "opencode_conversation")
    (root,), (failed,), (running,) = run["opencode_conversation"], run["edit"], run["bash"]
    assert (root.inputs, root.outputs) == ("Fix the test", "Fixed.")
    assert (failed.status, failed.outputs) == ("ERROR", {"error": "not found"})
    assert running.outputs == {"status": "running"}


def test_every_label_of_every_rater_comes_back(live: Dataset) -> None:
    for row in live:
        said = {error.rater: error for error in row.errors if error.category != "not placed"}
        assert sorted(said) == ["ann", "cem"]
        ann, cem = said["ann"], said["cem"]
        assert ann.span_id in {span.span_id for span in row.trace.spans if span.parent_id}
        assert (ann.category, ann.dimensions, ann.impact) == ("Tool-related", ("tool_calling",), Impact.HIGH)
        assert (ann.description, ann.evidence) == ("wrong call", "é")
        assert (cem.category, cem.impact, cem.description) == ("Resource Abuse", Impact.LOW, "slow")
        assert {(one.rater, one.dimension, one.score) for one in row.scores} == {
            ("ben", "plan_quality", 3),
            ("cem", "plan_quality", 1),
        }
        assert set(row.raters) == {"ann", "ben", "cem"}
        assert all(error.time for error in row.errors)
        assert all(score.time for score in row.scores)
        assert ann.time is not None
        assert cem.time is not None
        assert ann.time <= cem.time


def test_filter_and_session(server: str) -> None:
    (row,) = read(server, session="s1")[0]
    assert (row.metadata["session"], row.trace.roots[0].name) == ("s1", "geo")
    assert len(read(server, filter="trace.status = 'ERROR'")[0]) == 2
    assert len(read(server, filter="trace.status = 'ERROR'", session="s2")[0]) == 1
    with pytest.raises(TraceError, match="no finished trace that matches metadata"):
        read(server, session="it's another")
    with pytest.raises(PipelineError, match="quotes of both kinds"):
        read(server, session="'\"")


def test_the_command_reads_a_running_mlflow(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "data.jsonl"
    named = ["--experiment", EXPERIMENT, "--out", str(out)]
    assert main(["import", "mlflow", "--tracking-uri", server, *named, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["traces"] == 4
    assert Dataset.load(out).hash == read(server)[0].hash
    assert main(["import", server, *named, "--force"]) == 0
    for words, what in (
        ([server, "--out", str(out)], "--experiment NAME is missing"),
        (["mlflow", *named], "--tracking-uri URI is missing"),
        ([str(out), *named], "a running MLflow is read by itself"),
        ([server, "--experiment", "liv", "--out", str(out)], f"no experiment 'liv'.*{EXPERIMENT!r}"),
    ):
        assert main(["import", *words]) == 2
        assert re.search(what, capsys.readouterr().err)


def test_a_trace_that_has_not_ended_is_told(mlflow_server: str) -> None:
    """Also one that lost its root: MLflow waits for it for ever."""
    from mlflow import MlflowClient

    experiment_id = str(MlflowClient(tracking_uri=mlflow_server).create_experiment("unfinished"))
    spans = [otlp_span("aaa19b7ec3c1b175", "aaa19b7ec3c1b174", "late", input__value="x")]
    spans[0]["traceId"] = OTLP_TRACE.replace("5b", "6b")
    body = json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]})
    headers = {"Content-Type": "application/json", "x-mlflow-experiment-id": experiment_id}
    request = urllib.request.Request(f"{mlflow_server}/v1/traces", body.encode(), headers)
    urllib.request.urlopen(request, timeout=30).close()
    report = ReadReport()

    def taken(rows: Iterator[Any], said: ReadReport) -> Dataset:
        dataset = dataset_of(rows, said)
        report.counts.update(said.counts)
        return dataset

    with pytest.raises(TraceError, match="no finished trace"):
        read_live_into(taken, LiveSource(mlflow_server, "unfinished"))
    assert report.counts == {UNFINISHED: 1}
