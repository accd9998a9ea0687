from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import Impact
from labeled_traces.readers import read
from labeled_traces.readers.labels.trail import WITHOUT
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, TraceError
from labeled_traces.writers import write

TRACE_ID = "18efa24e637b9423f34180d1f2041d3e"
SECRET = "the-gold-answer-is-forty-two"


def trail_span(span_id: str, name: str, kind: str | None = None, **fields: JSON) -> dict[str, JSON]:
    attributes = {"pat.app": "GAIA-Samples", **fields.pop("span_attributes", {})}
    if kind is not None:
        attributes["openinference.span.kind"] = kind
    return {
        "timestamp": "2025-03-19T16:42:36.500000Z",
        "duration": "PT0.25S",
        "trace_id": TRACE_ID,
        "span_id": span_id,
        "parent_span_id": None,
        "trace_state": "",
        "span_name": name,
        "span_kind": "Internal",
        "service_name": "GAIA-Samples",
        "resource_attributes": {"telemetry.sdk.language": "python"},
        "scope_name": "openinference.instrumentation.smolagents",
        "scope_version": "0.1.8",
        "span_attributes": attributes,
        "status_code": "Unset",
        "status_message": "",
        "events": [],
        "links": [],
        "logs": [],
        "child_spans": [],
        **fields,
    }


def trail_trace() -> dict[str, JSON]:
    """In TRAIL's form, with its dirt: harness spans whose logs hold the answer, double encoding, bulk."""
    chat = [{"role": "system", "content": "Plan first."}, {"role": "user", "content": "How long is the equator?"}]
    flat = {f"llm.input_messages.{i}.message.{key}": value for i, m in enumerate(chat) for key, value in m.items()}
    model = trail_span(
        "aaaa000000000003",
        "LiteLLMModel.__call__",
        "LLM",
        parent_span_id="aaaa000000000002",
        span_attributes={
            **flat,
            "input.value": json.dumps({"messages": chat}),
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "1. search <end_plan>",
            "llm.model_name": "o3-mini",
            "llm.token_count.prompt": "1869",
        },
    )
    tool = trail_span(
        "aaaa000000000004",
        "SimpleTool",
        "TOOL",
        parent_span_id="aaaa000000000002",
        timestamp="2025-03-19T16:42:37Z",
        status_code="Error",
        status_message="ValueError: boom",
        span_attributes={
            "tool.name": "web_search",
            "input.value": '{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"query": "equator"}}',
        },
        events=[
            {
                "Name": "exception",
                "attributes": {
                    "exception.type": "ValueError",
                    "exception.message": "boom",
                    "exception.stacktrace": "...",
                },
            }
        ],
    )
    agent = trail_span(
        "aaaa000000000002",
        "CodeAgent.run",
        "AGENT",
        parent_span_id="aaaa000000000001",
        span_attributes={"input.value": '{"task": "How long is the equator?"}', "output.value": "40075 km"},
        child_spans=[model, tool],
    )
    harness = trail_span(
        "aaaa000000000001",
        "answer_single_question",
        span_attributes={"input.value": json.dumps({"example": {"question": "?", "true_answer": SECRET}})},
        logs=[{"body": {"function.arguments": {"true_answer": SECRET, "Annotator Metadata": {"Steps": SECRET}}}}],
        child_spans=[agent],
    )
    return {"trace_id": TRACE_ID, "spans": [harness]}


def annotation(**fields: JSON) -> dict[str, JSON]:
    error = {
        "category": "Tool-related",
        "location": "aaaa000000000004",
        "evidence": "equator",
        "description": "queries the web",
        "impact": "HIGH",
    }
    return {"trace_id": TRACE_ID, "errors": [error], "scores": [{"reliability_score": 3, "overall": 3.5}], **fields}


def import_one(
    tmp_path: Path, trace: JSON, labels: JSON = None, strict: bool = True
) -> tuple[LabeledTrace, ReadReport]:
    path = tmp_path / f"{TRACE_ID}.json"
    path.write_text(json.dumps(trace, indent=1))
    label_path = None
    if labels is not None:
        label_path = tmp_path / "labels" / path.name
        label_path.parent.mkdir(exist_ok=True)
        label_path.write_text(labels if isinstance(labels, str) else json.dumps(labels))
    data, report = read([path], labels=label_path, strict=strict)
    (row,) = data
    return row, report


