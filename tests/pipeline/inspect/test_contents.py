"""The goal, the answer and the turns that inspect shows are those of the run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.trace import JSON, Span, SpanKind, Trace
from pipeline.inspect.contents import Contents

ASKED: JSON = {"messages": [{"role": "user", "content": "go"}]}
CALLS = {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"name": "made_up", "arguments": {}}]}]}
AGENT = Span("a", None, "agent", SpanKind.AGENT, inputs="find it", outputs="found")
MODEL = Span(
    "b", "a", "model", SpanKind.LLM, inputs=ASKED, outputs={"messages": [{"role": "assistant", "content": "x"}]}
)


def contents(*spans: Span) -> Contents:
    return Contents(LabeledTrace(Trace("t1", spans)), 24_000)


def test_the_answer_is_what_a_model_said_last_without_a_call() -> None:
    """Not what a tool gave back, as in the state of a graph that died."""
    tool = {"messages": [{"role": "user", "content": "go"}, {"role": "tool", "content": "40030.13978"}]}
    node = Span("n", "a", "tools", SpanKind.CHAIN, outputs=tool)
    dead = replace(AGENT, outputs=None)
    assert contents(dead, replace(MODEL, outputs=CALLS), node).answer == ""
    assert contents(dead, MODEL, node).answer == "x"
    assert contents(replace(dead, status="ERROR"), MODEL, node).answer == "", "what it said before it failed"
    state = {"messages": [*tool["messages"], {"role": "assistant", "content": "done"}]}
    assert contents(replace(AGENT, outputs=state)).answer == "done"


def test_the_answer_is_that_of_the_agent_itself() -> None:
    """Not of one below it that came later."""
    below = [Span("s", "a", "sub", SpanKind.AGENT), Span("c", "s", "m", SpanKind.LLM, outputs="a part")]
    assert contents(replace(AGENT, outputs=None), MODEL, *below).answer == "x"


@pytest.mark.parametrize("kind", [SpanKind.TOOL, SpanKind.RETRIEVER, SpanKind.EMBEDDING])
def test_what_is_no_run_has_no_goal_and_no_answer(kind: SpanKind) -> None:
    alone = contents(replace(AGENT, kind=kind))
    assert (alone.goal, alone.answer) == ("", "")


def test_turns_of_a_history_that_does_not_begin_with_the_goal_do_not_count() -> None:
    history = {"messages": [*ASKED["messages"], {"role": "user", "content": "Now proceed and carry out this plan."}]}
    call = replace(MODEL, inputs=history)
    assert contents(AGENT, call).user_turns == 0
    assert contents(replace(AGENT, inputs="go"), call).user_turns == 2, "it begins with the goal"


def test_the_arguments_and_the_result_of_a_function_name_goal_and_answer() -> None:
    asked = {"question": "find it", "limit": 3, "system": "You find things."}
    one = contents(replace(AGENT, inputs=asked, outputs={"answer": "found", "cost": 2}))
    assert (one.goal, one.answer) == ("find it", "found")
    two = contents(replace(AGENT, inputs={"task": "a b", "query": "c d"}, outputs={"rows": [1]}))
    assert (two.goal, two.answer) == ('{"task": "a b", "query": "c d"}', '{"rows": [1]}')
