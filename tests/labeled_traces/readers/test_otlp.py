from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.readers import read
from labeled_traces.readers.report import INCOMPLETE, SPAN
from labeled_traces.trace import JSON, TraceError


def batch(*spans: JSON) -> dict[str, JSON]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "s"}, "spans": list(spans)}]}]}


def text(key: str, value: str) -> dict[str, JSON]:
    return {"key": key, "value": {"stringValue": value}}


ROOT = {
    "traceId": "CB165A22B07A46AC23E1307FFD4BD5FF",
    "spanId": "e924b9a1f234316a",
    "parentSpanId": "",
    "name": "agent",
    "startTimeUnixNano": "1796033803839379920",
    "endTimeUnixNano": "1796033803939379920",
    "attributes": [
        text("openinference.span.kind", "LLM"),
        text("llm.input_messages.0.message.role", "user"),
        text("llm.input_messages.0.message.content", "hi"),
        {"key": "llm.token_count.prompt", "value": {"intValue": "12"}},
        {"key": "llm.invocation_parameters", "value": {"kvlistValue": {"values": [text("a", "b")]}}},
        {
            "key": "smolagents.tools",
            "value": {"arrayValue": {"values": [{"boolValue": True}, {"doubleValue": 0.5}, {}]}},
        },
    ],
    "status": {"code": 2, "message": "boom"},
}
CHILD = {
    "trace_id": "yxZaIrB6Rqwj4TB//UvV/w==",
    "span_id": "qOipKDNv8qU=",
    "parent_span_id": "6SS5ofI0MWo=",
    "name": "tool",
    "start_time_unix_nano": "1796033803849379920",
    "attributes": [{"key": "output.value", "value": {"string_value": "done"}}],
    "status": {"code": "STATUS_CODE_OK"},
    "events": [{"name": "exception", "attributes": [text("exception.type", "E"), text("exception.message", "m")]}],
}


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_spans_of_several_batches_are_one_trace(tmp_path: Path, name: str) -> None:
    """One file in OTLP's own JSON, one batch in protobuf's: base64 ids, names of enums, snake case."""
    lines = [json.dumps(batch(CHILD)), json.dumps(batch(ROOT))]
    (tmp_path / name).write_text("\n".join(lines) if name.endswith("l") else f"[{','.join(lines)}]")
    (row,), report = read(tmp_path)
    assert report.counts == {}
    root, child = row.trace.spans
    assert row.trace_id == "cb165a22b07a46ac23e1307ffd4bd5ff"
    assert (root.span_id, root.kind, root.status, root.error) == ("e924b9a1f234316a", "LLM", "ERROR", "boom")
    assert root.inputs == {"messages": [{"role": "user", "content": "hi"}]}
    assert root.start == pytest.approx(1796033803.84, abs=0.01)
    assert root.end == pytest.approx(1796033803.94, abs=0.01)
    assert root.attributes["llm.token_count"] == {"prompt": 12}
    assert root.attributes["llm.invocation_parameters"] == {"a": "b"}
    assert root.attributes["smolagents"] == {"tools": [True, 0.5, None]}
    assert (child.span_id, child.parent_id, child.status) == ("a8e8a928336ff2a5", "e924b9a1f234316a", "OK")
    assert (child.outputs, child.error) == ("done", "E: m")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (batch(3), r"resourceSpans\[0\]\.scopeSpans\[0\]\.spans\[0\]: is int: accepted is a JSON object"),
        ({"resourceSpans": [{"scopeSpans": {"a": 1}}]}, r"resourceSpans\[0\], scopeSpans: is dict: accepted is a list"),
        (batch({**ROOT, "attributes": {"a": 1}}), r"spans\[0\], attributes: is dict: accepted is a list"),
        (batch({**ROOT, "events": "x"}), "events: is str: accepted is a list"),
        (
            batch({**ROOT, "attributes": [{"key": "a", "value": {"arrayValue": {"values": 1}}}]}),
            "arrayValue, values: is",
        ),
        ({"resourceSpans": ["x"]}, r"resourceSpans\[0\]: is str: accepted is a JSON object"),
    ],
)
def test_bad_batches_name_the_place(tmp_path: Path, bad: JSON, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{json.dumps(bad)}\n{json.dumps(batch(ROOT))}")
    (_,), report = read(path)
    assert report.counts[SPAN] == 1
    assert report.counts.get(INCOMPLETE, 0) == ("traceId" in json.dumps(bad))
    with pytest.raises(Exception, match=rf"a\.jsonl, line 1, .*{message}"):
        read(path, strict=True)


def test_a_span_that_cannot_be_read_takes_no_other_with_it(tmp_path: Path) -> None:
    others = [{**ROOT, "spanId": f"{n:016x}", "parentSpanId": ROOT["spanId"], "name": f"step {n}"} for n in range(1, 4)]
    other_trace = {**ROOT, "traceId": "ab" * 16}
    bad = {**others[0], "events": {"a": 1}}
    (tmp_path / "a.json").write_text(json.dumps(batch(ROOT, "oops", bad, *others[1:], other_trace)))
    data, report = read(tmp_path)
    assert [len(row.trace.spans) for row in data] == [3, 1]
    assert (report.counts[SPAN], report.counts[INCOMPLETE]) == (2, 1)
    assert "trace cb165a22b07a46ac23e1307ffd4bd5ff: 1 x span" in report.examples[INCOMPLETE][0]
    flat: list[JSON] = [
        {"trace_id": "ab", "span_id": "01", "attributes": {"input.value": "hi"}},
        {"trace_id": "ab", "span_id": "02", "child_spans": 3},
    ]
    (tmp_path / "a.json").write_text(json.dumps(flat))
    assert read(tmp_path)[1].counts[INCOMPLETE] == 1
    (tmp_path / "a.json").write_text(json.dumps(batch("oops")))
    with pytest.raises(TraceError, match=r"spans\[0\]: is str"):
        read(tmp_path)


@pytest.mark.parametrize(
    "value", [None, 3, [], {"stringValue": "x", "intValue": 1}, {"arrayValue": None}, {"kvlistValue": {}}]
)
def test_odd_values_and_pairs_are_no_crash(tmp_path: Path, value: JSON) -> None:
    odd = {
        **ROOT,
        "spanId": value,
        "traceId": value,
        "attributes": [text("input.value", "hi"), 3, {"key": "x", "value": value}],
    }
    (tmp_path / "a.json").write_text(json.dumps(batch(odd)))
    (row,), _ = read(tmp_path)
    assert row.trace.spans[0].inputs == "hi"


def test_an_odd_attribute_of_an_event_is_counted(tmp_path: Path) -> None:
    event = {"name": "exception", "attributes": [["exception.message"]]}
    asked = {"key": "input.value", "value": {"stringValue": "go"}}
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "x", "attributes": [asked], "events": [event]}
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    assert read(path, "otlp")[1].counts["attribute that is no pair of key and value, left out"] == 1
