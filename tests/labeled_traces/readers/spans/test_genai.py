from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.readers import read
from labeled_traces.readers.mending.hidden_errors import KIND as HIDDEN_ERROR
from labeled_traces.readers.mending.recover import ANSWER, GOAL
from labeled_traces.readers.spans.genai import genai_contents, genai_kind
from labeled_traces.readers.spans.openinference import nest
from labeled_traces.trace import JSON, SpanKind


def contents(attributes: JSON) -> tuple[SpanKind, JSON, JSON]:
    nested = nest(attributes)
    kind = genai_kind(nested)
    return kind, *genai_contents(nested, kind)


def test_messages_of_the_genai_conventions() -> None:
    asked = [
        {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "w", "arguments": {"city": "Paris"}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": {"sky": "grey"}}]},
    ]
    kind, inputs, outputs = contents(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
            "gen_ai.input.messages": json.dumps(asked),
            "gen_ai.output.messages": json.dumps(
                [{"role": "assistant", "parts": [{"type": "text", "content": "Rain."}]}]
            ),
            "gen_ai.tool.definitions": json.dumps([{"name": "w"}]),
        }
    )
    assert kind is SpanKind.LLM
    assert [message["role"] for message in inputs["messages"]] == ["system", "user", "assistant", "tool"]
    assert [message["content"] for message in inputs["messages"]] == ["Be brief.", "Weather?", None, '{"sky": "grey"}']
    assert inputs["messages"][2]["tool_calls"] == [{"id": "1", "name": "w", "arguments": {"city": "Paris"}}]
    assert inputs["tools"] == [{"name": "w"}]
    assert outputs == {"messages": [{"role": "assistant", "content": "Rain."}]}


def test_older_and_tool_attributes() -> None:
    older = {"gen_ai.operation.name": "chat", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi"}
    kind, inputs, outputs = contents({**older, "gen_ai.completion": '{"text": "ho", "finish_reason": "stop"}'})
    assert (kind, inputs) == (SpanKind.LLM, {"messages": [{"role": "user", "content": "hi"}]})
    assert outputs == {"messages": [{"role": "assistant", "content": "ho"}]}
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.call.arguments": '{"a": 1}',
        "gen_ai.tool.call.result": "x",
    }
    assert contents(tool) == (SpanKind.TOOL, {"a": 1}, "x")
    assert contents({"gen_ai.operation.name": "execute_tool", "input": '{"a": 1}', "output": "x"})[1:] == (
        {"a": 1},
        "x",
    )
    assert contents({}) == (SpanKind.UNKNOWN, None, None)
    assert (
        contents({"gen_ai.operation.name": "chat", "gen_ai.input.messages": "plain"})[1]["messages"][0]["content"]
        == "plain"
    )


@pytest.mark.parametrize("result", [0, False, ""])
def test_a_result_that_is_nothing_is_a_result(result: JSON) -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.result": result, "output": "old"}
    assert contents({**tool, "gen_ai.tool.call.arguments": 0, "input": "old"}) == (SpanKind.TOOL, 0, result)


def test_parts_that_are_no_answer_are_not_in_it() -> None:
    asked = [{"role": "user", "parts": [{"text": "see"}, {"type": "tool_call_response", "id": "1", "response": 0}]}]
    answered = [
        {"role": "model", "parts": [{"type": "reasoning", "content": "hm"}, {"text": "so", "thought": True}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "text", "content": ""},
                {"type": "text", "content": "Rain."},
            ],
        },
        {"role": "assistant", "parts": [{"type": "text", "text": ""}]},
    ]
    _, inputs, outputs = contents(
        {"gen_ai.operation.name": "chat", "gen_ai.input.messages": asked, "gen_ai.output.messages": answered}
    )
    assert inputs["messages"] == [
        {"role": "tool", "content": "0", "tool_call_id": "1"},
        {"role": "user", "content": "see"},
    ]
    assert outputs["messages"] == [
        {"role": "assistant", "content": "[reasoning]\nhm\nso"},
        {"role": "assistant", "content": "[reasoning]\nhm"},
        {"role": "assistant", "content": "Rain."},
        {"role": "assistant", "content": None},
    ]


def test_google_adk(shared_data: Path) -> None:
    for name in ("readablespan.jsonl", "otlp_json.json", "otlp_protojson.json"):
        (row,), report = read(shared_data / "formats" / "captured" / f"google_adk_{name}")
        assert report.counts == {HIDDEN_ERROR: 1, GOAL: 1, ANSWER: 1}
        models = [span for span in row.trace.spans if span.kind is SpanKind.LLM]
        tools = [span for span in row.trace.spans if span.kind is SpanKind.TOOL]
        assert [span.name for span in tools] == ["get_weather", "get_weather"]
        assert [span.inputs for span in tools] == [{"city": "M\u00fcnchen \U0001f327\ufe0f"}, {"city": "boom"}]
        assert tools[1].outputs == {"status": "error", "error_message": "Unknown city"}
        first = models[0].inputs
        assert [message["role"] for message in first["messages"]] == ["system", "user"]
        assert first["messages"][1]["content"] == "Weather in M\u00fcnchen? \U0001f327\ufe0f"
        assert first["tools"][0]["name"] == "get_weather"
        assert models[0].outputs["messages"][0]["tool_calls"][0]["name"] == "get_weather"
        assert models[-1].outputs["messages"][0]["content"] == "It is rainy in M\u00fcnchen."
        assert row.group.startswith("goal ")
