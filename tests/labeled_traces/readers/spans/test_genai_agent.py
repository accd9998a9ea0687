"""An agent that speaks nothing but the GenAI conventions, with its messages in attributes, events or log records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.render import render
from labeled_traces.readers import read
from labeled_traces.readers.mending.recover import ANSWER, ARGUMENTS, GOAL, RESULT
from labeled_traces.trace import JSON, Trace

TRACE = "ab" * 16
SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather in Paris?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "content": "rain", "id": "c1"}
SAYS = {"role": "assistant", "content": "Rain."}
EXCHANGES = [([SYSTEM, USER], ASKS), ([SYSTEM, USER, ASKS, TOLD], SAYS)]


def span(number: int, parent: int | None, name: str, attributes: JSON, events: JSON = ()) -> dict[str, JSON]:
    return {
        "name": name,
        "context": {"trace_id": f"0x{TRACE}", "span_id": f"0x{number:016x}"},
        "parent_id": None if parent is None else f"0x{parent:016x}",
        "start_time": 1_700_000_000 + number,
        "attributes": attributes,
        "events": list(events),
    }


def agent(models: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    about = {"gen_ai.agent.name": "guide", "gen_ai.agent.description": "Knows the sky.", "gen_ai.conversation.id": "s1"}
    run = {"gen_ai.operation.name": "invoke_agent", **about}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1"}
    return [span(1, None, "invoke_agent guide", run), models[0], span(3, 1, "execute_tool weather", tool), models[1]]


def chat(number: int, more: JSON = (), events: JSON = ()) -> dict[str, JSON]:
    plain = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 5}
    return span(number, 1, "chat m", {**plain, **dict(more)}, events)


def message_events(asked: JSON, given: JSON, as_json: bool) -> list[dict[str, JSON]]:
    events = [(f"gen_ai.{message['role']}.message", message) for message in asked]
    events.append(("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": given}))
    if as_json:
        return [{"name": name, "attributes": {"gen_ai.event.content": json.dumps(body)}} for name, body in events]
    return [{"name": name, "attributes": body} for name, body in events]


def part(message: JSON) -> JSON:
    """The message as the current conventions have it."""
    if message is ASKS:
        called = {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Paris"}}
        return {"role": "assistant", "parts": [called]}
    if message is TOLD:
        return {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "rain"}]}
    return {"role": message["role"], "parts": [{"type": "text", "content": message["content"]}]}


def whole(asked: JSON, given: JSON) -> dict[str, JSON]:
    sides = {"input": [part(m) for m in asked], "output": [part(given)]}
    return {f"gen_ai.{side}.messages": json.dumps(messages) for side, messages in sides.items()}


def records(form: str) -> list[dict[str, JSON]]:
    numbers = (2, 4)
    pairs = list(zip(numbers, EXCHANGES, strict=True))
    if form == "attributes":
        return agent([chat(number, whole(*said)) for number, said in pairs])
    if form in ("events", "events with JSON"):
        return agent([chat(n, (), message_events(*said, as_json=form != "events")) for n, said in pairs])
    if form == "one event":
        name = "gen_ai.client.inference.operation.details"
        return agent([chat(n, (), [{"name": name, "attributes": whole(*said)}]) for n, said in pairs])
    logs = [
        {
            "event_name": event["name"],
            "severity_number": 9,
            "body": event["attributes"],
            "trace_id": f"0x{TRACE}",
            "span_id": f"0x{number:016x}",
        }
        for number, said in pairs
        for event in message_events(*said, as_json=False)
    ]
    other = {"body": "true_answer: 42", "severity_number": 9, "trace_id": f"0x{TRACE}", "span_id": "0x1"}
    return [*logs, other, *agent([chat(number) for number in numbers])]


FORMS = ("attributes", "events", "events with JSON", "one event", "log records")


def check(trace: Trace) -> None:
    run, first, tool, last = trace.spans
    assert (run.name, str(run.kind), run.outputs) == ("guide", "AGENT", "Rain.")
    assert run.inputs == {"messages": [USER], "description": "Knows the sky."}
    assert [message["role"] for message in last.inputs["messages"]] == ["system", "user", "assistant", "tool"]
    assert first.outputs["messages"][0]["tool_calls"][0]["arguments"] == {"city": "Paris"}
    assert (tool.name, tool.inputs, tool.outputs) == ("weather", {"city": "Paris"}, "rain")
    assert first.attributes["llm.token_count"] == {"prompt": 5}


@pytest.mark.parametrize("form", FORMS)
def test_a_plain_genai_agent(tmp_path: Path, form: str) -> None:
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records(form)))
    (row,), report = read(path)
    check(row.trace)
    assert row.metadata["session"] == "s1"
    assert {GOAL: 1, ANSWER: 1, ARGUMENTS: 1, RESULT: 1}.items() <= report.counts.items()
    assert ("log record that is no message of a model, left out" in report.counts) == (form == "log records")
    assert "true_answer" not in render(row.trace, 100_000).text


def test_log_records_of_otlp_join_their_spans(tmp_path: Path) -> None:
    def value(given: JSON) -> JSON:
        if isinstance(given, dict):
            return {"kvlistValue": {"values": [{"key": key, "value": value(item)} for key, item in given.items()]}}
        if isinstance(given, list):
            return {"arrayValue": {"values": [value(item) for item in given]}}
        return {} if given is None else {"intValue": str(given)} if isinstance(given, int) else {"stringValue": given}

    def pairs(given: JSON) -> JSON:
        return [{"key": key, "value": value(item)} for key, item in given.items()]

    made = records("log records")
    logs = [
        {"traceId": TRACE, "spanId": one["span_id"][2:], "eventName": one["event_name"], "body": value(one["body"])}
        for one in made
        if "event_name" in one
    ]
    lost = {**logs[0], "spanId": "f" * 16}
    spans = [
        {
            "traceId": TRACE,
            "spanId": one["context"]["span_id"][2:],
            "parentSpanId": (one["parent_id"] or "0x")[2:],
            "name": one["name"],
            "startTimeUnixNano": str(one["start_time"] * 10**9),
            "attributes": pairs(one["attributes"]),
        }
        for one in made
        if "name" in one
    ]
    (tmp_path / "a_logs.json").write_text(
        json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [*logs, lost]}]}]})
    )
    (tmp_path / "b_spans.json").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    (row,), report = read(tmp_path)
    check(row.trace)
    assert report.counts["log record of a span that was not read, left out"] == 1