def test_a_trail_file_with_its_annotation(tmp_path: Path) -> None:
    row, report = import_one(tmp_path, trail_trace(), annotation())
    spans = row.trace.spans
    assert [(one.span_id[-1], (one.parent_id or "-")[-1], one.name, str(one.kind)) for one in spans] == [
        ("1", "-", "answer_single_question", "UNKNOWN"),
        ("2", "1", "CodeAgent.run", "AGENT"),
        ("3", "2", "LiteLLMModel.__call__", "LLM"),
        ("4", "2", "web_search", "TOOL"),
    ]
    assert spans[1].inputs == "How long is the equator?"
    assert spans[1].outputs == "40075 km"
    assert [message["role"] for message in spans[2].inputs["messages"]] == ["system", "user"]
    assert spans[2].outputs == {"messages": [{"role": "assistant", "content": "1. search <end_plan>"}]}
    assert spans[2].attributes == {"llm.model_name": "o3-mini", "llm.token_count": {"prompt": 1869}}
    assert spans[2].start is not None
    assert spans[2].end == spans[2].start + 0.25
    assert spans[3].inputs == {"query": "equator"}
    assert (spans[3].status, spans[3].error) == ("ERROR", "ValueError: boom")
    (error,) = row.errors
    assert (error.span_id, error.category, error.impact) == ("aaaa000000000004", "Tool-related", Impact.HIGH)
    assert error.dimensions == ("tool_calling", "logical_consistency")
    assert (error.description, error.evidence) == ("queries the web", "equator")
    assert row.scores == ()
    assert row.metadata == {"scores": [{"reliability_score": 3, "overall": 3.5}]}
    assert row.clean == "checked"
    assert report.counts == {"answer left out": 1}
    assert report.stripped["logs"] == 1


def test_nothing_of_the_answer_gets_into_the_trace(tmp_path: Path) -> None:
    row, _ = import_one(tmp_path, trail_trace(), annotation())
    Dataset([row]).save(tmp_path / "d.jsonl")
    text = (tmp_path / "d.jsonl").read_text()
    assert SECRET not in text
    assert "Annotator" not in text
    assert "question" in text


def test_a_swe_bench_row_in_an_input_loses_both_patches(tmp_path: Path) -> None:
    given = {
        "instance": [{"problem_statement": "fix it", "patch": SECRET, "test_patch": SECRET}],
        "mine": {"patch": "ok"},
    }
    span = trail_span("aaaa000000000001", "main", "CHAIN", span_attributes={"input.value": json.dumps(given)})
    row, report = import_one(tmp_path, {"trace_id": TRACE_ID, "spans": [span]})
    assert row.trace.spans[0].inputs == {"instance": [{"problem_statement": "fix it"}], "mine": {"patch": "ok"}}
    assert report.counts["answer left out"] == 2


def test_the_agents_own_final_answer_stays(tmp_path: Path) -> None:
    said = {
        "Final answer": "mine",
        "nested": {"Final answer": SECRET, "Annotator Metadata": {"Steps": SECRET}, "Level": 1},
    }
    span = trail_span("aaaa000000000001", "main", "AGENT", span_attributes={"output.value": json.dumps(said)})
    row, _ = import_one(tmp_path, {"trace_id": TRACE_ID, "spans": [span]})
    assert row.trace.spans[0].outputs == {"Final answer": "mine", "nested": {"Level": 1}}


def test_nesting_wins_over_a_wrong_parent_id(tmp_path: Path) -> None:
    trace = trail_trace()
    trace["spans"][0]["child_spans"][0]["parent_span_id"] = "dead"
    row, report = import_one(tmp_path, trace)
    assert [(one.parent_id or "-")[-1] for one in row.trace.spans] == ["-", "1", "2", "2"]
    assert "span with an unknown parent, now a root" not in report.counts


def test_a_gold_file_with_a_trailing_comma(tmp_path: Path) -> None:
    text = json.dumps(annotation(), indent=2).replace("\n  ],", ",\n  ],", 1)
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    row, report = import_one(tmp_path, trail_trace(), text)
    assert len(row.errors) == 1
    assert report.counts["trailing comma"] == 1


def test_dirty_annotations_are_read_and_counted(tmp_path: Path) -> None:
    first = annotation()["errors"][0]
    errors = [
        {**first, "category": " tool selection", "impact": " low "},
        {**first, "location": "Span ID not found for this shard"},
        {**first, "location": None, "impact": "Medium"},
        {**first, "location": ["aaaa000000000004"]},
        {**first, "location": " 0xAAAA000000000004 "},
        {**first, "category": "Bad vibes", "impact": "severe"},
        {"location": "aaaa000000000001", "description": "\ud83d\x00"},
    ]
    row, report = import_one(tmp_path, trail_trace(), annotation(errors=errors, scores=None))
    assert [error.span_id and error.span_id[-1] for error in row.errors] == ["4", None, None, None, "4", "4", "1"]
    assert [str(error.impact) for error in row.errors] == ["low", "high", "medium", "high", "high", "medium", "medium"]
    assert row.errors[0].category == "Tool Selection Errors"
    assert row.errors[0].dimensions == ("tool_selection",)
    assert (row.errors[5].category, row.errors[5].dimensions) == ("Bad vibes", ())
    assert row.errors[6].description == "\ufffd\ufffd"
    assert row.metadata == {}
    del report.counts["answer left out"]
    assert report.counts == {
        "label that names no span of its trace, kept without one": 3,
        "category that the taxonomy does not have, so of no dimension": 2,
        "impact missing or unknown, medium taken": 2,
        "NUL or lone surrogate": 2,
    }


