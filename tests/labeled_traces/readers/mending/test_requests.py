"""What agents were asked and answered is read in one way for every source."""

from __future__ import annotations

import pytest

from labeled_traces.readers.mending.agents import with_agents
from labeled_traces.readers.mending.recover import recovered
from labeled_traces.readers.mending.requests import model_calls, reply_text, request_text
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, Span, SpanKind, Trace


def said(*rows: tuple[str, JSON]) -> JSON:
    return {"messages": [{"role": role, "content": content} for role, content in rows]}


CALL = {"messages": [{"role": "assistant", "content": "wait", "tool_calls": [{"id": "c", "name": "f"}]}]}


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ("go", "go"),
        (said(("system", "be brief"), ("user", "hi"), ("assistant", "hello"), ("user", "now this")), "now this"),
        (said(("user", "go"), ("user", "For context: another agent said so")), "go"),
        (said(("user", "go"), ("user", None), ("user", "")), "go"),
        (said(("assistant", "hello")), None),
        ({"messages": "go"}, None),
        (None, None),
    ],
)
def test_the_goal_is_what_a_user_asked_last(inputs: JSON, text: str | None) -> None:
    assert request_text(inputs) == text


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ("done", "done"),
        (said(("assistant", "[reasoning]\nhm"), ("assistant", "done")), "done"),
        (said(("assistant", "done"), ("tool", "4")), "done"),
        (CALL, None),
        ({"messages": [*CALL["messages"], *said(("assistant", "so?"))["messages"]]}, None),
        (said(("assistant", None)), None),
        (None, None),
    ],
)
def test_the_answer_is_what_a_model_said_without_a_call(outputs: JSON, text: str | None) -> None:
    assert reply_text(outputs) == text


def test_an_agents_own_calls_go_before_those_of_agents_below_it() -> None:
    top, sub = Span("top", None, "top", SpanKind.AGENT), Span("sub", "top", "sub", SpanKind.AGENT)
    below, own = Span("below", "sub", "m", SpanKind.LLM), Span("own", "top", "m", SpanKind.LLM)
    trace = Trace("t", (top, sub, below, own))
    assert model_calls(top, trace.children) == [own]
    assert model_calls(top, Trace("t", (top, sub, below)).children) == [below]


def test_every_source_gives_an_agent_the_same_goal_and_answer() -> None:
    agent = Span("a", None, "agent", SpanKind.AGENT)
    asked = said(("user", "hi"), ("assistant", "hello"), ("user", "now this"))
    call = Span("m", "a", "model", SpanKind.LLM, inputs=asked, outputs=said(("assistant", "done")))
    placed = with_agents([agent, call], Span("root", None, "run", SpanKind.AGENT))
    mended = recovered(Trace("t", (agent, call)), "x", ReadReport()).spans
    assert [(one.inputs, one.outputs) for one in (placed[0], mended[0])] == [("now this", "done")] * 2
