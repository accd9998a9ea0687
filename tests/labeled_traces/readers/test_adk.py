from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.readers import read, sniff
from labeled_traces.readers.adk import NO_CASE, NO_RUN
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, TraceError


def event(number: int, author: str, *parts: JSON, **more: JSON) -> dict[str, Any]:
    role = "user" if author == "user" else "model"
    return {
        "id": f"e{number}",
        "invocation_id": "i1",
        "author": author,
        "timestamp": 1767261600.0 + number,
        "content": {"role": role, "parts": list(parts)},
        **more,
    }


def call(name: str, call_id: str | None = None, **arguments: JSON) -> JSON:
    return {"function_call": {"id": call_id, "name": name, "args": arguments}}


def result(name: str, response: JSON, call_id: str | None = None) -> JSON:
    return {"function_response": {"id": call_id, "name": name, "response": response}}


def session(*events: JSON) -> dict[str, JSON]:
    return {"id": "s1", "app_name": "shop", "user_id": "u", "state": {}, "events": list(events)}


def imported(path: Path, value: JSON) -> tuple[Dataset, ReadReport]:
    path.write_text(json.dumps(value), encoding="utf-8")
    assert sniff(path) == "adk"
    return read(path)


def test_a_session_of_two_agents(tmp_path: Path) -> None:
    usage = {"prompt_token_count": 7, "candidates_token_count": 2, "total_token_count": 9}
    rows, report = imported(
        tmp_path / "a.json",
        session(
            event(0, "user", {"text": "Where is order 4?"}),
            event(1, "triage", call("transfer_to_agent", "c1", agent_name="orders")),
            event(2, "triage", result("transfer_to_agent", None, "c1")),
            event(3, "orders", {"text": "half"}, partial=True),
            event(4, "orders", call("find", None, id=4), call("find", None, id=5), usage_metadata=usage),
            event(5, "orders", result("find", {"status": "error"}), result("find", {"at": "sea"})),
            event(6, "orders", {"text": "I think", "thought": True}, {"text": "At sea."}),
            event(7, "orders", error_code="429", error_message="too many", content=None),
            event(8, "orders", actions={"state_delta": {"plan": ["a"]}}, content=None),
            event(9, "user", {"text": "Thanks", "inline_data": None}, {"inline_data": {"mime_type": "image/png"}}),
        ),
    )
    trace = rows["s1"].trace
    root, orders = trace.by_id["session"], trace.by_id["i1/orders"]
    assert (root.name, root.kind, root.inputs) == ("triage", "AGENT", "Where is order 4?")
    assert (orders.kind, orders.parent_id, orders.inputs) == ("AGENT", "session", "Where is order 4?")
    found = [trace.by_id["e4-call-0"], trace.by_id["e4-call-1"]]
    assert [(span.inputs, span.outputs, span.status) for span in found] == [
        ({"id": 4}, {"status": "error"}, "ERROR"),
        ({"id": 5}, {"at": "sea"}, "UNSET"),
    ]
    assert trace.by_id["e4"].attributes["llm.token_count"] == {"prompt": 7, "completion": 2, "total": 9}
    assert [message["content"] for message in trace.by_id["e6"].outputs["messages"]] == [
        "[reasoning]\nI think",
        "At sea.",
    ]
    assert (trace.by_id["e7"].status, trace.by_id["e7"].error) == ("ERROR", "429: too many")
    assert trace.by_id["e8"].outputs == {"plan": ["a"]}
    assert trace.by_id["session-user"].inputs["messages"][0]["content"] == "Thanks\n[inline_data: image/png]"
    assert report.counts["part of a streamed answer, left out: the whole follows"] == 1
    assert rows["s1"].metadata["session"] == "s1"


