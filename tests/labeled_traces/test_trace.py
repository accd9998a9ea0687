from __future__ import annotations

from dataclasses import replace

import pytest

from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError, text_hash


def span(span_id: str, parent_id: str | None = None, **fields: JSON) -> Span:
    return Span(span_id, parent_id, fields.pop("name", span_id), **fields)


TREE = Trace("t", (span("a"), span("b", "a"), span("c", "b"), span("d", "a"), span("e")))


def test_tree_helpers() -> None:
    assert [one.span_id for one in TREE.roots] == ["a", "e"]
    assert [one.span_id for one in TREE.children("a")] == ["b", "d"]
    assert TREE.children("zz") == ()
    assert [one.span_id for one in TREE.walk()] == ["a", "b", "c", "d", "e"]
    assert TREE.by_id["c"].parent_id == "b"


def test_walk_puts_parents_first_whatever_the_recorded_order() -> None:
    trace = Trace("t", (span("c", "b"), span("b", "a"), span("d", "a"), span("a")))
    assert [one.span_id for one in trace.walk()] == ["a", "b", "c", "d"]


def test_neighbourhood_is_the_span_with_parent_and_children() -> None:
    assert TREE.neighbourhood("b") == {"a", "b", "c"}
    assert TREE.neighbourhood("a") == {"a", "b", "d"}
    assert TREE.neighbourhood("e") == {"e"}
    assert TREE.neighbourhood("zz") == set()


@pytest.mark.parametrize(
    ("trace_id", "spans", "message"),
    [
        ("", (span("a"),), "no trace_id"),
        ("t", (), "trace 't' has no spans"),
        ("t", (span("a"), span("a")), "span id 'a' is empty or used twice"),
        ("t", (span(""),), "span id '' is empty"),
        ("t", (span("a"), span("b", "zz")), "span 'b' has no known parent 'zz'"),
        ("t", (span("a", "a"),), "span 'a' is its own ancestor"),
        ("t", (span("a", "c"), span("b", "a"), span("c", "b")), "is its own ancestor"),
    ],
)
def test_invalid_traces_are_refused(trace_id: str, spans: tuple[Span, ...], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        Trace(trace_id, spans)


def test_content_hash_ignores_ids_times_and_white_space() -> None:
    one = Trace("t", (span("a", inputs={"q": "how  long\n"}), span("b", "a", name="x", kind=SpanKind.TOOL, start=1.0)))
    two = Trace("u", (span("1", name="a", inputs={"q": " how long"}), span("2", "1", name="x", kind=SpanKind.TOOL)))
    assert one.content_hash == two.content_hash


@pytest.mark.parametrize(
    "change",
    [{"inputs": "other"}, {"outputs": 1}, {"kind": SpanKind.LLM}, {"name": "other"}, {"parent_id": "c"}],
)
def test_content_hash_sees_what_happened(change: JSON) -> None:
    trace = Trace("t", (span("a"), span("c"), span("b", "a", inputs="x")))
    changed = Trace("t", (*trace.spans[:2], replace(trace.spans[2], **change)))
    assert trace.content_hash != changed.content_hash


def test_hashes_of_any_text() -> None:
    assert text_hash("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert text_hash("\ud83d") != text_hash("\ufffd")