def test_no_errors_means_checked_and_no_annotation_means_unknown(tmp_path: Path) -> None:
    row, _ = import_one(tmp_path, trail_trace(), annotation(errors=[]))
    assert (row.errors, row.clean) == ((), "checked")
    row, report = import_one(tmp_path, trail_trace())
    assert (row.errors, row.clean) == ((), "unknown")
    assert WITHOUT not in report.counts


def test_a_trace_without_annotation_is_told_where_others_have_one(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(trail_trace()))
    (tmp_path / "b.json").write_text(json.dumps({**trail_trace(), "trace_id": "ab" * 16}))
    (tmp_path / "labels.json").write_text(json.dumps(annotation()))
    data, report = read(tmp_path)
    assert [row.clean for row in data] == ["checked", "unknown"]
    assert report.counts[WITHOUT] == 1
    assert report.examples[WITHOUT] == [f"{tmp_path / 'b.json'}, line 1, trace {'ab' * 16}"]
    (tmp_path / "labels.json").unlink()
    (tmp_path / "labels.csv").write_text(f"trace_id,category\n{TRACE_ID},Goal Deviation\n")
    assert WITHOUT not in read([tmp_path / "a.json", tmp_path / "b.json"], labels=tmp_path / "labels.csv")[1].counts


def test_a_converted_trace_has_its_labels_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(trail_trace()))
    (tmp_path / "labels.json").write_text(json.dumps(annotation()))
    (row,), _ = read(tmp_path)
    write([row], "otlp", tmp_path / "b.json")
    other = annotation(trace_id="ab" * 16)
    (tmp_path / "labels.json").write_text(json.dumps(other))
    (again,), report = read(tmp_path / "b.json", labels=tmp_path / "labels.json", allow_missing=True)
    assert (again.errors, again.clean) == (row.errors, row.clean)
    assert WITHOUT not in report.counts


def test_annotations_join_by_file_name_and_several_raters_are_kept(tmp_path: Path) -> None:
    (tmp_path / f"{TRACE_ID}.json").write_text(json.dumps(trail_trace()))
    for rater, errors in (("ann", annotation()["errors"]), ("bob", []), ("ann_again", annotation()["errors"])):
        folder = tmp_path / "labels" / rater
        folder.mkdir(parents=True)
        record: JSON = {"errors": errors, "scores": [], "annotator": rater.removesuffix("_again")}
        (folder / f"{TRACE_ID}.json").write_text(json.dumps(record))
    (tmp_path / "labels" / "ffff.json").write_text(json.dumps({"trace_id": "ffff", "errors": []}))
    with pytest.raises(
        TraceError, match=r"ffff\.json, line 1: labels of '000000000000ffff', which is no trace that was"
    ):
        read(tmp_path)
    data, report = read(tmp_path, allow_missing=True)
    (row,) = data
    assert [error.rater for error in row.errors] == ["ann"]
    assert row.raters == ("ann", "bob")
    assert report.counts["annotation twice, kept once"] == 1
    assert report.counts["label of a trace that was not read, left out"] == 1
    assert [(row["trace_id"], row["why"]) for row in report.unjoined] == [("000000000000ffff", "trace was not read")]


def test_rows_of_the_hugging_face_table(tmp_path: Path) -> None:
    other = json.dumps(trail_trace()).replace(TRACE_ID, "b" * 32).replace("equator", "river")
    rows = [
        {"trace": json.dumps(trail_trace()), "labels": json.dumps(annotation())},
        {"trace": other, "labels": json.dumps(annotation(trace_id="b" * 32, errors=[]))},
    ]
    path = tmp_path / "gaia.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    data, _ = read(path)
    assert data.ids == (TRACE_ID, "b" * 32)
    assert [len(row.errors) for row in data] == [1, 0]
    path.write_text(json.dumps({"trace": "{broken", "labels": "{}"}))
    with pytest.raises(TraceError, match=r"gaia\.jsonl, line 1, trace: not JSON"):
        read(path)
    path.write_text(json.dumps({"trace": json.dumps(trail_trace()), "labels": "[]"}))
    with pytest.raises(TraceError, match=r"gaia\.jsonl, line 1, labels: not an annotation: accepted is"):
        read(path)


