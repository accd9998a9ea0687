from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labeled_traces.label import DIMENSIONS, Impact
from labeled_traces.readers import read, sniff
from labeled_traces.readers.hidden_errors import KIND as HIDDEN_ERROR
from labeled_traces.readers.mlflow import read_row, read_trace
from labeled_traces.readers.mlflow_labels import is_labelled
from labeled_traces.readers.report import ReadOptions
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import JSON, SpanKind, TraceError

ROOT, CHILD = "PjT0GSggSyg=", "pTl4gutMYww="
ROOT_HEX, CHILD_HEX = "3e34f41928204b28", "a5397882eb4c630c"


@pytest.fixture
def options() -> ReadOptions:
    return ReadOptions(load_taxonomy("trail"))


def span(span_id: str, parent: str | None, kind: str, inputs: JSON, outputs: JSON, **more: JSON) -> dict[str, JSON]:
    attributes = {"mlflow.spanType": kind, "mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs}
    return {
        "trace_id": "7ITjN92toUOyy1cMVXUFRg==",
        "span_id": span_id,
        "parent_span_id": parent,
        "name": kind.lower(),
        "start_time_unix_nano": 1_796_047_845_614_561_894,
        "end_time_unix_nano": 1_796_047_845_681_826_973,
        "events": [],
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {name: json.dumps(value) for name, value in attributes.items()},
        **more,
    }


ASKED = {"messages": [{"role": "user", "content": "go"}], "tools": [{"type": "function"}]}
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "é"}'}}
ANSWERED = {"choices": [{"message": {"role": "assistant", "content": "on it", "tool_calls": [CALL]}}]}


def record(*assessments: JSON, **info: JSON) -> dict[str, Any]:
    spans = [span(ROOT, None, "AGENT", "task", "done"), span(CHILD, ROOT, "CHAT_MODEL", ASKED, ANSWERED)]
    return {
        "info": {"trace_id": "tr-1", "state": "OK", "assessments": list(assessments), **info},
        "data": {"spans": spans},
    }


def said(name: str, value: JSON, **more: JSON) -> dict[str, JSON]:
    return {
        "assessment_id": f"a-{name}-{value}",
        "assessment_name": name,
        "source": {"source_type": "HUMAN", "source_id": "ann"},
        "create_time": "2026-01-01T00:00:00Z",
        "feedback": {"value": value},
        "valid": True,
        **more,
    }


def test_spans_have_hex_ids_kinds_and_messages(options: ReadOptions) -> None:
    trace = read_trace(record(), "here", options)
    root, child = trace.spans
    assert (trace.trace_id, root.span_id, child.span_id, child.parent_id) == ("tr-1", ROOT_HEX, CHILD_HEX, ROOT_HEX)
    assert (root.kind, root.inputs, root.outputs) == (SpanKind.AGENT, "task", "done")
    assert child.kind is SpanKind.LLM
    assert child.inputs == ASKED
    (message,) = child.outputs["messages"]
    assert message["tool_calls"] == [{"id": "c1", "name": "search", "arguments": {"q": "é"}}]
    assert child.start == pytest.approx(1_796_047_845.614562)
    assert options.report.counts == {}


def test_an_error_is_told_by_its_last_exception(options: ReadOptions) -> None:
    event = {"name": "exception", "attributes": {"exception.type": "ValueError", "exception.message": "429"}}
    failed = span(ROOT, None, "TOOL", {}, None, events=[event], status={"code": "STATUS_CODE_ERROR", "message": "x"})
    trace = read_trace({"info": {"trace_id": "t"}, "data": {"spans": [failed]}}, "here", options)
    assert (trace.spans[0].status, trace.spans[0].error) == ("ERROR", "ValueError: 429")


def test_hex_ids_stay_as_they_are(options: ReadOptions) -> None:
    given = {"info": {"trace_id": "t"}, "data": {"spans": [span("0123456789ABCDEF", None, "TOOL", {}, None)]}}
    assert read_trace(given, "here", options).spans[0].span_id == "0123456789abcdef"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"info": {}, "data": {"spans": [{}]}}, "trace_id"),
        ({"info": {"trace_id": "t"}, "data": {"spans": []}}, "spans"),
        ({"info": {"trace_id": "t"}, "data": {}}, "not an MLflow trace"),
        ([], "not an MLflow trace"),
    ],
)
def test_what_is_no_trace(given: JSON, what: str, options: ReadOptions) -> None:
    with pytest.raises(TraceError, match=what):
        read_trace(given, "here", options)


def test_people_place_errors_and_give_scores(options: ReadOptions) -> None:
    about = {"dimensions": "plan_quality, logical_consistency", "impact": "HIGH", "evidence": "step 2"}
    row = read_row(
        record(
            said("gpa_error", "bad plan", span_id=CHILD_HEX, rationale="step 2 lacks its input", metadata=about),
            said("gpa_plan_quality", "0"),
            said("gpa_tool_calling", 3.0),
        ),
        "here",
        options,
    )
    (error,) = row.errors
    assert (error.span_id, error.dimensions) == (CHILD_HEX, ("plan_quality", "logical_consistency"))
    assert (error.category, error.impact, error.rater) == ("bad plan", Impact.HIGH, "ann")
    assert (error.description, error.evidence) == ("step 2 lacks its input", "step 2")
    assert {(score.dimension, score.score) for score in row.scores} == {("plan_quality", 0), ("tool_calling", 3)}
    assert row.group.startswith("goal ")
    assert row.clean == "checked"


