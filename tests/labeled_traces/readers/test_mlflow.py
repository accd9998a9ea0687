from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labeled_traces.label import DIMENSIONS, Impact
from labeled_traces.readers import read
from labeled_traces.readers.labels.mlflow import is_labelled
from labeled_traces.readers.mending.hidden_errors import KIND as HIDDEN_ERROR
from labeled_traces.readers.mlflow import read_row, read_trace
from labeled_traces.readers.report import ReadOptions
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError

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
    assert options.report.counts["feedback that no person gave, not read as a label"] == 2


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
    assert options.report.counts == {kind: 2, "person's feedback under a name without 'gpa_', not read": 1}
    assert options.report.examples[kind][0].endswith("'gpa_eror' (did you mean `gpa_error`?)")
    assert options.report.examples[kind][1].endswith("'gpa_tone'")


def test_another_prefix(options: ReadOptions) -> None:
    given = record(said("mine_error", "none"), said("gpa_plan_quality", "1"))
    assert read_row(given, "here", options, "mine_").scores == ()


def test_all_raters_are_heard_by_name_and_time(options: ReadOptions) -> None:
    def by(rater: str, value: str, day: int, **more: JSON) -> dict[str, JSON]:
        source = {"source_type": "HUMAN", "source_id": rater}
        return said("gpa_error", value, source=source, create_time=f"2026-01-0{day}T00:00:00Z", **more)

    old = {**by("cem", "x", 1, rationale="old"), "assessment_id": "first"}
    row = read_row(
        record(
            by("ann", "x", 2, span_id=CHILD_HEX),
            by("ben", "none", 3),
            by("cem", "x", 4, overrides="first", rationale="new"),
            old,
            said("gpa_plan_quality", "2", source={"source_type": "HUMAN", "source_id": "dia"}),
        ),
        "here",
        options,
    )
    jan_2 = 1_767_312_000.0
    assert [(e.rater, e.span_id, e.description, e.time) for e in row.errors if e.category == "x"] == [
        ("ann", CHILD_HEX, "", jan_2),
        ("cem", None, "new", jan_2 + 2 * 86_400),
    ]
    assert row.raters == ("ann", "ben", "cem"), "who gives a score alone may not have read it all"
    assert [(score.rater, score.time) for score in row.scores] == [("dia", jan_2 - 86_400)]


def test_where_only_text_can_be_typed_it_says_where_and_how_bad(options: ReadOptions) -> None:
    row = read_row(
        record(
            said("gpa_error", "x", rationale=f"[{CHILD_HEX.upper()}] [High] wrong total"),
            said("gpa_error", "y", rationale="[low] slow"),
            said("gpa_error", "z", rationale="[sic] high costs"),
        ),
        "here",
        options,
    )
    assert [(e.span_id, e.impact, e.description) for e in row.errors] == [
        (CHILD_HEX, Impact.HIGH, "wrong total"),
        (None, Impact.LOW, "slow"),
        (None, Impact.MEDIUM, "[sic] high costs"),
    ]


def test_what_was_expected_is_kept_from_the_judges(options: ReadOptions) -> None:
    expected = {**said("expected_response", None), "expectation": {"value": "42"}}
    del expected["feedback"]
    given = record(expected, trace_metadata={"mlflow.trace.session": "s1"})
    row = read_row(given, "here", options)
    assert (row.reference, row.metadata) == ("42", {"session": "s1"})
    assert options.report.stripped == {"info.assessments.expected_response": 1}


def by_name(trace: Trace, name: str) -> list[Span]:
    return [span for span in trace.spans if span.name == name]


def test_langgraph_as_mlflow_logs_it(shared_data: Path) -> None:
    (row,), report = read(shared_data / "formats" / "captured" / "mlflow_langgraph_autolog.json")
    (root,) = row.trace.roots
    assert (root.kind, root.inputs) == (SpanKind.AGENT, "How long is the equator? 🌍")
    assert (root.status, root.error) == ("ERROR", "ValueError: HTTP 429 rate limited ☃")
    first, second = by_name(row.trace, "M")
    assert first.inputs["tools"] == ["search", "calc"]
    assert first.inputs["messages"][0] == {"role": "system", "content": "You are a careful agent."}
    assert [call["name"] for call in second.outputs["messages"][0]["tool_calls"]] == ["search", "calc"]
    found, failed = by_name(row.trace, "search")
    assert (found.inputs, failed.status) == ({"query": "circumference 圆周 🌍"}, "ERROR")
    assert found.outputs["results"][0]["url"] == "http://x/"
    assert [span.outputs for span in by_name(row.trace, "calc")] == ["40030.13978"]
    assert report.lines() == []


