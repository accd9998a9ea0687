from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeled_traces.readers.mending.repair import build_trace, canonical_id, mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import JSON, Span, Trace

TRAIL = load_taxonomy("trail")


def span(span_id: str, parent_id: str | None = None, name: str = "n", **fields: JSON) -> Span:
    return Span(span_id, parent_id, name, **{"inputs": "x", **fields})


def build(*spans: Span) -> tuple[Trace, dict[str, int]]:
    options = ReadOptions(TRAIL)
    trace = build_trace("t", spans, "hex", "file", options)
    return trace, options.report.counts


def tree(trace: Trace) -> list[tuple[str, str | None]]:
    return [(one.span_id, one.parent_id) for one in trace.spans]


@pytest.mark.parametrize(
    ("raw", "form"),
    [
        ("00f067aa0ba902b7", "hex"),
        ("0x00F067AA0BA902B7", "hex"),
        ("0xf067aa0ba902b7", "hex"),
        (" 00f067aa0ba902b7\n", "hex"),
        ("APBnqgupArc=", "base64"),
        ("67667974448284343", "int"),
    ],
)
def test_ids_of_one_span_have_one_canonical_form(raw: str, form: str) -> None:
    assert canonical_id(raw, form) == "00f067aa0ba902b7"


@pytest.mark.parametrize("form", ["hex", "base64", "int", "none"])
def test_what_is_not_of_the_form_is_kept(form: str) -> None:
    assert canonical_id(" step-3 ", form) == "step-3"
    assert canonical_id("Span ID not found", form) == "Span ID not found"


def test_the_form_is_declared_and_never_guessed() -> None:
    assert canonical_id("1234567812345678", "hex") == "1234567812345678"
    assert canonical_id("1234567812345678", "int") == f"{1234567812345678:016x}"
    assert canonical_id("1234567812345678", "base64") == "d76df8e7aefcd76df8e7aefc"


def test_texts_lose_what_cannot_be_written_one_for_one() -> None:
    options = ReadOptions(TRAIL)
    value = {"a\x00": ["\ud83d x \udc00", "🌍\u2028"], "n": [float("nan"), float("-inf"), 1.5, True, None]}
    mended = mend_value(value, "file", options)
    assert mended == {"a\ufffd": ["\ufffd x \ufffd", "🌍\u2028"], "n": ["nan", "-inf", 1.5, True, None]}
    assert options.report.counts == {"NUL or lone surrogate": 3, "number that is not finite": 2}
    json.dumps(mended, allow_nan=False, ensure_ascii=False).encode()


def test_huge_texts_keep_head_and_tail_and_say_what_is_missing() -> None:
    options = ReadOptions(TRAIL, longest_text=1001)
    mended = mend_value("a" * 3000 + "b" * 3000, "file, input.value", options)
    assert mended == "a" * 500 + "[... 5000 characters left out ...]" + "b" * 500
    assert mend_value("c" * 1001, "file", options) == "c" * 1001
    assert options.report.counts == {"text longer than 1001 characters": 1}
    assert options.report.examples["text longer than 1001 characters"] == ["file, input.value, 5000 left out"]


def test_what_is_nested_too_deeply_becomes_text() -> None:
    options = ReadOptions(TRAIL)
    value: JSON = "core"
    for _ in range(500):
        value = {"a": [value]}
    mended = mend_value(value, "file", options)
    assert "nested too deeply" in json.dumps(mended)
    assert options.report.counts == {"nested deeper than 60 levels, left out": 1}


def test_clean_spans_stay_as_they_are() -> None:
    trace, counts = build(span("a", start=1.0, end=9.0), span("0xB", "a", start=2.0), span("c", "b", start=3.0))
    assert tree(trace) == [("a", None), ("0xB", "a"), ("c", "0xB")]
    assert counts == {}


def test_order_is_parents_first_then_start_else_as_recorded() -> None:
    timed, counts = build(
        span("c", "a", start=3.0), span("b", "a", start=2.0), span("d", "b", start=2.5), span("a", start=1.0)
    )
    assert [one.span_id for one in timed.spans] == ["a", "b", "d", "c"]
    untimed, _ = build(span("c", "a"), span("b", "a", start=2.0), span("a"))
    assert [one.span_id for one in untimed.spans] == ["a", "c", "b"]
    assert counts == {}


