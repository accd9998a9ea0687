from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.readers import read
from labeled_traces.readers.labels.trail import WITHOUT
from labeled_traces.trace import JSON, Span, SpanKind, TraceError


def flat_span(span_id: str, parent_id: str | None, **fields: JSON) -> dict[str, JSON]:
    return {
        "name": "step",
        "context": {"trace_id": "0x" + "c" * 32, "span_id": span_id, "trace_state": "[]"},
        "kind": "SpanKind.INTERNAL",
        "parent_id": parent_id,
        "start_time": "2026-11-30T10:16:02.628556Z",
        "end_time": "2026-11-30T10:16:02.634593Z",
        "status": {"status_code": "OK"},
        "attributes": {"openinference.span.kind": "CHAIN", "input.value": f"in {span_id}"},
        "events": [],
        **fields,
    }


def lines(*records: JSON) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_flat_spans_of_several_traces_in_several_files(tmp_path: Path) -> None:
    other = {**flat_span("0x2", None), "context": {"trace_id": "0xd", "span_id": "0x2"}}
    (tmp_path / "a.jsonl").write_text(lines(flat_span("0x3", "0x1"), other, flat_span("0x1", None)))
    (tmp_path / "b.json").write_text(json.dumps([flat_span("0x4", "0x3"), flat_span("0x3", "0x1")]))
    data, report = read(tmp_path)
    assert data.ids == ("c" * 32, "0xd")
    first, second = data
    assert [(one.span_id, one.parent_id) for one in first.trace.spans] == [
        ("0x1", None),
        ("0x3", "0x1"),
        ("0x4", "0x3"),
    ]
    assert [one.span_id for one in second.trace.spans] == ["0x2"]
    assert report.counts == {"span twice, kept once": 1}


def phoenix(nested: bool) -> dict[str, JSON]:
    flat = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "hi"}
    tree = {"llm": {"input_messages": [{"message": {"role": "user", "content": "hi"}}]}}
    return {
        "id": "U3Bhbjox",
        "name": "ChatCompletion",
        "context": {"trace_id": "c" * 32, "span_id": "1" * 16},
        "span_kind": "LLM",
        "parent_id": None,
        "start_time": "2026-01-01T00:00:00+00:00",
        "end_time": "2026-01-01T00:00:01+00:00",
        "status_code": "ERROR",
        "status_message": "rate limited",
        "attributes": tree if nested else flat,
        "events": [],
    }


def dataframe_row() -> dict[str, JSON]:
    return {
        "name": "ChatCompletion",
        "context.trace_id": "c" * 32,
        "context.span_id": "1" * 16,
        "span_kind": "LLM",
        "parent_id": None,
        "start_time": 1767225600000,
        "end_time": 1767225601000,
        "status_code": "ERROR",
        "status_message": "rate limited",
        "attributes.llm.input_messages": [{"message.role": "user", "message.content": "hi"}],
    }


@pytest.mark.parametrize(
    "document", [[phoenix(False)], {"data": [phoenix(True)], "next_cursor": None}, [dataframe_row()]]
)
def test_phoenix_exports_are_one_span(tmp_path: Path, document: JSON) -> None:
    (tmp_path / "spans.json").write_text(json.dumps(document))
    ((row,), _) = read(tmp_path / "spans.json")
    assert row.trace.spans == (
        Span(
            "1" * 16,
            None,
            "ChatCompletion",
            SpanKind.LLM,
            start=1767225600.0,
            end=1767225601.0,
            inputs={"messages": [{"role": "user", "content": "hi"}]},
            status="ERROR",
            error="rate limited",
        ),
    )


def test_spans_without_ids_states_and_times_are_read(tmp_path: Path) -> None:
    (tmp_path / "lost.jsonl").write_text(lines({"attributes": {"input.value": "x"}}, {"attributes": None, "name": 3}))
    (row,), report = read(tmp_path / "lost.jsonl")
    assert row.trace_id == "lost"
    assert [(one.span_id, one.name, one.inputs, one.start) for one in row.trace.spans] == [
        ("span-0", "", "x", None),
        ("span-1", "3", None, None),
    ]
    assert report.counts["no trace_id, file name taken"] == 2
    assert report.counts["span without an id"] == 2


def test_values_of_the_wrong_type_are_counted(tmp_path: Path) -> None:
    spans = [
        flat_span("0x1", None, attributes=[1, 2]),
        flat_span("0x2", "0x1", start_time="noon", status=3, events={"a": 1}),
        flat_span("0x3", "0x1", name=None, context={"trace_id": "0x" + "c" * 32, "span_id": 77}),
        flat_span("0x4", "0x3", attributes={"input.value": 7, "openinference.span.kind": ["LLM"]}),
    ]
    (tmp_path / "a.jsonl").write_text(lines(*spans))
    (row,), report = read(tmp_path / "a.jsonl")
    assert len(row.trace.spans) == 4
    assert report.counts["attributes that are no mapping"] == 1
    assert report.counts["time that is not understood"] == 1
    assert report.counts["span with an unknown parent, now a root"] == 1


@pytest.mark.parametrize(
    ("name", "spans", "kinds"),
    [
        ("openinference_langgraph_readablespan.jsonl", 11, ["AGENT"] + ["CHAIN"] * 5 + ["LLM"] * 2 + ["TOOL"] * 3),
        ("smolagents_openinference_readablespan.jsonl", 7, ["AGENT"] + ["CHAIN"] * 3 + ["TOOL"] * 3),
    ],
)
def test_recorded_runs(shared_data: Path, name: str, spans: int, kinds: list[str]) -> None:
    (row,), report = read(shared_data / "formats" / "captured" / name)
    assert len(row.trace.spans) == spans
    assert sorted(str(one.kind) for one in row.trace.spans) == kinds
    assert len(row.trace.roots) == 1
    assert WITHOUT not in report.counts


def test_recorded_values(shared_data: Path) -> None:
    folder = shared_data / "formats" / "captured"
    (row,), _ = read(folder / "openinference_langgraph_readablespan.jsonl")
    models = [one for one in row.trace.spans if one.kind is SpanKind.LLM]
    assert [message["role"] for message in models[1].inputs["messages"]] == ["system", "user", "assistant", "tool"]
    assert [call["name"] for call in models[1].outputs["messages"][0]["tool_calls"]] == ["search", "calc"]
    assert models[0].inputs["tools"] == [
        {"name": "search", "description": "Search the web."},
        {"name": "calc", "description": "Evaluate."},
    ]
    failed = [one for one in row.trace.spans if one.status == "ERROR"]
    assert {one.error for one in failed} == {"ValueError: HTTP 429 rate limited ☃"}
    (row,), _ = read(folder / "smolagents_openinference_readablespan.jsonl")
    tools = [one for one in row.trace.spans if one.kind is SpanKind.TOOL]
    assert [(one.name, one.inputs) for one in tools] == [
        ("web_search", {"query": "bad query"}),
        ("web_search", {"query": "earth radius"}),
        ("final_answer", {"answer": 40074.750358}),
    ]


@pytest.mark.parametrize("bad", [3, {"hello": 1}])
def test_what_is_no_span_names_file_and_record(tmp_path: Path, bad: JSON) -> None:
    (tmp_path / "a.json").write_text(json.dumps([flat_span("0x1", None), bad]))
    with pytest.raises(TraceError, match=r"a\.json.*record 2: not an OpenInference span: accepted are"):
        read(tmp_path / "a.json", strict=True)