def test_only_valid_words_of_people_count(options: ReadOptions) -> None:
    judge = {"source_type": "LLM_JUDGE", "source_id": "m"}
    row = read_row(
        record(
            said("gpa_plan_quality", "1", source=judge),
            said("gpa_error", "x", source=judge),
            said("gpa_plan_quality", "1", valid=False),
            said("other", "1"),
            said("gpa_quality", "1"),
        ),
        "here",
        options,
    )
    assert (row.errors, row.scores, row.clean) == ((), (), "unknown")


def test_a_rater_who_changes_their_mind_is_heard_last(options: ReadOptions) -> None:
    later = said("gpa_plan_quality", "3", last_update_time="2026-01-02T00:00:00Z")
    row = read_row(record(later, said("gpa_plan_quality", "1")), "here", options)
    assert [score.score for score in row.scores] == [3]
    assert row.errors == ()


def test_a_low_score_without_an_error_is_an_error_that_nobody_placed(options: ReadOptions) -> None:
    row = read_row(record(said("gpa_plan_quality", "1", rationale="no goal")), "here", options)
    (error,) = row.errors
    assert (error.span_id, error.dimensions, error.impact, error.description) == (
        None,
        ("plan_quality",),
        Impact.MEDIUM,
        "no goal",
    )
    assert not row.is_clean_of(["plan_quality"])


def test_none_says_that_people_looked(options: ReadOptions) -> None:
    row = read_row(record(said("gpa_error", "None")), "here", options)
    assert (row.errors, row.clean) == ((), "checked")
    assert row.is_clean


def test_a_score_says_nothing_of_other_dimensions(options: ReadOptions) -> None:
    for value, known in (("3", ["plan_quality"]), ("1", ["plan_quality"])):
        row = read_row(record(said("gpa_plan_quality", value)), "here", options)
        assert [name for name in DIMENSIONS if row.can_judge(name)] == known
        assert row.clean == "unknown"
        assert is_labelled(row)
        assert not row.is_clean
    marked = read_row(record(said("gpa_error", "Tool-related"), said("gpa_plan_quality", "3")), "here", options)
    assert marked.can_judge("tool_selection")
    assert not is_labelled(read_row(record(), "here", options))


@pytest.mark.parametrize("feedback", [{"value": None}, {"error": {"error_code": "X"}}, {"value": ""}, {"value": False}])
def test_an_error_without_a_category_is_not_the_word_of_a_person_who_looked(
    feedback: JSON, options: ReadOptions
) -> None:
    row = read_row(record(said("gpa_error", "", feedback=feedback)), "here", options)
    assert (row.errors, row.clean, is_labelled(row)) == ((), "unknown", False)
    assert options.report.counts == {"error without a category, left out": 1}


def test_what_is_not_understood_is_counted(options: ReadOptions) -> None:
    about = {"dimensions": "plan_quality,charm", "impact": "huge"}
    row = read_row(
        record(
            said("gpa_error", "x", span_id="ffffffffffffffff", metadata=about),
            said("gpa_error", "no such category"),
            said("gpa_tool_calling", "5"),
        ),
        "here",
        options,
    )
    assert [(error.span_id, error.dimensions, error.impact) for error in row.errors] == [
        (None, ("plan_quality",), Impact.MEDIUM),
        (None, (), Impact.MEDIUM),
    ]
    assert options.report.counts == {
        "dimension that is unknown, left out": 1,
        "label that names no span of its trace, kept without one": 1,
        "impact that is unknown, medium taken": 1,
        "category that the taxonomy does not have, so of no dimension": 1,
        "score that is none of 0-3": 1,
    }


def test_a_name_that_is_not_read_is_told_with_what_was_meant(options: ReadOptions) -> None:
    """Or a label that somebody gave is never missed."""
    row = read_row(record(said("gpa_eror", "wrong"), said("gpa_tone", "2"), said("mine", "x")), "here", options)
    assert row.clean == "unknown"
    kind = "person's feedback under a name that is not read"
    assert options.report.counts == {kind: 2}
    assert options.report.examples[kind][0].endswith("'gpa_eror' (did you mean 'gpa_error'?)")
    assert options.report.examples[kind][1].endswith("'gpa_tone'")


def test_another_prefix(options: ReadOptions) -> None:
    given = record(said("mine_error", "none"), said("gpa_plan_quality", "1"))
    assert read_row(given, "here", options, "mine_").scores == ()


@pytest.mark.parametrize(
    ("name", "spans", "hidden"),
    [("mlflow_langgraph_autolog", 11, {}), ("opencode_mlflow_SIMULATED", 7, {HIDDEN_ERROR: 1})],
)
def test_captured_traces(shared_data: Path, name: str, spans: int, hidden: dict[str, int]) -> None:
    path = shared_data / "formats" / "captured" / f"{name}.json"
    assert sniff(path) == "mlflow"
    dataset, report = read(path)
    (row,) = dataset
    assert len(row.trace.spans) == spans
    assert report.counts == hidden
    assert any(span.kind is SpanKind.LLM and "messages" in span.outputs for span in row.trace.spans)
