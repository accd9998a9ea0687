from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.readers.report import ReadReport
from labeled_traces.readers.spans.openinference import inputs_and_outputs, kept_attributes, nest, read_message
from labeled_traces.trace import JSON, SpanKind


def read(attributes: dict[str, JSON], kind: SpanKind) -> tuple[JSON, JSON, dict[str, int]]:
    report = ReadReport()
    inputs, outputs = inputs_and_outputs(nest(attributes), kind, "file", report)
    return inputs, outputs, report.counts


def test_flat_nested_and_mixed_attributes_are_one() -> None:
    nested = {"llm": {"input_messages": [{"message": {"role": "user", "content": "hi"}}], "model_name": "m"}}
    flat = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "hi",
        "llm.model_name": "m",
    }
    dotted = {"llm.input_messages": [{"message.role": "user", "message.content": "hi"}], "llm": {"model_name": "m"}}
    assert nest(flat) == nest(nested) == nest(dotted) == nested


def test_list_items_follow_their_numbers() -> None:
    flat = {f"a.{i}.b": i for i in (10, 2, 0, 7)}
    assert nest(flat) == {"a": [{"b": 0}, {"b": 2}, {"b": 7}, {"b": 10}]}


def test_data_is_not_taken_apart() -> None:
    data = {"0": "zero", "1": "one", "a.b": {"2": 3}}
    assert nest({"input.value": data, "input.mime_type": "x"}) == {"input": {"value": data, "mime_type": "x"}}
    assert nest({"input": {"value": data}}) == {"input": {"value": data}}


def test_awkward_keys() -> None:
    assert nest({"a": 1, "a.b": 2}) == {"a": {"": 1, "b": 2}}
    assert nest({"a.b": 2, "a": 1}) == {"a": {"b": 2, "": 1}}
    assert nest({"a.b": 2, "a": {"c": 3}}) == {"a": {"b": 2, "c": 3}}
    assert nest({"": 1, ".": 2}) == {"": {"": 2}}
    assert nest({"9" * 5000: 1}) == {"9" * 5000: 1}
    assert json.dumps(nest({".".join("x" * 5000): 1})).count("x") == 5000


def test_messages_of_a_model_call() -> None:
    inputs, outputs, counts = read(
        {
            "input.value": '{"messages": "the same again"}',
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.type": "text",
            "llm.input_messages.0.message.contents.0.message_content.text": "Look:",
            "llm.input_messages.0.message.contents.1.message_content.type": "image",
            "llm.input_messages.1.message.role": "tool",
            "llm.input_messages.1.message.content": "rainy",
            "llm.input_messages.1.message.tool_call_id": 1234,
            "llm.input_messages.1.message.name": "get_weather",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"query": "x"}',
            "llm.output_messages.0.message.tool_calls.1.tool_call.function.arguments": "{broken",
            "llm.tools.0.tool.json_schema": '{"name": "search"}',
            "llm.tools.1.tool.json_schema": '"calc"',
        },
        SpanKind.LLM,
    )
    assert inputs == {
        "messages": [
            {"role": "user", "content": "Look:\n[image]"},
            {"role": "tool", "content": "rainy", "tool_call_id": "1234", "name": "get_weather"},
        ],
        "tools": [{"name": "search"}, "calc"],
    }
    calls = [
        {"id": "c1", "name": "search", "arguments": {"query": "x"}},
        {"id": None, "name": "", "arguments": "{broken"},
    ]
    assert outputs == {"messages": [{"role": "assistant", "content": None, "tool_calls": calls}]}
    assert counts == {}


def test_a_model_call_without_messages_keeps_its_values() -> None:
    inputs, outputs, _ = read({"input.value": "ask", "output.value": '["a", 1]'}, SpanKind.LLM)
    assert (inputs, outputs) == ("ask", ["a", 1])


@pytest.mark.parametrize(
    "attributes",
    [
        {"llm": "text", "llm.input_messages": 3, "llm.tools": {"a": 1}},
        {"llm.input_messages": [None, 3, "x", []], "llm.output_messages.0": "text"},
        {"llm.input_messages.0.message": "text", "llm.input_messages.1.message.tool_calls.0": "text"},
        {"llm.output_messages.0.message.contents": ["text", 3]},
        {"input": 3, "output": [1]},
    ],
)
def test_wrong_types_are_no_crash(attributes: dict[str, JSON]) -> None:
    for kind in SpanKind:
        json.dumps(read(attributes, kind)[:2])


