from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.readers import read
from labeled_traces.readers.groups import task_group
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
        {"task": TEXT, "run_id": "7f"},
        {"args": [], "example": {"question": TEXT, "level": 2}},
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": TEXT}]},
        {"messages": [["user", TEXT], ["ai", "hm"]]},
        {"messages": [{"type": "human", "content": TEXT}, {"type": "ai", "content": "hm"}]},
        [[{"type": "human", "content": TEXT}]],
        {"input": {"messages": [{"role": "user", "content": TEXT}, {"role": "user", "content": "and then?"}]}},
    ],
)
def test_one_goal_is_one_group_however_it_is_written(inputs: JSON) -> None:
    assert GOAL.startswith("goal ")
    assert group(Span("a", None, "x", SpanKind.CHAIN, inputs=inputs)) == GOAL
    assert group(Span("r", None, "wrapper"), Span("a", "r", "x", SpanKind.AGENT, inputs=inputs)) == GOAL


def test_the_first_message_of_a_user_where_no_outer_span_has_a_goal() -> None:
    chat = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": TEXT}]}
    spans = [Span("r", None, "wrapper", inputs={"n": 3}), Span("a", "r", "model", SpanKind.LLM, inputs=chat)]
    assert group(*spans) == GOAL


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
