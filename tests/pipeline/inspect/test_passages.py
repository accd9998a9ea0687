"""Plans that say so themselves are found, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from labeled_traces.trace import Span, SpanKind, Trace
from pipeline.inspect.passages import passages

AGENT = Span("a", None, "agent", SpanKind.AGENT, inputs="find it")
MODEL = Span("b", "a", "model", SpanKind.LLM)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Here is my plan:\n1. look\n2. tell\n\nNow I look.", ["Here is my plan:\n1. look\n2. tell"]),
        ("## To-do list\n- [ ] look\n  more\n- [x] tell", ["## To-do list\n- [ ] look\n  more\n- [x] tell"]),
        ("1. look() -> a\n2. tell(a)\n<end_plan>", ["1. look() -> a\n2. tell(a)"]),
        ("I plan to look.\nThen I tell.", []),
        ("1. look\n2. tell", []),
        ("Plan: 1) look 2) tell", ["Plan: 1) look 2) tell"]),
        ("**My plan:** look\n- then tell\nSo:", ["**My plan:** look\n- then tell"]),
        ("Your plan - the Gold one - ends today.", []),
        ("The plan is expensive: 12 a month", []),
        ("Plan – look, then tell", ["Plan – look, then tell"]),
        ("My plan is to look, then tell.\nLooking.", ["My plan is to look, then tell."]),
        ("Here’s the plan:\n\n1. look\n2. tell", ["Here’s the plan:\n\n1. look\n2. tell"]),
        ("## Plan\nI look.\n\nThen I tell.\n## Result\nfound", ["## Plan\nI look.\n\nThen I tell."]),
        ("## Plan\n\n## Result\nfound", []),
        ("Steps:\n1. look\n2. tell\nSo:", ["Steps:\n1. look\n2. tell"]),
        ("Steps: 1) look 2) tell", ["Steps: 1) look 2) tell"]),
        ("To reset it, follow these steps:\n1. press\n2. wait", []),
        ("<plan>look, then tell</plan> So:", ["look, then tell"]),
        ("<plan>look</plan> No. <PLAN>tell</PLAN>", ["look", "tell"]),
        ("Left:\n- [x] look\n- [ ] tell\nSo:", ["- [x] look\n- [ ] tell"]),
        ("- [ ] look", []),
        ("Plans: Basic, Gold and Platinum", []),
        ("We compared the Gold plan with the Basic plan.", []),
        ("plan " * 4000, []),
    ],
)
def test_passages_that_call_themselves_a_plan(text: str, found: list[str]) -> None:
    said = {"messages": [{"role": "assistant", "content": text}]}
    trace = Trace("t", (replace(AGENT, outputs=None), replace(MODEL, outputs=said)))
    assert passages(trace) == [("b", one) for one in found]


def test_a_passage_stands_at_the_model_that_said_it() -> None:
    said = {"messages": [{"role": "assistant", "content": "Plan: 1) look 2) tell"}]}
    step = Span("n", "a", "model", SpanKind.CHAIN, outputs=said)
    trace = Trace("t", (AGENT, step, replace(MODEL, parent_id="n", outputs=said)))
    assert passages(trace) == [("b", "Plan: 1) look 2) tell")]


LONG_TEXTS = ("word " * 60_000, "- [ ] a\n\n" * 20_000, f"<plan>{'word ' * 60_000}", f"{'word ' * 60_000}<plan></plan>")


def test_a_long_text_without_a_plan() -> None:
    said = {"messages": [{"role": "assistant", "content": text} for text in LONG_TEXTS]}
    assert passages(Trace("t", (replace(MODEL, parent_id=None, outputs=said),))) == []


def test_a_tool_for_todo_lists_is_a_passage() -> None:
    trace = Trace("t", (AGENT, Span("c", "a", "TodoWrite", SpanKind.TOOL, inputs={"todos": ["look"]})))
    assert passages(trace) == [("c", '{"todos": ["look"]}')]
