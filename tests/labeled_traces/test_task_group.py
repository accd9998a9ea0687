from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.readers import read
from labeled_traces.task_group import task_group
from labeled_traces.trace import JSON, Span, SpanKind, Trace

TEXT = "Find the  tallest peak.\n"
GOAL = task_group(Trace("t", (Span("a", None, "x", inputs=TEXT),)))


def group(*spans: Span) -> str:
    return task_group(Trace("t", spans))


@pytest.mark.parametrize(
    "inputs",
    [
        "find the tallest peak.",
        "[2026-01-05T10:11:12.123Z] find the\ttallest peak.",
        "[run 00001eef] Find the tallest peak.",
        "Run ID: 7f3a9c12-aa01-4b5e find the tallest peak.",
        "find the 1735689600 tallest peak.",
        "Monday, January 5, 2026 at 10:15 AM Find the tallest peak.",
        "find the tallest peak. at 0x7f3a9c12aa",
        {"task": TEXT, "run_id": "7f", "parentRunId": "8a", "timestamp": 3.5},
        {"messages": [{"role": "user", "content": TEXT, "id": "run-7f"}]},
        {"messages": [["user", TEXT]]},
        [[{"type": "human", "content": TEXT, "additional_kwargs": {}}]],
        json.dumps({"input": {"messages": [{"role": "user", "content": TEXT}]}}),
    ],
)
def test_one_goal_is_one_group_however_it_is_written(inputs: JSON) -> None:
    assert GOAL.startswith("goal ")
    assert group(Span("a", None, "x", SpanKind.CHAIN, inputs=inputs)) == GOAL
    assert group(Span("r", None, "wrapper"), Span("a", "r", "x", SpanKind.AGENT, inputs=inputs)) == GOAL


def test_what_a_model_was_asked_where_no_outer_span_has_a_goal() -> None:
    chat = {"messages": [{"role": "user", "content": TEXT}], "tools": [{"name": "search"}]}
    spans = [Span("r", None, "wrapper", inputs={"n": 3}), Span("a", "r", "model", SpanKind.LLM, inputs=chat)]
    assert group(*spans) == GOAL


@pytest.mark.parametrize(
    "form",
    [
        {"messages": [{"role": "user", "content": "continue"}], "state": {"doc": "contract X"}},
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "ai", "content": "?"}, ["user", "task X"]]},
        {"messages": [["system", "s"], ["user", "Example: 2+2"], ["assistant", "4"], ["user", "real X"]]},
        {"prompt": "Handle the ticket below.", "ticket": "printer X is broken"},
        {"text": "summarise", "document": "document X"},
        {"task": "qa", "question": "what is X?"},
        {"request": "POST /chat", "input": "what is X?"},
        {"task_id": "run_agent", "question": "what is X?"},
        {"task_id": False, "question": "what is X?"},
        {"question": "what is X?", "config": {"task_id": 7, "queue": {"task_id": 7}}},
        {"action": "refund", "order_id": "X"},
        "Refund the order 550e8400-e29b-41d4-a716-44665544000X",
    ],
)
def test_tasks_with_one_part_in_common_are_other_groups(form: JSON) -> None:
    inputs = [json.loads(json.dumps(form).replace("X", name)) for name in ("1", "2")]
    assert len({group(Span("a", None, "x", SpanKind.AGENT, inputs=given)) for given in inputs}) == 2


def test_other_goals_are_other_groups_and_nothing_is_no_group() -> None:
    found = {
        group(Span("a", None, "x", inputs=given)) for given in (TEXT, "Find the deepest lake.", {"n": 1}, {"n": 2})
    }
    assert len(found) == 4
    assert group(Span("a", None, "x")) == group(Span("a", None, "x", inputs=" \n")) == ""


def test_a_named_task_is_the_group() -> None:
    for inputs in ({"task_id": "t-1", "question": "a"}, {"example": {"question": "b", "task_id": "t-1"}}):
        assert group(Span("a", None, "x", inputs=inputs)) == "task t-1"
    inner = Span("b", "a", "x", SpanKind.AGENT, inputs={"task_id": "of a single run"})
    assert group(Span("a", None, "x", inputs=TEXT), inner) == GOAL


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"input.value": TEXT}, GOAL),
        ({"input.value": TEXT, "session.id": "s-1"}, GOAL),
        ({"input.value": TEXT, "metadata": '{"instance_id": "repo-7"}'}, "task repo-7"),
        ({"input.value": TEXT, "metadata": {"task_id": 0}}, "task 0"),
        ({"input.value": TEXT, "instance_id": "repo-7"}, "task repo-7"),
        ({"input.value": json.dumps({"task": TEXT})}, GOAL),
    ],
)
def test_openinference_rows_have_a_group(tmp_path: Path, attributes: JSON, expected: str) -> None:
    span = {"name": "x", "trace_id": "ab", "span_id": "cd", "attributes": attributes}
    (tmp_path / "a.json").write_text(json.dumps(span))
    (row,), _ = read(tmp_path / "a.json")
    assert row.group == expected


def test_mlflow_rows_have_a_group(tmp_path: Path) -> None:
    for trace_id, inputs in (("a", TEXT), ("b", {"question": TEXT.upper()})):
        span = {"span_id": "1" * 16, "attributes": {"mlflow.spanInputs": json.dumps(inputs)}}
        record = {"info": {"trace_id": trace_id}, "data": {"spans": [span]}}
        (tmp_path / f"{trace_id}.json").write_text(json.dumps(record))
    data, _ = read(tmp_path)
    assert [row.group for row in data] == [GOAL, GOAL]