def test_arguments_of_a_tool() -> None:
    smolagents = '{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"query": "x"}}'
    assert read({"input.value": smolagents}, SpanKind.TOOL)[0] == {"query": "x"}
    positional = {
        "input.value": '{"args": [42, "m"], "kwargs": {"z": 1}}',
        "tool.parameters": '{"answer": {"type": "any"}, "unit": {}}',
    }
    assert read(positional, SpanKind.TOOL)[0] == {"answer": 42, "unit": "m", "z": 1}
    del positional["tool.parameters"]
    assert read(positional, SpanKind.TOOL)[0] == {"args": [42, "m"], "z": 1}
    assert read({"input.value": "plain"}, SpanKind.TOOL)[0] == "plain"


def test_a_python_repr_is_read_and_reported() -> None:
    inputs, _, counts = read({"input.value": "{'query': 'it\\'s', 'n': (1, None, True)}"}, SpanKind.TOOL)
    assert inputs == {"query": "it's", "n": [1, None, True]}
    assert counts == {"Python repr": 1}


@pytest.mark.parametrize("text", ["{'a': b'bytes'}", "{1, 2}", "{x}", "[" * 5000, "{'a': '\\d'", "{__import__('os')}"])
def test_what_is_no_plain_repr_stays_text(text: str) -> None:
    inputs, _, counts = read({"input.value": text}, SpanKind.TOOL)
    assert inputs == text
    assert counts == {}


def test_json_inside_a_json_text() -> None:
    twice = json.dumps(json.dumps({"a": [1]}))
    attributes = {"input.value": twice, "input.mime_type": "application/json"}
    inputs, _, counts = read(attributes, SpanKind.CHAIN)
    assert inputs == {"a": [1]}
    assert counts == {"JSON inside a JSON text": 1}
    assert read({"input.value": json.dumps("just text"), "input.mime_type": "application/json"}, SpanKind.CHAIN)[0] == (
        '"just text"'
    )


def test_documents_of_a_retriever() -> None:
    flat = {
        "retrieval.documents.0.document.content": "one",
        "retrieval.documents.0.document.score": 0.5,
        "retrieval.documents.1.document.content": "two",
    }
    assert read(flat, SpanKind.RETRIEVER)[1] == [{"content": "one", "score": 0.5}, {"content": "two"}]
    assert read({}, SpanKind.RETRIEVER)[1] is None


def test_only_describing_attributes_are_kept() -> None:
    attributes = nest(
        {
            "llm.provider": "m",
            "input.value": "big",
            "metadata": '{"true_answer": 1}',
            "pat.app": "x",
            "tool.parameters": "{}",
        }
    )
    assert kept_attributes(attributes) == {"llm.provider": "m", "tool.parameters": "{}"}


def test_the_conventions_own_example(shared_data: Path) -> None:
    path = shared_data / "formats" / "openinference" / "openinference_client_span_tool_calls.json"
    inputs, outputs, counts = read(json.loads(path.read_text()), SpanKind.LLM)
    assert [message["role"] for message in inputs["messages"]] == ["user", "assistant", "tool"]
    assert inputs["messages"][0]["content"] == "Weather in Paris?"
    assert inputs["messages"][1]["tool_calls"][0]["arguments"] == {"location": "Paris"}
    assert outputs["messages"][0]["content"] == "The weather in Paris is currently rainy with a temperature of 57°F."
    assert counts == {}


def test_an_empty_text_and_a_call_without_arguments_are_what_they_are() -> None:
    call = {"id": "1", "function": {"name": "now", "arguments": {}}}
    parts = [{"type": "text", "text": ""}, {"type": "text", "text": "so"}, {"type": "image"}]
    message = read_message({"role": "assistant", "contents": parts, "tool_calls": [call]})
    assert message["content"] == "so\n[image]"
    assert message["tool_calls"] == [{"id": "1", "name": "now", "arguments": {}}]