def test_opencode_as_its_plugin_logs_it(shared_data: Path) -> None:
    (row,), report = read(shared_data / "formats" / "captured" / "opencode_mlflow_SIMULATED.json")
    (root,) = row.trace.roots
    assert (root.inputs, root.outputs) == ("Fix the failing test in utils.py 🐛", "Fixed; all tests pass.")
    asked = by_name(row.trace, "llm_call")
    assert [span.attributes["llm.token_count"]["total"] for span in asked] == [1240, 1520]
    assert {span.attributes["llm.model_name"] for span in asked} == {"anthropic/claude-x"}
    tools = [span for span in row.trace.spans if span.kind is SpanKind.TOOL]
    assert [span.name for span in tools] == ["bash", "read", "edit", "edit"]
    failed, running = tools[2:]
    assert (failed.status, failed.outputs) == ("ERROR", {"error": "oldString not found in content"})
    assert (running.status, running.outputs) == ("OK", {"status": "running"})
    assert report.counts == {HIDDEN_ERROR: 1}


def test_a_span_that_came_over_otlp_is_read_by_its_own_attributes(options: ReadOptions) -> None:
    """MLflow keeps them, and knows less of them than we do. A text that is JSON stays the text that was sent."""
    raw = {
        "openinference.span.kind": json.dumps("LLM"),
        "llm.input_messages.0.message.role": json.dumps("user"),
        "llm.input_messages.0.message.content": '{"a": 1}',
        "llm.output_messages.0.message.role": json.dumps("assistant"),
        "llm.output_messages.0.message.content": "42",
        "mlflow.spanType": json.dumps("UNKNOWN"),
        "mlflow.spanOutputs": json.dumps({"generations": []}),
    }
    given = span(CHILD, None, "LLM", None, None, attributes=raw)
    (sent,) = read_trace({"info": {"trace_id": "t"}, "data": {"spans": [given]}}, "here", options).spans
    assert (sent.kind, sent.span_id) == (SpanKind.LLM, CHILD_HEX)
    assert sent.inputs == {"messages": [{"role": "user", "content": '{"a": 1}'}]}
    assert sent.outputs == {"messages": [{"role": "assistant", "content": "42"}]}


@pytest.mark.parametrize(
    ("inputs", "roles"),
    [
        ({"system": "be brief", "messages": [{"role": "user", "content": "hi"}]}, ["system", "user"]),
        ({"instructions": "be brief", "input": "hi"}, ["system", "user"]),
        ([[{"type": "human", "content": "hi"}]], ["user"]),
    ],
)
def test_prompts_as_providers_take_them(inputs: JSON, roles: list[str], options: ReadOptions) -> None:
    given = span(CHILD, None, "LLM", inputs, {"generations": [[{"message": {"type": "ai", "content": "hello"}}]]})
    (asked,) = read_trace({"info": {"trace_id": "t"}, "data": {"spans": [given]}}, "here", options).spans
    assert [message["role"] for message in asked.inputs["messages"]] == roles
    assert asked.outputs == {"messages": [{"role": "assistant", "content": "hello"}]}


def test_assessments_that_are_none(options: ReadOptions) -> None:
    with pytest.raises(TraceError, match=r"here, info.assessments: accepted is a list"):
        read_row(record("x"), "here", options)


def test_an_assessment_that_says_nothing_is_counted(options: ReadOptions) -> None:
    row = {key: value for key, value in said("gpa_error", "Goal Deviation").items() if key != "feedback"}
    read_row(record(row), "here", options)
    assert options.report.counts["assessment without feedback, expectation or issue, not read"] == 1
