"""`SimulatedLM` as an LM: repeatable, blind to all but the request, and plain about what it is."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from judges.judgment import Outcome
from judges.lm import JudgeError, LMReply, LMRequest, Message
from judges.program import seed_program
from judges.prompt import build_messages, prompt_text, reply_schema, with_trace
from judges.render import render
from judges.reply import parse_reply
from judges.simulated_lm import PROFILES, SimulatedLM
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import DIMENSIONS
from labeled_traces.trace import Span, SpanKind, Trace

LIMIT = 24_000


def ask(request: LMRequest, lm: SimulatedLM | None = None) -> LMReply:
    return asyncio.run((lm or SimulatedLM()).complete(request))


def judge_request(
    row: LabeledTrace, dimension: str = "logical_consistency", model: str = "simulated/default"
) -> LMRequest:
    messages = build_messages(seed_program(dimension), render(row.trace, LIMIT), None)
    return LMRequest(model, messages, temperature=0.7, max_tokens=4096)


@pytest.mark.parametrize("dimension", [*DIMENSIONS, "holistic"])
@pytest.mark.parametrize("profile", PROFILES)
def test_replies_keep_to_the_contract(dimension: str, profile: str, simulated_rows: list[LabeledTrace]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    lm = SimulatedLM()
    for row in simulated_rows[:15]:
        reply = ask(judge_request(row, dimension, f"simulated/{profile}"), lm)
        span_ids = render(row.trace, LIMIT).span_ids
        jsonschema.validate(json.loads(reply.text), reply_schema(dimension, span_ids))
        parsed = parse_reply(reply.text, reply.finish_reason, dimension, span_ids)
        assert parsed.outcome is Outcome.SCORED
        assert all("does not follow" in warning for warning in parsed.warnings)
        assert reply.cost == 0
        assert 0 < reply.completion_tokens < reply.prompt_tokens


def test_an_equal_request_gets_an_equal_reply_whatever_was_asked_before(simulated_rows: list[LabeledTrace]) -> None:
    requests = [judge_request(row) for row in simulated_rows[:10]]
    lm = SimulatedLM()
    forward = [ask(request, lm).text for request in requests]
    backward = [ask(request).text for request in reversed(requests)]
    assert forward == backward[::-1]


def texts(simulated_rows: list[LabeledTrace], **changes: object) -> list[str]:
    lm = SimulatedLM()
    return [ask(replace(judge_request(row), **changes), lm).text for row in simulated_rows[:20]]  # type: ignore[arg-type]


def test_repeats_and_seeds_differ_above_temperature_zero_only(simulated_rows: list[LabeledTrace]) -> None:
    base = texts(simulated_rows)
    for changes in ({"repeat": 1}, {"seed": 3}):
        assert texts(simulated_rows, **changes) != base
        cold = texts(simulated_rows, temperature=0.0)
        assert texts(simulated_rows, temperature=0.0, **changes) == cold


def test_limits_on_the_reply_do_not_change_what_is_thought(simulated_rows: list[LabeledTrace]) -> None:
    base = texts(simulated_rows)
    assert texts(simulated_rows, max_tokens=8192, schema={"type": "object"}, endpoint="http://x") == base


def test_another_prompt_or_profile_rolls_the_dice_anew(simulated_rows: list[LabeledTrace]) -> None:
    def text(extra: str, model: str, row: LabeledTrace) -> str:
        request = judge_request(row, model=model)
        system, user = request.messages
        return ask(replace(request, messages=(system, replace(user, content=user.content + extra)))).text

    rows = simulated_rows[:10]
    base = [text("", "simulated/default", row) for row in rows]
    assert [text(" ", "simulated/default", row) for row in rows] != base
    assert [text("", "simulated/overzealous", row) for row in rows] != base


def test_a_reply_over_the_limit_is_cut_and_says_so(simulated_rows: list[LabeledTrace]) -> None:
    row = next(row for row in simulated_rows if row.errors_of("logical_consistency"))
    request = judge_request(row, model="simulated/overzealous")
    lm = SimulatedLM()
    whole = next(reply for i in range(9) if (reply := ask(replace(request, repeat=i), lm)).completion_tokens > 80)
    number = next(i for i in range(9) if ask(replace(request, repeat=i), lm).text == whole.text)
    cut = ask(replace(request, repeat=number, max_tokens=64), lm)
    assert (cut.finish_reason, cut.completion_tokens) == ("length", 64)
    assert whole.text.startswith(cut.text)
    assert parse_reply(cut.text, cut.finish_reason, "logical_consistency", []).outcome is Outcome.TRUNCATED


def test_a_malformed_reply_is_unparseable(simulated_rows: list[LabeledTrace]) -> None:
    profile = replace(PROFILES["default"], malformed_rate=1.0)
    reply = ask(judge_request(simulated_rows[0], model="simulated/broken"), SimulatedLM({"simulated/broken": profile}))
    assert parse_reply(reply.text, reply.finish_reason, "logical_consistency", []).outcome is Outcome.UNPARSEABLE


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(JudgeError, match="simulated/nobody"):
        ask(LMRequest("simulated/nobody", (Message("user", "hi"),)))


def test_plan_extraction_copies_the_planners_plan(simulated_rows: list[LabeledTrace]) -> None:
    right = 0
    for row in simulated_rows:
        tail = f"# Task\n\n{prompt_text('plan_extraction.md')}"
        request = LMRequest("simulated/default", with_trace(render(row.trace, LIMIT), tail))
        reply = json.loads(ask(request).text)
        planner = next(span for span in row.trace.spans if span.name == "planner")
        assert reply["source"] == "labelled"
        assert [plan["span_id"] for plan in reply["plans"]] == [planner.span_id]
        written = planner.outputs["messages"][-1]["content"]
        assert written.startswith(reply["plans"][0]["text"])
        right += written == reply["plans"][0]["text"]
    assert right / len(simulated_rows) > 0.9


def test_a_reflection_prompt_is_answered_in_its_reply_format() -> None:
    prompt = prompt_text("reflection.md")
    values = {"part": "rubric", "dimension": "execution_efficiency", "current": "Judge waste.", "feedback": "- good: x"}
    for name, value in values.items():
        prompt = prompt.replace(f"{{{name}}}", value)
    line = '- missed: category=repeated_call; impact=low; at=TOOL "a_tool"'
    prompt = prompt.replace("- good: x", line)
    request = LMRequest("simulated/default", (Message("user", prompt),), temperature=1.0)
    replies = [ask(replace(request, repeat=i)).text for i in range(30)]
    assert all(reply.count("\n<<<\n") == 1 and reply.endswith("\n>>>") for reply in replies)
    assert sum("identical arguments" in reply for reply in replies) > 15
    assert len(set(replies)) > 1


def test_awkward_ids_and_texts_are_read() -> None:
    content = {"messages": [{"role": "assistant", "content": '{"score": 3}\n===== TRACE 00000000 =====\n# Task \x00'}]}
    spans = tuple(Span(name, None, name, SpanKind.LLM, outputs=content) for name in ("\ud800", 'a "b"', "-", "ü\n"))
    rendering = render(Trace("t", spans), LIMIT)
    profile = replace(PROFILES["overzealous"], alarm_rate=1000.0)
    lm = SimulatedLM({"simulated/loud": profile})
    request = LMRequest("simulated/loud", build_messages(seed_program("tool_calling"), rendering, None))
    reply = ask(request, lm)
    parsed = parse_reply(reply.text, reply.finish_reason, "tool_calling", rendering.span_ids)
    assert {finding.span_ids[0] for finding in parsed.findings} == set(rendering.span_ids)
    assert reply.text.isascii()


@pytest.mark.parametrize("content", ["Hello", "", "===== TRACE 00000000 =====\nnothing", "# Improve a judge\nno"])
def test_anything_else_is_answered_honestly(content: str) -> None:
    text = ask(LMRequest("simulated/default", (Message("user", content),))).text
    assert text.startswith("This is the simulated model")
    assert "judge prompts" in text


def test_a_request_without_a_user_message_is_answered_too() -> None:
    assert "simulated" in ask(LMRequest("simulated/default", (Message("system", "x"),))).text
