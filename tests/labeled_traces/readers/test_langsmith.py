from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.readers import read, sniff
from labeled_traces.readers.labels.feedback import NO_CATEGORY
from labeled_traces.readers.labels.mlflow import NO_PERSON
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, TraceError


def run(run_id: str, parent: str | None, kind: str, second: int, trace: str = "t1", **more: JSON) -> dict[str, Any]:
    return {
        "id": run_id,
        "trace_id": trace,
        "parent_run_id": parent,
        "run_type": kind,
        "name": run_id,
        "start_time": f"2026-01-01T10:00:{second:02}.000000",
        "inputs": {},
        "outputs": None,
        "error": None,
        **more,
    }


def message(kind: str, content: str, **more: JSON) -> JSON:
    """As LangChain serialises it."""
    names = ["langchain", "schema", "messages", f"{kind.title() if kind != 'ai' else 'AI'}Message"]
    return {"lc": 1, "type": "constructor", "id": names, "kwargs": {"content": content, "type": kind, **more}}


def runs(trace: str = "t1") -> list[dict[str, Any]]:
    call = {"name": "look", "args": {"at": "tower"}, "id": "c1", "type": "tool_call"}
    asked = {"messages": [[message("system", "Be exact."), message("human", "How high?")]]}
    used = {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}
    answer = {"generations": [[{"text": "", "message": message("ai", "", tool_calls=[call], usage_metadata=used)}]]}
    schema = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    extra = {
        "invocation_params": {"model": "m-1", "tools": [schema]},
        "metadata": {"ls_model_name": "m-1-2026", "thread_id": "chat 7", "expected_answer": "secret"},
    }
    failed = {"error": "KeyError('tower')Traceback (most recent call last):\n  File x\nKeyError: 'tower'"}
    return [
        run(trace, None, "chain", 0, trace, inputs={"question": "How high?"}, outputs={"output": "330 m"}),
        run(f"{trace}-llm", trace, "llm", 1, trace, inputs=asked, outputs=answer, extra=extra),
        run(f"{trace}-tool", trace, "tool", 2, trace, inputs={"input": "{'at': 'tower'}"}, **failed),
    ]


def said(run_id: str, key: str, **more: JSON) -> dict[str, JSON]:
    return {
        "id": f"f-{run_id}-{key}",
        "run_id": run_id,
        "key": key,
        "score": None,
        "value": None,
        "feedback_source": {"type": "app", "user_id": "ann"},
        "created_at": "2026-01-02T00:00:00Z",
        **more,
    }


def imported(path: Path, value: JSON, **options: Any) -> tuple[Dataset, ReadReport]:
    path.write_text(json.dumps(value), encoding="utf-8")
    assert sniff(path) == "langsmith"
    return read(path, **options)


def nested() -> JSON:
    """As `client.read_run(load_child_runs=True)` gives it."""
    root, *children = runs()
    return {**root, "child_runs": [{**child, "parent_run_id": None} for child in children]}


def by_path() -> JSON:
    """Without parents: the path says where a run stands."""
    rows = [{**row, "parent_run_id": None, "trace_id": None} for row in runs()]
    for number, row in enumerate(rows):
        own = f"20260101T10000{number}000000Z{row['id']}"
        row["dotted_order"] = own if not number else f"20260101T100000000000Zt1.{own}"
    return rows


FORMS = {
    "runs": runs(),
    "children first": runs()[::-1],
    "the answer of the API": {"runs": runs(), "cursors": {}},
    "child runs": nested(),
    "dotted_order": by_path(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_trace_is_the_same_trace(tmp_path: Path, form: str) -> None:
    rows, report = imported(tmp_path / "a.json", FORMS[form])
    (row,) = rows
    root, llm, tool = row.trace.spans
    assert report.counts == {"Python repr": 1}
    assert (row.trace_id, root.kind, root.inputs, root.outputs) == ("t1", "AGENT", {"question": "How high?"}, "330 m")
    assert [message["content"] for message in llm.inputs["messages"]] == ["Be exact.", "How high?"]
    assert llm.inputs["tools"][0]["function"]["name"] == "look"
    assert llm.outputs["messages"][0]["tool_calls"] == [{"id": "c1", "name": "look", "arguments": {"at": "tower"}}]
    assert llm.attributes == {
        "llm.token_count": {"prompt": 12, "completion": 3, "total": 15},
        "llm.model_name": "m-1-2026",
    }
    assert (tool.kind, tool.inputs, tool.status, tool.error) == ("TOOL", {"at": "tower"}, "ERROR", "KeyError: 'tower'")
    assert (llm.start, tool.parent_id) == (1767261601.0, "t1")
    assert (row.metadata["session"], row.clean) == ("chat 7", "unknown")
    assert "secret" not in json.dumps([vars(span) for span in row.trace.spans])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            "ValueError('no')Traceback (most recent call last):\n  f()\nValueError: no\n\nDuring task 'x'",
            "ValueError: no",
        ),
        ("Late(1)Traceback (most recent call last):\n  File x\n\nagent.errors.Late: 1\n", "agent.errors.Late: 1"),
        ("NodeInterrupt()", "NodeInterrupt()"),
        ("went wrongTraceback (most recent call last):\n  File x\nOSError: y", "went wrong"),
        ("Traceback (most recent call last):\n  File x\nOSError: y", "OSError: y"),
        ("", "unknown error"),
    ],
)
def test_an_error_is_told_without_its_stack(tmp_path: Path, error: str, told: str) -> None:
    failed = run("t", None, "tool", 0, "t", inputs={"a": 1}, error=error, status="error")
    (row,), _ = imported(tmp_path / "a.json", [failed])
    assert row.trace.spans[0].error == told