def nested(*spans: JSON) -> dict[str, JSON]:
    return {"trace_id": TRACE_ID, "spans": list(spans)}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "holds no record"),
        ([nested(trail_span("a", "x")), 3], "record 2: not a TRAIL trace: accepted are"),
        (nested(), "spans: is empty: a trace needs at least one span"),
        (nested(3), "a span is int: accepted is a JSON object"),
        (nested(trail_span("a", "x", child_spans={"b": 1})), "span a, child_spans: accepted is a list"),
        (nested(trail_span("a", "x", child_spans=["b"])), "a span is str: accepted is a JSON object"),
        ({"trace": {"spans": 3}, "labels": None}, "spans: is missing or no list"),
    ],
)
def test_what_cannot_be_read_names_file_and_record(tmp_path: Path, document: JSON, message: str) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document))
    for strict in (True, False) if "record 2" not in message else (True,):
        with pytest.raises(TraceError, match=rf"a\.json.*{message}"):
            read(tmp_path / "a.json", strict=strict)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([{"trace_id": TRACE_ID, "errors": {}}], "record 1: not an annotation"),
        ({"trace_id": TRACE_ID, "errors": ["text"]}, "error 1: is str: accepted is"),
        ("hello", "not JSON"),
    ],
)
def test_bad_annotations_name_file_and_record(tmp_path: Path, labels: JSON, message: str) -> None:
    with pytest.raises(TraceError, match=rf"labels/{TRACE_ID}\.json.*{message}"):
        import_one(tmp_path, trail_trace(), labels)


def _deep(depth: int) -> dict[str, JSON]:
    span = trail_span("0", "leaf")
    for i in range(1, depth):
        span = trail_span(f"{i:x}", "n", child_spans=[span])
    return span


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda span: span["span_attributes"].update({"input.value": "\x00\ud83d"}), "NUL or lone surrogate"),
        (lambda span: span["span_attributes"].update({"output.value": "x" * 1_000_001}), "text longer than"),
        (lambda span: span["span_attributes"].update({"input.value": '{"a": "\\u0000"}'}), "NUL or lone surrogate"),
        (lambda span: span["span_attributes"].update({"input.value": '{"a": NaN}'}), "number that is not finite"),
        (lambda span: span["span_attributes"].update({"input.value": "[" * 90 + "]" * 90}), "nested deeper than"),
        (lambda span: span["child_spans"].append(_deep(200)), "answer left out"),
        (lambda span: span["child_spans"].append(span["child_spans"][0]), "span twice, kept once"),
        (lambda span: span.update(parent_span_id="aaaa000000000004"), "spans in a circle"),
        (lambda span: span.update(parent_span_id="dead"), "trace without a root"),
        (lambda span: span.update(duration="soon", timestamp="2025-13-77"), "time that is not understood"),
    ],
)
def test_dirty_traces_are_mended_saved_and_read_back(
    tmp_path: Path, change: Callable[[dict[str, JSON]], None], kind: str
) -> None:
    trace = trail_trace()
    change(trace["spans"][0])
    row, report = import_one(tmp_path, trace, annotation())
    assert any(known.startswith(kind) for known in report.counts)
    data = Dataset([row])
    data.save(tmp_path / "d.jsonl")
    assert Dataset.load(tmp_path / "d.jsonl").hash == data.hash
    assert row.errors[0].span_id == "aaaa000000000004"


def test_the_layout_of_the_benchmark_is_read_as_it_is(tmp_path: Path) -> None:
    other = "b" * 32
    for folder, labels, trace_id in (
        ("GAIA", "processed_annotations_gaia", TRACE_ID),
        ("SWE Bench", "processed_annotations_swe_bench", other),
    ):
        for name, record in ((folder, trail_trace()), (labels, annotation())):
            (tmp_path / name).mkdir()
            (tmp_path / name / f"{trace_id}.json").write_text(json.dumps(record).replace(TRACE_ID, trace_id))
    data, report = read(tmp_path, strict=True)
    assert data.ids == (TRACE_ID, other)
    assert [len(row.errors) for row in data] == [1, 1]
    assert report.stripped["logs"] == 2


def test_rows_whose_labels_have_a_comma_too_many_or_are_no_text(tmp_path: Path) -> None:
    text = json.dumps(annotation()).replace("}], ", "},], ", 1)
    other = json.loads(json.dumps({"trace": trail_trace(), "labels": annotation()}).replace(TRACE_ID, "b" * 32))
    rows = [{"trace": json.dumps(trail_trace()), "labels": text}, other]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    data, report = read(path, strict=True)
    assert [len(row.errors) for row in data] == [1, 1]
    assert report.counts["trailing comma"] == 1
