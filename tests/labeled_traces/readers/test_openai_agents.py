from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.render import render
from labeled_traces.dataset import Dataset
from labeled_traces.readers import read, sniff
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, SpanKind, TraceError


def item(span_id: str, parent: str | None, second: int, data: JSON, trace: str = "trace_1", **more: JSON) -> JSON:
    return {
        "object": "trace.span",
        "id": span_id,
        "trace_id": trace,
        "parent_id": parent,
        "started_at": f"2026-01-01T10:00:{second:02}.000000+00:00",
        "ended_at": f"2026-01-01T10:00:{second + 1:02}.000000+00:00",
        "span_data": data,
        "error": None,
        **more,
    }


def trace(trace_id: str = "trace_1", **more: JSON) -> JSON:
    named = {"object": "trace", "id": trace_id, "workflow_name": "Shop", "group_id": "chat_7"}
    return {**named, "metadata": {"ground_truth": "secret"}, **more}


SYSTEM = {"role": "system", "content": "You sort requests."}
USER = {"role": "user", "content": "Where is my order?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "order_status", "arguments": '{"id": 4}'}}


def call(inputs: JSON, output: JSON, asked: int, answered: int) -> dict[str, JSON]:
    usage = {"input_tokens": asked, "output_tokens": answered}
    return {
        "type": "generation",
        "input": inputs,
        "output": [output],
        "model": "m-1",
        "model_config": {},
        "usage": usage,
    }


def handed_over() -> list[JSON]:
    """Two agents, two calls of a model, a tool that fails, a handoff, a guardrail, a list of MCP's tools."""
    triage = {"type": "agent", "name": "Triage", "handoffs": ["Orders"], "tools": [], "output_type": "str"}
    orders = {"type": "agent", "name": "Orders", "handoffs": [], "tools": ["order_status"], "output_type": "str"}
    to_orders = {"role": "assistant", "content": "It is about an order."}
    answer = {"role": "assistant", "content": "It is lost.", "tool_calls": None}
    looks = {"role": "assistant", "tool_calls": [CALL]}
    asked = [{"role": "system", "content": "You look orders up."}, USER]
    done = [*asked, looks, {"role": "tool", "tool_call_id": "c1", "content": "-"}]
    lookup = {"type": "function", "name": "order_status", "input": '{"id": 4}', "output": None, "mcp_data": None}
    return [
        item("span_a", None, 0, triage),
        item("span_g", "span_a", 1, {"type": "guardrail", "name": "polite", "triggered": False}),
        item("span_1", "span_a", 2, call([SYSTEM, USER], to_orders, 9, 5)),
        item("span_h", "span_a", 3, {"type": "handoff", "from_agent": "Triage", "to_agent": "Orders"}),
        item("span_b", None, 4, orders),
        item("span_m", "span_b", 5, {"type": "mcp_tools", "server": "shop", "result": ["order_status"]}),
        item(
            "span_2",
            "span_b",
            6,
            call(asked, looks, 11, 6),
        ),
        item("span_t", "span_b", 7, lookup, error={"message": "Error running tool", "data": {"error": "no order 4"}}),
        item("span_3", "span_b", 8, call(done, answer, 20, 4)),
    ]


def imported(tmp_path: Path, records: list[JSON]) -> tuple[Dataset, ReadReport]:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    assert sniff(path) == "openai_agents"
    return read(path)


def test_a_run_that_was_handed_over(tmp_path: Path) -> None:
    rows, report = imported(tmp_path, [trace(), *handed_over()])
    row = rows["trace_1"]
    root, triage = row.trace.spans[:2]
    orders = row.trace.by_id["span_b"]
    assert report.counts == {}
    assert (root.span_id, root.kind, root.name, root.inputs) == ("trace_1", "AGENT", "Shop", "Where is my order?")
    assert root.outputs == orders.outputs == "It is lost."
    assert triage.inputs == {"messages": [USER], "handoffs": ["Orders"]}
    assert orders.inputs == {"messages": [USER], "tools": ["order_status"]}
    assert [span.span_id for span in row.trace.children("trace_1")] == ["span_a", "span_b"]
    tool = row.trace.by_id["span_t"]
    assert (tool.kind, tool.name, tool.inputs, tool.status) == ("TOOL", "order_status", {"id": 4}, "ERROR")
    assert tool.error == "Error running tool: {'error': 'no order 4'}"
    assert row.trace.by_id["span_1"].attributes["llm.token_count"] == {"prompt": 9, "completion": 5}
    kinds = [span.kind for span in row.trace.spans]
    assert [kinds.count(kind) for kind in map(SpanKind, ("AGENT", "LLM", "TOOL", "GUARDRAIL"))] == [3, 3, 1, 1]
    assert (row.metadata["session"], row.clean) == ("chat_7", "unknown")
    assert "secret" not in render(row.trace, 10_000).text


def test_what_a_judge_sees(tmp_path: Path) -> None:
    rows, _ = imported(tmp_path, [trace(), *handed_over()])
    text = render(rows["trace_1"].trace, 10_000).text
    for wanted in (
        *("You sort requests.", "You look orders up.", '[tools] ["order_status"]', '"handoffs": ["Orders"]'),
        *('order_status({"id": 4})', '{"to_agent": "Orders"}', '{"triggered": false}', '{"server": "shop"}'),
    ):
        assert wanted in text


def test_spans_of_several_traces_stand_among_each_other_children_first(tmp_path: Path) -> None:
    """The exporter writes a span when it has ended, so after its children, whichever trace it is of."""
    first = handed_over()[::-1]
    second = [{**span, "trace_id": "trace_2"} for span in first]
    mixed = [span for pair in zip(first, second, strict=True) for span in pair]
    rows, report = imported(tmp_path, [trace(), *mixed, trace("trace_2", group_id=None)])
    alone, _ = imported(tmp_path, [trace(), *handed_over()])
    assert report.counts == {}
    assert rows["trace_1"].trace == alone["trace_1"].trace
    assert rows["trace_2"].trace.content_hash == alone["trace_1"].trace.content_hash
    assert "session" not in rows["trace_2"].metadata


def test_the_responses_api(tmp_path: Path) -> None:
    """The SDK's exporter writes the id alone; processors of others keep what was said."""
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "look it up"}]},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"q": "x"}'},
        {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"query": "y"}},
    ]
    tools = [{"type": "function", "name": "find", "parameters": {"type": "object"}}]
    response = {"id": "r", "instructions": "Be brief.", "tools": tools, "output": output, "usage": {"total_tokens": 7}}
    asked = [{"role": "user", "content": [{"type": "input_text", "text": "Find x."}]}]
    spans = [
        item("span_a", None, 0, {"type": "agent", "name": "A"}),
        item("span_1", "span_a", 1, {"type": "response", "response_id": "r", "input": asked, "response": response}),
        item("span_2", "span_a", 2, {"type": "response", "response_id": "r2", "usage": {"input_tokens": 3}}),
    ]
    rows, _ = imported(tmp_path, spans)
    agent, call, silent = rows["trace_1"].trace.spans
    assert agent.inputs == "Find x."
    assert call.inputs == {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Find x."}],
        "tools": tools,
    }
    thought, find, search = call.outputs["messages"]
    assert thought["content"] == "[reasoning]\nlook it up"
    assert find["tool_calls"] == [{"id": "c1", "name": "find", "arguments": {"q": "x"}}]
    assert search["tool_calls"] == [{"id": "w1", "name": "web_search", "arguments": {"action": {"query": "y"}}}]
    assert (silent.inputs, silent.outputs, silent.attributes["llm.token_count"]) == (None, None, {"prompt": 3})
    assert agent.outputs is None