def test_runs_of_several_traces_stand_among_each_other(tmp_path: Path) -> None:
    mixed = [row for pair in zip(runs(), runs("t2"), strict=True) for row in pair]
    rows, _ = imported(tmp_path / "a.json", mixed)
    assert [(row.trace_id, len(row.trace.spans)) for row in rows] == [("t1", 3), ("t2", 3)]
    assert rows["t1"].trace.content_hash != rows["t2"].trace.content_hash  # names hold the ids here


def test_what_people_said_is_a_label_and_what_evaluators_said_is_not(tmp_path: Path) -> None:
    given = [
        said("t1", "gpa_tool_calling", score=2, comment="once"),
        said("t1-llm", "gpa_error", value="Tool Selection Errors", comment="why"),
        said("t1", "kind", value="Goal Deviation", feedback_source={"type": "app", "user_id": "bob"}),
        said("t1-tool", "Resource Abuse", score=1.0),
        said("t1", "Formatting Errors", score=0),
        said("t1", "gpa_plan_quality", score=0, feedback_source={"type": "model"}),
        said("t1", "gpa_plan_adherence", score=0, feedback_source={"type": "api"}),
        said("t1", "helpful", score=1, correction={"output": "324 m, as a gold answer says"}),
    ]
    labels = tmp_path / "feedback.json"
    labels.write_text(json.dumps(given), encoding="utf-8")
    rows, report = imported(tmp_path / "a.json", runs(), labels=labels)
    row = rows["t1"]
    assert [(label.dimension, label.score, label.rater) for label in row.scores] == [("tool_calling", 2, "ann")]
    assert {(error.category, error.span_id, error.rater) for error in row.errors if error.category != "not placed"} == {
        ("Tool Selection Errors", "t1-llm", "ann"),
        ("Goal Deviation", None, "bob"),
        ("Resource Abuse", "t1-tool", "ann"),
    }
    assert row.reference == "324 m, as a gold answer says"
    assert report.stripped["feedback.correction"] == 1
    assert (report.counts[NO_PERSON], report.counts[NO_CATEGORY]) == (2, 1)
    inside = [{**one, "feedback": [item for item in given if item["run_id"] == one["id"]]} for one in runs()]
    again, _ = imported(tmp_path / "b.json", inside)
    assert again["t1"].errors == row.errors
    assert again["t1"].scores == row.scores


def test_feedback_on_a_run_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    labels = tmp_path / "feedback.json"
    labels.write_text(json.dumps([said("t9", "gpa_error", value="none")]), encoding="utf-8")
    with pytest.raises(TraceError, match="labels of 't9', which is no trace that was read"):
        imported(tmp_path / "a.json", runs(), labels=labels)
    rows, _ = imported(tmp_path / "a.json", runs(), labels=labels, allow_missing=True)
    assert rows.ids == ("t1",)


def test_agents_below_agents_and_states_that_say_nothing_new(tmp_path: Path) -> None:
    user = {"content": "Find x.", "type": "human", "id": "m1"}
    found = {"content": "x is 3", "type": "ai", "id": "m2", "tool_calls": []}
    asked = {"messages": [[message("human", "Find x.")]]}
    answer = {"generations": [[{"text": "x is 3", "message": message("ai", "x is 3")}]]}
    state = {"messages": [user, found]}
    command: JSON = {"output": [{"graph": None, "update": {"messages": [found]}, "resume": None, "goto": []}]}
    rows, _ = imported(
        tmp_path / "a.json",
        [
            run("t1", None, "chain", 0, inputs={"messages": [["user", "Find x."]]}, outputs=state),
            run("sub", "t1", "chain", 1, extra={"metadata": {"lc_agent_name": "sub"}}, inputs={"messages": [user]}),
            run("node", "sub", "chain", 2, inputs={"messages": [user], "left": 3}, outputs=command),
            run("llm", "node", "llm", 3, inputs=asked, outputs=answer),
        ],
    )
    root, sub, node, _ = rows["t1"].trace.spans
    assert (root.kind, sub.kind, node.kind) == ("CHAIN", "AGENT", "CHAIN")
    assert root.outputs == {"messages": [{"role": "assistant", "content": "x is 3"}]}
    assert sub.outputs == "x is 3"
    assert (node.inputs, node.outputs) == ({"left": 3}, None)


def test_other_records_say_what_would_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(runs()[0]) + "\n" + json.dumps({"id": "x"}) + "\n", encoding="utf-8")
    rows, report = read(path)
    assert len(rows) == 1
    assert "accepted is {id, trace_id, run_type, inputs, outputs}" in report.lines()[0]
