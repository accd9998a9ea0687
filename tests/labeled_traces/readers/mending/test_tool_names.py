from __future__ import annotations

from labeled_traces.readers.mending.tool_names import with_tool_names
from labeled_traces.trace import JSON, Span, SpanKind


def call(*messages: JSON, kind: SpanKind = SpanKind.LLM) -> Span:
    return Span("a", None, "model", kind=kind, inputs={"messages": list(messages), "tools": []})


ASKED: JSON = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "name": "search", "arguments": {}}, {"id": "c2", "name": "", "arguments": {}}, "odd"],
}
RESULT: JSON = {"role": "tool", "content": "4", "tool_call_id": "c1"}


def test_a_result_has_the_name_of_the_tool_that_was_called() -> None:
    named = with_tool_names(call(ASKED, RESULT))
    assert named.inputs == {"messages": [ASKED, {**RESULT, "name": "search"}], "tools": []}


def test_what_has_a_name_or_answers_no_known_call_stays_the_same() -> None:
    for result in (
        {**RESULT, "name": "find"},
        {**RESULT, "tool_call_id": "c2"},
        {**RESULT, "tool_call_id": "c3"},
        {**RESULT, "tool_call_id": ["c1"]},
        {**RESULT, "role": "user"},
    ):
        span = call(ASKED, result)
        assert with_tool_names(span) is span
    for span in (call(ASKED, RESULT, kind=SpanKind.AGENT), call(3, "x"), Span("a", None, "m", kind=SpanKind.LLM)):
        assert with_tool_names(span) is span
