from __future__ import annotations

import pytest

from labeled_traces.readers.spans.langchain import plain_span
from labeled_traces.trace import JSON, Span, SpanKind

CALL = {"name": "search", "args": {"q": "x"}, "id": "c1", "type": "tool_call"}
READ = {"id": "c1", "name": "search", "arguments": {"q": "x"}}
AI = {"type": "ai", "content": "on it", "additional_kwargs": {}, "id": "run-1", "tool_calls": [CALL]}
AI_READ = {"role": "assistant", "content": "on it", "tool_calls": [READ]}
HUMAN = {"type": "human", "content": "go"}
TOOL = {"type": "tool", "content": "[1, 2]", "name": "search", "tool_call_id": "c1", "status": "success"}


def span(inputs: JSON, outputs: JSON = None, kind: SpanKind = SpanKind.CHAIN) -> Span:
    return plain_span(Span("a", None, "node", kind, inputs=inputs, outputs=outputs))


def test_states_and_what_nodes_change_are_messages() -> None:
    todos = [{"content": "search", "status": "pending"}]
    assert span({"messages": [HUMAN], "todos": todos}).inputs == {
        "messages": [{"role": "user", "content": "go"}],
        "todos": todos,
    }
    command: JSON = {"graph": None, "update": {"messages": [AI]}, "resume": None, "goto": []}
    assert span(None, [command]).outputs == {"messages": [AI_READ]}
    assert span(None, {**command, "goto": ["end"]}).outputs == {"messages": [AI_READ], "goto": ["end"]}
    assert span(None, {**command, "update": {"done": True}, "goto": ["end"]}).outputs == {"done": True, "goto": ["end"]}
    assert span(None, {**command, "update": None}).outputs is None
    assert span(CALL).inputs == span([CALL]).inputs, "what a node of tools is given"
    assert span([CALL]).inputs == {"messages": [{"role": "assistant", "content": None, "tool_calls": [READ]}]}


@pytest.mark.parametrize(
    "value", [None, "go", {}, [], {"messages": "go"}, {"messages": [3]}, {"goto": "x"}, [[1]], {"update": {"a": 1}}]
)
def test_what_is_no_state_stays_as_it_is(value: JSON) -> None:
    given = Span("a", None, "node", SpanKind.CHAIN, inputs=value, outputs=value)
    assert plain_span(given) is given


def test_an_agent_has_a_goal_and_an_answer() -> None:
    answer = {"type": "ai", "content": "done", "tool_calls": []}
    agent = span({"messages": [HUMAN]}, {"messages": [HUMAN, AI, TOOL, answer]}, SpanKind.AGENT)
    assert (agent.inputs, agent.outputs) == ("go", "done")
    stopped = span({"messages": [HUMAN, AI]}, {"messages": [HUMAN, AI]}, SpanKind.AGENT)
    assert [len(value["messages"]) for value in (stopped.inputs, stopped.outputs)] == [2, 2], "it never answered"


def test_a_tools_result_is_what_it_gave_back() -> None:
    assert span({"q": "x"}, TOOL, SpanKind.TOOL).outputs == [1, 2]
    failed = span({"q": "x"}, {**TOOL, "status": "error", "content": "no such page"}, SpanKind.TOOL)
    assert (failed.status, failed.outputs) == ("ERROR", "no such page")
    assert span({"q": "x"}, AI, SpanKind.TOOL).outputs == AI, "what an agent said that was called as a tool"


def test_what_stands_in_the_parts_of_a_message_is_shown_as_in_a_models_own_span() -> None:
    said = {"type": "ai", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "done"}]}
    found = span({"messages": [said]}).inputs["messages"]
    assert [message["content"] for message in found] == ["[reasoning]\nhm", "done"]
    given = span({"q": "x"}, {**TOOL, "content": [{"type": "text", "text": "4"}]}, SpanKind.TOOL)
    assert given.outputs == "4"


def test_a_mapping_of_nobody_who_is_known_is_no_message() -> None:
    given = Span("a", None, "node", SpanKind.CHAIN, inputs={"messages": [{"role": "critic", "content": "no"}]})
    assert plain_span(given) is given


def test_a_models_own_span_is_left_alone() -> None:
    given = Span("a", None, "M", SpanKind.LLM, inputs={"messages": [HUMAN]})
    assert plain_span(given) is given
