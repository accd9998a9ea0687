from __future__ import annotations

from typing import Any

from judges.render import render
from labeled_traces.trace import Span, SpanKind, Trace

USER = {"role": "user", "content": "go"}
CALLS = {
    "role": "assistant",
    "content": "on it",
    "tool_calls": [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": {"y": 2}}],
}
NOTE = {"role": "system", "content": "the budget is used up"}


def chain(span_id: str, parent: str | None, inputs: Any, outputs: Any = None, **more: Any) -> Span:
    return Span(span_id, parent, span_id, SpanKind.CHAIN, inputs=inputs, outputs=outputs, **more)


def graph(*more: Span) -> str:
    asked = Span("m", "model", "M", SpanKind.LLM, inputs={"messages": [USER]}, outputs={"messages": [CALLS]})
    one_call = {"messages": [{"role": "assistant", "content": None, "tool_calls": CALLS["tool_calls"][:1]}]}
    result = {"messages": [{"role": "tool", "content": '{"found": 1}', "name": "a"}]}
    failed: dict[str, Any] = {"status": "ERROR", "error": "down"}
    spans = (
        chain("root", None, {"messages": [USER]}, {"messages": [USER, CALLS], "done": True}),
        chain("model", "root", {"messages": [USER]}, {"messages": [CALLS | {"name": "geo"}]}),
        asked,
        chain("tools", "root", one_call, result),
        Span("a", "tools", "a", SpanKind.TOOL, inputs={"x": 1}, outputs={"found": 1}),
        chain("tools2", "root", None, **failed),
        Span("b", "tools2", "b", SpanKind.TOOL, inputs={"y": 2}, **failed),
    )
    return render(Trace("t", (*spans, *more)), 10_000).text


def test_nodes_that_hand_on_what_others_show_are_no_steps() -> None:
    assert [line.split()[1] for line in graph().splitlines() if line.startswith("@span")] == ["root", "m", "a", "b"]


def test_the_goal_stays_at_the_root() -> None:
    assert graph().splitlines()[1] == "> [user] go"


def test_a_node_shows_what_nobody_else_does() -> None:
    text = graph(chain("route", "root", {"messages": [USER, CALLS, NOTE], "todos": ["x"]}, "end"))
    assert text.endswith(
        '@span route kind=CHAIN name="route" parent=root\n> [other] {"todos": ["x"]}\n'
        "> [system] the budget is used up\n< end\n"
    )


def test_an_error_of_its_own_makes_a_step() -> None:
    own = chain("own", "root", {"messages": [USER]}, status="ERROR", error="no state")
    inner = Span("c", "own", "c", SpanKind.TOOL, outputs=1)
    assert "! no state\n" in graph(own, inner)