def test_camel_case_is_the_same(tmp_path: Path) -> None:
    plain = session(
        event(0, "user", {"text": "hi"}), event(1, "a", call("f", "c", x=1)), event(2, "a", result("f", 3, "c"))
    )
    text = json.dumps(plain)
    for snake, camel in (("app_name", "appName"), ("invocation_id", "invocationId"), ("function_call", "functionCall")):
        text = text.replace(snake, camel)
    rows, _ = imported(tmp_path / "a.json", json.loads(text.replace("function_response", "functionResponse")))
    assert rows["s1"].trace == imported(tmp_path / "b.json", plain)[0]["s1"].trace


def test_a_result_without_its_call(tmp_path: Path) -> None:
    rows, report = imported(tmp_path / "a.json", session(event(0, "a", result("f", {"x": 1}, "c"))))
    assert rows["s1"].trace.by_id["c"].outputs == {"x": 1}
    assert report.counts["tool result without its call"] == 1


def test_an_evaluation_set(tmp_path: Path) -> None:
    turn = {
        "invocation_id": "i1",
        "user_content": {"role": "user", "parts": [{"text": "go"}]},
        "final_response": {"role": "model", "parts": [{"text": "gone"}]},
        "intermediate_data": {
            "tool_uses": [{"id": "c", "name": "walk", "args": {"to": "x"}}],
            "tool_responses": [{"id": "c", "name": "walk", "response": {"ok": 1}}],
            "intermediate_responses": [["helper", [{"text": "on my way"}]]],
        },
    }
    case = {"eval_id": "one", "conversation": [turn], "rubrics": ["must walk"], "final_session_state": {}}
    rows, report = imported(tmp_path / "a.json", {"eval_set_id": "set", "eval_cases": [case, {"eval_id": "two"}]})
    row = rows["set:one"]
    assert [(span.kind, span.name) for span in row.trace.spans] == [
        ("AGENT", "agent"),
        ("CHAIN", "user"),
        ("TOOL", "walk"),
        ("AGENT", "helper"),
        ("LLM", "helper"),
        ("LLM", "agent"),
    ]
    assert row.trace.by_id["c"].outputs == {"ok": 1}
    assert (row.clean, row.group, row.trace.spans[0].outputs) == ("unknown", "task one", "gone")
    assert report.counts[NO_RUN] == 1
    assert report.stripped["eval_cases.rubrics"] == 1
    assert "eval_cases[1]: holds no recorded conversation" in "\n".join(report.lines())


def test_an_evaluation_set_without_cases_is_told(tmp_path: Path) -> None:
    case = {"eval_id": "e", "conversation": [{"user_content": {"parts": [{"text": "go"}]}}]}
    sets = [{"eval_set_id": "a", "eval_cases": []}, {"eval_set_id": "b", "eval_cases": [case]}]
    rows, report = imported(tmp_path / "a.json", sets)
    assert (rows.ids, report.counts[NO_CASE]) == (("b:e",), 1)


def test_a_session_without_events_says_what_would_be_read(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="accepted is a session with an id and at least one event"):
        imported(tmp_path / "a.json", session())


@pytest.mark.parametrize("given", [3, [3], ["helper"], {"a": 1}])
def test_what_is_no_pair_and_no_count_is_passed_over(tmp_path: Path, given: JSON) -> None:
    parts: JSON = {"parts": [{"text": "go"}]}
    turn = {"user_content": parts, "intermediate_data": {"intermediate_responses": given, "tool_uses": True}}
    case = {"eval_id": "e", "conversation": [turn]}
    rows, _ = imported(tmp_path / "a.json", {"eval_set_id": "s", "eval_cases": [case]})
    assert [span.name for span in rows["s:e"].trace.spans] == ["agent", "user"]
    said = event(0, "a", {"text": "hi"}, usage_metadata={"prompt_token_count": float("inf"), "total_token_count": 3})
    rows, _ = imported(tmp_path / "b.json", session(said))
    assert rows["s1"].trace.by_id["e0"].attributes["llm.token_count"] == {"total": 3}
