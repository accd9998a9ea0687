from __future__ import annotations

import string
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.notation import clean, text_of
from judges.render import NAME_LENGTH, render
from judges.rendered import parse_rendered
from labeled_traces.simulated import FaultRates, find_problems, simulate
from labeled_traces.trace import Span, SpanKind, Trace, TraceError

ROOM = 10_000_000
TEXTS = st.text(st.characters(codec=None), max_size=30) | st.sampled_from(
    [
        "[user] x",
        "\\[user]",
        "a\n[assistant calls] f({})",
        "[... 3 characters left out ...]",
        "@span a",
        "\r\n",
        "[null]",
    ]
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(st.fixed_dictionaries({"name": TEXTS, "arguments": JSON_VALUES}), max_size=2)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": st.none() | TEXTS},
        optional={"tool_calls": CALLS, "name": TEXTS},
    ),
    max_size=4,
)
TOOL_SETS = st.lists(st.fixed_dictionaries({"name": TEXTS, "inputSchema": JSON_VALUES}), min_size=1, max_size=2)
CONVERSATIONS = st.fixed_dictionaries({"messages": MESSAGES}, optional={"tools": TOOL_SETS, "seed": st.integers()})


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    ids = draw(st.lists(TEXTS.filter(bool), min_size=1, max_size=6, unique=True))
    spans = []
    for i, span_id in enumerate(ids):
        parent = draw(st.none() | st.sampled_from(ids[:i])) if i else None
        kind = draw(st.sampled_from(SpanKind))
        values = JSON_VALUES | CONVERSATIONS
        error = draw(st.none() | TEXTS)
        status = draw(st.sampled_from(["OK", "ERROR", "UNSET"]))
        spans.append(Span(span_id, parent, draw(TEXTS), kind, None, None, draw(values), draw(values), status, error))
    return Trace("t", tuple(spans))


@given(traces())
def test_rendering_what_was_read_gives_the_same_text(trace: Trace) -> None:
    """With one LLM span at most: of a message that is said again the text does not show that it was said before."""
    models = [span.span_id for span in trace.spans if span.kind is SpanKind.LLM]
    spans = (replace(span, kind=SpanKind.AGENT) if span.span_id in models[1:] else span for span in trace.spans)
    rendering = render(Trace("t", tuple(spans)), ROOM)
    assert render(parse_rendered(rendering.text), ROOM) == rendering


@given(traces())
def test_ids_kinds_names_and_parents_come_back(trace: Trace) -> None:
    rendering = render(trace, ROOM)
    read = parse_rendered(rendering.text)
    assert tuple(span.span_id for span in read.spans) == rendering.span_ids
    for span in read.spans:
        original = trace.by_id[span.span_id]
        assert (span.kind, span.name) == (original.kind, original.name[:NAME_LENGTH])
        assert (span.status == "ERROR") == (original.status == "ERROR")
        parent = original.parent_id
        while parent is not None and parent not in rendering.span_ids:
            parent = trace.by_id[parent].parent_id
        assert span.parent_id == parent


@given(JSON_VALUES, JSON_VALUES, st.none() | TEXTS)
def test_contents_come_back_as_text_or_json(inputs: Any, outputs: Any, error: str | None) -> None:
    span = Span("a", None, "t", inputs=inputs, outputs=outputs, error=error)
    read = parse_rendered(render(Trace("t", (span,)), ROOM).text).spans[0]
    for before, after in ((inputs, read.inputs), (outputs, read.outputs)):
        assert text_of(after) == text_of(before)
    assert read.error == (clean(error) if error else None)


def test_a_conversation_comes_back() -> None:
    call = {"name": "look_up", "arguments": {"city": "Zürich", "n": [1, 2]}}
    inputs = {
        "messages": [
            {"role": "system", "content": "Rules:\n[user] is a word\n\\end"},
            {"role": "user", "content": "[assistant] hello"},
            {"role": "tool", "content": '{"t":3}', "name": "look up"},
        ],
        "tools": [{"name": "look_up", "inputSchema": {"type": "object"}}],
        "seed": 1,
    }
    outputs = {"messages": [{"role": "assistant", "content": "I look.", "tool_calls": [call, call]}]}
    trace = Trace("t", (Span("a", None, "m", SpanKind.LLM, inputs=inputs, outputs=outputs),))
    read = parse_rendered(render(trace, ROOM).text).spans[0]
    assert (read.inputs, read.outputs) == (inputs, outputs)


