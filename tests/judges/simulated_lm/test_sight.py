"""Reading a rendered trace: steps, plans and problems, from nothing but its text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judges.render import render
from judges.simulated_lm.sight import find_plans, read_trace
from labeled_traces.dataset import LabeledTrace
from labeled_traces.simulated import find_problems
from labeled_traces.trace import Span, SpanKind, Trace


def test_all_problems_of_a_trace_are_seen_in_its_text(simulated_rows: list[LabeledTrace]) -> None:
    assert any(row.errors for row in simulated_rows)
    for row in simulated_rows:
        sight = read_trace(render(row.trace, 24_000).text)
        assert list(sight.problems) == find_problems(row.trace)
        assert set(sight.places) == set(row.trace.by_id)
        assert len(sight.steps) == sum(span.kind in (SpanKind.LLM, SpanKind.TOOL) for span in row.trace.spans)


def test_a_step_looks_equally_odd_to_every_reader_and_the_mean_is_one(simulated_rows: list[LabeledTrace]) -> None:
    texts = [render(row.trace, 24_000).text for row in simulated_rows]
    assert read_trace(texts[0]) == read_trace(texts[0])
    oddness = [step.oddness for text in texts for step in read_trace(text).steps]
    assert sum(oddness) / len(oddness) == pytest.approx(1, abs=0.2)
    assert min(oddness) >= 0


def test_a_cut_trace_and_a_text_that_is_no_trace_do_no_harm(simulated_rows: list[LabeledTrace]) -> None:
    for row in simulated_rows[:10]:
        text = render(row.trace, 300).text
        assert {problem.span_id for problem in read_trace(text).problems} <= set(row.trace.by_id)
        read_trace(text[: len(text) // 2])
    assert read_trace("no spans").problems == ()
    assert read_trace("").steps == ()


def said(*texts: str) -> Trace:
    spans = [
        Span(f"s{i}", None, "model", SpanKind.LLM, outputs={"messages": [{"role": "assistant", "content": text}]})
        for i, text in enumerate(texts)
    ]
    return Trace("t", tuple(spans))


def test_a_labelled_plan_comes_before_a_list_and_later_ones_are_replans() -> None:
    trace = said("1. look\n2. write", "Plan: look, then write", "hm", "## Updated", "Re-plan:\n1. write")
    assert find_plans(trace) == ("labelled", [("s1", "Plan: look, then write"), ("s4", "Re-plan:\n1. write")])
    assert find_plans(said("look\n<end_plan>"))[0] == "labelled"


@pytest.mark.parametrize(("name", "source"), [("planner", "labelled"), ("make_plan", "labelled"), ("explain", "none")])
def test_a_span_may_call_itself_a_planner(name: str, source: str) -> None:
    trace = said("look it up")
    assert find_plans(Trace("t", (replace(trace.spans[0], name=name),)))[0] == source


def test_a_list_of_steps_is_planning_text() -> None:
    assert find_plans(said("hello", "1. look\n2. write", "- a\n- b")) == (
        "planning_text",
        [("s1", "1. look\n2. write")],
    )


def test_nothing_is_inferred_from_what_was_done() -> None:
    spans = (Span("t1", None, "search", SpanKind.TOOL, inputs={"q": "x"}, outputs="1. a\n2. b"),)
    assert find_plans(Trace("t", spans)) == ("none", [])
    assert find_plans(said("I looked.", "The answer is 4.")) == ("none", [])