def test_orphans_become_roots() -> None:
    trace, counts = build(span("a"), span("b", "nowhere"), span("c", "b"))
    assert tree(trace) == [("a", None), ("b", None), ("c", "b")]
    assert counts == {"span with an unknown parent, now a root": 1}


def test_a_trace_without_a_root_is_reported() -> None:
    trace, counts = build(span("a", "lost"), span("b", "a"))
    assert tree(trace) == [("a", None), ("b", "a")]
    assert counts == {"span with an unknown parent, now a root": 1, "trace without a root": 1}


@pytest.mark.parametrize("parent", ["", "  "])
def test_a_blank_parent_is_no_parent(parent: str) -> None:
    trace, counts = build(span("a", parent))
    assert tree(trace) == [("a", None)]
    assert counts == {}


def test_child_before_parent_in_time() -> None:
    trace, counts = build(span("b", "a", start=0.999), span("a", start=1.0))
    assert tree(trace) == [("a", None), ("b", "a")]
    assert counts == {"span starts before its parent": 1}


def test_end_before_start() -> None:
    trace, counts = build(span("a", start=5.0, end=4.0))
    assert (trace.spans[0].start, trace.spans[0].end) == (5.0, 5.0)
    assert counts == {"span ends before it starts, end taken as start": 1}


def test_one_span_twice_is_kept_once_whatever_the_spelling_of_its_id() -> None:
    trace, counts = build(span("a"), span("b1", "a", inputs="x"), span("0xB1", "a", inputs="x"))
    assert tree(trace) == [("a", None), ("b1", "a")]
    assert counts == {"span twice, kept once": 1}


def test_one_id_for_two_spans_keeps_both() -> None:
    trace, counts = build(span("a"), span("b", "a", inputs="x"), span("b", "a", inputs="y"), span("b", "a", inputs="z"))
    assert tree(trace) == [("a", None), ("b", "a"), ("b#2", "a"), ("b#3", "a")]
    assert [one.inputs for one in trace.spans] == ["x", "x", "y", "z"]
    assert counts == {"span id of two different spans": 2}


def test_missing_ids_get_names() -> None:
    trace, counts = build(span("a"), span("", "a", "x"), span(" ", "a", "y"))
    assert tree(trace) == [("a", None), ("span-1", "a"), ("span-2", "a")]
    assert counts == {"span without an id": 2}


def test_cycles_are_cut_once_each() -> None:
    trace, counts = build(
        span("r"), span("a", "c"), span("b", "a"), span("c", "b"), span("d", "d"), span("e", "f"), span("f", "e")
    )
    assert dict(tree(trace)) == {"r": None, "a": None, "b": "a", "c": "b", "d": None, "e": None, "f": "e"}
    assert counts == {"spans in a circle, cut at the first": 3}


def test_a_trace_that_is_one_circle() -> None:
    trace, counts = build(span("tail", "a"), span("a", "b"), span("b", "a"))
    assert {one.span_id for one in trace.spans} == {"tail", "a", "b"}
    assert counts == {"spans in a circle, cut at the first": 1, "trace without a root": 1}


def test_long_chains_are_no_problem() -> None:
    trace, _ = build(*(span(f"s{i}", f"s{i + 1}") for i in range(2000)), span("s2000"))
    assert trace.spans[0].span_id == "s2000"
    assert trace.spans[-1].span_id == "s0"


IDS = st.sampled_from(["a", "b", "0xA", "c", "", " ", "d", "nowhere", "a#2"])


@given(
    st.lists(
        st.builds(Span, IDS, st.none() | IDS, st.sampled_from(["x", "y"]), start=st.none() | st.floats(0, 9)),
        min_size=1,
    )
)
@settings(max_examples=300, deadline=None)
def test_any_spans_give_a_valid_trace_and_lose_nothing_unsaid(spans: list[Span]) -> None:
    trace, counts = build(*spans)
    assert len(trace.spans) == len(spans) - counts.get("span twice, kept once", 0)
    assert [one.span_id for one in trace.walk()] == [one.span_id for one in trace.spans]