def test_a_call_without_text_and_arguments_that_are_no_json() -> None:
    calls = [{"name": "f(x)", "arguments": '{"cut": '}, {"name": "g", "arguments": None}]
    outputs = {"messages": [{"role": "assistant", "content": None, "tool_calls": calls}]}
    read = parse_rendered(render(Trace("t", (Span("a", None, "m", SpanKind.LLM, outputs=outputs),)), ROOM).text)
    assert read.spans[0].outputs == outputs


@pytest.mark.parametrize(
    "text",
    ["", "no trace here", "@span ", "@span a kind=LLM", '@span a kind=LLM name="x parent=-', "> @span a kind=LLM"],
)
def test_a_text_without_a_span_is_no_trace(text: str) -> None:
    with pytest.raises(TraceError, match="no spans"):
        parse_rendered(text)


def test_damaged_text_is_read_as_far_as_it_goes() -> None:
    read = parse_rendered(
        "> lost\n"
        '@span a kind=NEW name="x" parent=gone\r\n'
        "> [tools] [{]\n"
        "> [other] [1]\n"
        "> [user calls] look up the figure\n"
        "< [assistant calls] f({[... 10 characters left out ...]})\n"
        '< [assistant calls] "a\\u00[... 3 characters left out ...]"({})\n'
        "a line without prefix\n"
        "[... 3 spans left out ...]\n"
        '@span a kind=LLM name="twice" parent=-\n'
        '@span b kind=TOOL name="y" parent=a status=ERROR\n'
        "!no space\n"
        "! bad"
    )
    assert [(span.span_id, span.parent_id, span.kind) for span in read.spans] == [
        ("a", None, SpanKind.UNKNOWN),
        ("b", "a", SpanKind.TOOL),
    ]
    first, second = read.spans
    assert first.inputs == {
        "messages": [
            {"role": "user", "content": None, "tool_calls": [{"name": "look up the figure", "arguments": {}}]}
        ],
        "other": "[1]",
    }
    arguments = "{[... 10 characters left out ...]}"
    assert first.outputs["messages"][0]["tool_calls"] == [
        {"name": "f", "arguments": arguments},
        {"name": '"a\\u00[... 3 characters left out ...]"', "arguments": {}},
    ]
    assert (second.status, second.error) == ("ERROR", "bad")


@given(traces(), st.integers(min_value=8, max_value=300))
def test_a_cut_rendering_is_read_too(trace: Trace, limit: int) -> None:
    rendering = render(trace, limit)
    assert rendering.tokens <= limit
    if rendering.span_ids:
        read = parse_rendered(rendering.text)
        assert tuple(span.span_id for span in read.spans) == rendering.span_ids


@settings(deadline=None, max_examples=10)
@given(st.integers(min_value=0, max_value=10_000))
def test_the_simulated_problems_survive_the_rendering(seed: int) -> None:
    for row in simulate(12, seed, FaultRates().scaled(3.0)):
        read = parse_rendered(render(row.trace, ROOM).text)
        assert find_problems(read) == find_problems(row.trace)


def test_a_cut_simulated_trace_may_hide_problems_but_breaks_nothing() -> None:
    for row in simulate(10, 3, FaultRates().scaled(3.0)):
        for limit in range(64, 1200, 100):
            text = render(row.trace, limit).text
            if "@span" in text:
                find_problems(parse_rendered(text))


def test_ids_of_every_printable_kind() -> None:
    ids = [*string.punctuation, "a b", "é", "\u2028", "x" * 300]
    trace = Trace("t", tuple(Span(span_id, None, "n") for span_id in ids))
    assert [span.span_id for span in parse_rendered(render(trace, ROOM).text).spans] == ids
