from __future__ import annotations

import base64
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

from judges.render import render
from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers import read
from labeled_traces.simulated import simulate
from labeled_traces.trace import JSON, Span, SpanKind, Trace
from labeled_traces.writers import write
from labeled_traces.writers.ids import HexIds
from labeled_traces.writers.otlp import record


def test_the_lines_are_valid_otlp(tmp_path: Path) -> None:
    """By protobuf's own reader, which has ids in base64 where OTLP/JSON has hex."""
    from google.protobuf.json_format import Parse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    rows = simulate(5, seed=2)
    write(rows, "otlp", tmp_path / "a.jsonl")
    for line, row in zip((tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines(), rows, strict=True):
        request: Any = Parse(json.dumps(_in_base64(json.loads(line))), ExportTraceServiceRequest())
        spans = request.resource_spans[0].scope_spans[0].spans
        assert [span.name for span in spans] == [span.name for span in row.trace.spans]
        assert {len(span.trace_id) for span in spans} == {16}
        assert {len(span.span_id) for span in spans} == {8}
        assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)


def _in_base64(value: JSON) -> JSON:
    if isinstance(value, list):
        return [_in_base64(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in _IDS else _in_base64(item)
        for key, item in value.items()
    }


_IDS = ("traceId", "spanId", "parentSpanId")


def test_a_server_of_mlflow_takes_them(tmp_path: Path, mlflow_server: str) -> None:
    """Posted to its OTLP endpoint, and read back through its API: what a judge reads is the same."""
    from mlflow import MlflowClient
    from mlflow.tracing.client import TracingClient

    experiment = MlflowClient(tracking_uri=mlflow_server).create_experiment("converted otlp")
    rows = simulate(2, seed=4)
    write(rows, "otlp", tmp_path / "a.jsonl")
    for line in (tmp_path / "a.jsonl").read_bytes().splitlines():
        headers = {"Content-Type": "application/json", "x-mlflow-experiment-id": experiment}
        request = urllib.request.Request(f"{mlflow_server}/v1/traces", line, headers)
        with urllib.request.urlopen(request, timeout=30) as reply:
            assert reply.status == 200
    client = TracingClient(mlflow_server)
    end = time.monotonic() + 30
    while len(found := client.search_traces(locations=[experiment])) < len(rows) and time.monotonic() < end:
        time.sleep(0.1)
    text = "".join(json.dumps(trace.to_dict()) + "\n" for trace in found)
    (tmp_path / "exported.jsonl").write_text(text, encoding="utf-8")
    back, _ = read(tmp_path / "exported.jsonl")
    for row in rows:
        assert render(back[row.trace_id].trace, 10**6) == render(row.trace, 10**6)


def test_attributes_are_openinference() -> None:
    asked = {"messages": [{"role": "user", "content": "go"}], "tools": [{"name": "t"}]}
    call = {"id": "c", "name": "t", "arguments": {"a": 1}}
    answered = {"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
    tokens = {"llm.token_count": {"prompt": 3, "completion": 1}, "llm.model_name": "m"}
    span = Span("a" * 16, None, "model", SpanKind.LLM, 1.5, 2.0, asked, answered, "ERROR", "gone", tokens)
    trace = Trace("b" * 32, (span,))
    (spans,) = record(LabeledTrace(trace), HexIds.of(trace), {}, True)["resourceSpans"][0]["scopeSpans"]
    written = spans["spans"][0]
    assert (written["traceId"], written["spanId"], written.get("parentSpanId")) == ("b" * 32, "a" * 16, None)
    assert (written["startTimeUnixNano"], written["endTimeUnixNano"]) == ("1500000000", "2000000000")
    assert written["status"] == {"code": 2, "message": "gone"}
    attributes = {pair["key"]: next(iter(pair["value"].values())) for pair in written["attributes"]}
    assert (json.loads(attributes.pop("input.value")), json.loads(attributes.pop("output.value"))) == (asked, answered)
    assert attributes == {
        "llm.token_count.prompt": "3",
        "llm.token_count.completion": "1",
        "llm.model_name": "m",
        "openinference.span.kind": "LLM",
        "input.mime_type": "application/json",
        "output.mime_type": "application/json",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "go",
        "llm.tools.0.tool.json_schema": '{"name": "t"}',
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "t",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"a": 1}',
    }