def test_spans_of_runs_turns_and_others(tmp_path: Path) -> None:
    spans = [
        item(
            "s1", None, 0, {"type": "custom", "name": "task", "data": {"sdk_span_type": "task", "usage": {"total": 9}}}
        ),
        item("s2", "s1", 1, {"type": "agent", "name": "A"}),
        item("s3", "s2", 2, {"type": "custom", "name": "plan", "data": {"todo": ["a", "b"]}}),
        item("s4", "s2", 3, {"type": "speech", "input": "hi", "output": {"data": "QUJD", "format": "pcm"}}),
        item("s5", "s2", 4, {"type": "new_kind", "depth": 3}),
    ]
    rows, _ = imported(tmp_path, spans)
    task, _, plan, speech, new = rows["trace_1"].trace.spans
    assert (task.inputs, plan.inputs, new.inputs) == (None, {"todo": ["a", "b"]}, {"depth": 3})
    assert speech.outputs == {"data": "[audio, 4 characters of base64]", "format": "pcm"}


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([trace()], "none of its spans is there"),
        ([item("a", None, 0, {"type": "agent"}, trace="")], "trace_id: is missing"),
    ],
)
def test_what_cannot_be_read_says_what_would_be(tmp_path: Path, records: list[JSON], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        imported(tmp_path, records)


def test_a_trace_that_lost_its_root(tmp_path: Path) -> None:
    rows, report = imported(tmp_path, handed_over()[5:])
    assert report.counts["span with an unknown parent, now a root"] == 4
    assert len(rows["trace_1"].trace.roots) == 4


@pytest.mark.parametrize("kind", ["agent", "function", "handoff", "guardrail", "mcp_tools", "custom", "speech"])
def test_what_a_span_of_its_type_does_not_have_is_counted(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    data = {"type": kind, "name": "x", "instructions": "Search the web."}
    other = {"type": "function", "name": "search", "input": "{}", "output": "found"}
    items = (trace(), item("s1", None, 1, data), item("s2", None, 2, other))
    path.write_text("".join(f"{json.dumps(one)}\n" for one in items))
    _, report = read(path, "openai_agents")
    assert report.counts["content that a span of its type does not have, left out"] == 1
