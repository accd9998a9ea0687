"""One message is read in one way, whoever reads it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeled_traces.readers.spans import message_parts
from labeled_traces.readers.spans.langchain import plain_span
from labeled_traces.readers.spans.message_parts import (
    content_text,
    conversation,
    messages_of,
    split_message,
)
from labeled_traces.readers.spans.messages import chat_messages, llm_contents
from labeled_traces.trace import JSON, Span, SpanKind

CALL = {"name": "search", "args": {"q": "x"}, "id": "c1", "type": "tool_call"}
READ = {"id": "c1", "name": "search", "arguments": {"q": "x"}}
AI = {"type": "ai", "content": "on it", "additional_kwargs": {}, "id": "run-1", "tool_calls": [CALL]}
AI_READ = {"role": "assistant", "content": "on it", "tool_calls": [READ]}
BUILT = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": AI}
OPENAI = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (AI, AI_READ),
        ({"type": "ai", "data": AI}, AI_READ),
        (BUILT, AI_READ),
        (["user", "go"], {"role": "user", "content": "go"}),
        ({"role": "user", "content": "go"}, {"role": "user", "content": "go"}),
        ({"role": "assistant", "content": "on it", "tool_calls": [OPENAI]}, AI_READ),
        (
            {"type": "tool", "content": "[1, 2]", "name": "search", "tool_call_id": "c1", "status": "success"},
            {"role": "tool", "content": "[1, 2]", "tool_call_id": "c1", "name": "search"},
        ),
    ],
)
def test_messages_in_all_their_forms(given: JSON, message: JSON) -> None:
    assert chat_messages([given]) == [message]
    state = plain_span(Span("a", None, "node", SpanKind.CHAIN, inputs={"messages": [given]}))
    assert state.inputs == {"messages": [message]}


@pytest.mark.parametrize("given", [{"type": "human"}, ["a", "b"], "go", 3, None, {"content": "x"}])
def test_what_is_no_message(given: JSON) -> None:
    assert chat_messages([given]) is None


PARTS: list[tuple[list[JSON], list[JSON]]] = [
    (
        [{"type": "text", "text": "on it"}, {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "x"}}],
        [AI_READ],
    ),
    (
        [
            {"type": "text", "text": "on it"},
            {"type": "tool-call", "toolCallId": "c1", "toolName": "search", "args": {"q": "x"}},
        ],
        [AI_READ],
    ),
    (
        [{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "redacted_thinking", "data": "eA=="}],
        [{"role": "assistant", "content": "[reasoning]\nhm"}],
    ),
    (
        [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "4"}]}],
        [{"role": "tool", "content": "4", "tool_call_id": "c1"}],
    ),
    (
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"type": "text", "text": "see"}],
        [{"role": "assistant", "content": "[image_url]\nsee"}],
    ),
]


@pytest.mark.parametrize(("parts", "messages"), PARTS)
def test_parts_are_read_alike_by_every_reader(parts: list[JSON], messages: list[JSON]) -> None:
    given = {"role": "assistant", "content": parts}
    assert chat_messages([given]) == messages
    assert messages_of([given], "user") == messages
    state = plain_span(Span("a", None, "node", SpanKind.CHAIN, outputs={"messages": [given]}))
    assert state.outputs == {"messages": messages}


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_items_of_the_responses_api_keep_the_id_of_the_call(role: str) -> None:
    """An item has an id of its own; results name that of the call."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "search", "arguments": '{"q": "x"}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "4"}
    assert chat_messages([call, result], role) == [
        {"role": "assistant", "content": None, "tool_calls": [READ]},
        {"role": "tool", "content": "4", "tool_call_id": "c1"},
    ]
    assert messages_of([{"parts": [call]}], role)[0]["tool_calls"] == [READ]


def test_a_call_alone_is_of_the_assistant() -> None:
    block = {"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "x"}}
    assert chat_messages([block], "user") == [{"role": "assistant", "content": "", "tool_calls": [READ]}]


def test_all_candidates_of_langchain_are_shown() -> None:
    generations = [[{"message": AI}], [{"message": {"type": "ai", "content": "or so"}}]]
    assert chat_messages({"generations": generations}) == [AI_READ, {"role": "assistant", "content": "or so"}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("go", "go"),
        ({"type": "text", "text": "go"}, "go"),
        ({"text": "go"}, "go"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ({"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}, "[image_url https://a.example/b.png]"),
        ({"type": "image_url", "image_url": "data:image/png;base64,AAAA"}, "[image_url]"),
        ({"type": "input_audio", "input_audio": {"data": "AAAA"}}, "[input_audio]"),
        ({"text": "no part", "rows": 3}, '{"text": "no part", "rows": 3}'),
        ([1, 2], "[1, 2]"),
    ],
)
def test_the_text_of_a_content(value: JSON, text: str) -> None:
    assert content_text(value) == text


def test_a_conversation_has_tools_only_where_there_are_some() -> None:
    assert conversation([]) is None
    assert conversation([AI_READ], []) == {"messages": [AI_READ]}
    assert conversation([AI_READ], [{"name": "search"}])["tools"] == [{"name": "search"}]


_TEXTS = st.text(max_size=3)
_CALLS = st.fixed_dictionaries(
    {"id": st.none() | st.sampled_from("ab"), "name": st.none() | _TEXTS},
    optional={"arguments": st.dictionaries(_TEXTS, _TEXTS) | _TEXTS, "type": st.just("function")},
)
_MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system", "tool", "human", "User"])},
    optional={
        "content": st.none() | _TEXTS | st.just([{"type": "text", "text": "x"}]),
        "tool_calls": st.none() | st.lists(_CALLS, max_size=2),
        "tool_call_id": st.none() | _TEXTS | st.integers(),
        "name": st.none() | _TEXTS,
        "more": _TEXTS,
    },
)


@given(_MESSAGES)
def test_the_quick_look_at_a_message_sees_what_the_careful_one_does(message: JSON) -> None:
    quick = json.dumps(list(split_message(message, "user")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_parts, "_plain_message", lambda _: None)
        assert quick == json.dumps(list(split_message(message, "user")))


@pytest.mark.parametrize("asked", [[], [[]], [["user", "go"]], {"messages": []}, {"a": 1}, [7], "go", None])
def test_tools_are_kept_whatever_stands_beside_them(asked: JSON) -> None:
    tool = {"name": "search", "description": "Searches the web."}
    assert llm_contents(asked, None, [tool])[0]["tools"] == [tool]
    assert llm_contents({"messages": [["user", "go"]], "tools": tool}, None)[0]["tools"] == [tool]
