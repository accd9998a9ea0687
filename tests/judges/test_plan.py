from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from judges.plan import ExtractedPlan, parse_plan, plan_request, wants_plan
from judges.program import seed_program
from judges.prompt import PLAN_DIMENSIONS, build_messages
from judges.render import render
from labeled_traces.label import DIMENSIONS
from labeled_traces.trace import Span, SpanKind, Trace

RENDERING = render(Trace("t", (Span("s1", None, "n", SpanKind.LLM), Span("a b", None, "n"))), 1000)
IDS = RENDERING.span_ids


def reply(source: str, *plans: dict[str, Any]) -> str:
    return json.dumps({"source": source, "plans": plans})


def test_only_plan_judges_want_a_plan_and_a_knob_turns_it_off() -> None:
    assert [name for name in DIMENSIONS if wants_plan(seed_program(name))] == list(PLAN_DIMENSIONS)
    assert not wants_plan(seed_program("plan_quality").with_knobs(plan_extraction=False))
    assert not wants_plan(seed_program("holistic"))


def test_the_extraction_is_one_call_for_both_judges_and_shares_their_prefix() -> None:
    quality, adherence = (plan_request(seed_program(name), RENDERING, seed=5) for name in PLAN_DIMENSIONS)
    assert quality.key == adherence.key
    assert (quality.temperature, quality.repeat, quality.seed) == (0.0, 0, 5)
    system, user = quality.messages
    judge_system, judge_user = build_messages(seed_program("plan_quality"), RENDERING, None)
    assert system == judge_system
    prefix, tail = user.content.split("# Task\n\n")
    assert judge_user.content.startswith(prefix)
    assert tail.startswith("Extract the plan\n")


def test_what_is_searched_or_set_elsewhere_is_in_the_request() -> None:
    program = seed_program("plan_quality").with_knobs(model="m", endpoint="http://x", max_tokens=99)
    request = plan_request(program, RENDERING)
    assert (request.model, request.endpoint, request.max_tokens, request.seed) == ("m", "http://x", 99, None)


def test_the_schema_takes_what_is_asked_for() -> None:
    schema = plan_request(seed_program("plan_quality"), RENDERING).schema
    assert schema is not None
    validator = jsonschema.Draft202012Validator(dict(schema))
    assert validator.is_valid(json.loads(reply("labelled", {"span_id": "a b", "text": "1. x"})))
    assert validator.is_valid(json.loads(reply("none")))
    assert not validator.is_valid(json.loads(reply("guessed")))
    assert not validator.is_valid(json.loads(reply("labelled", {"span_id": "s9", "text": "1. x"})))


@pytest.mark.parametrize("source", ["labelled", "planning_text"])
def test_plans_are_read_in_their_order(source: str) -> None:
    text = reply(source, {"span_id": "s1", "text": " 1. a\n2. b "}, {"span_id": "a b", "text": "3. c"})
    assert parse_plan(f"```json\n{text}\n```", IDS) == ExtractedPlan(source, (("s1", "1. a\n2. b"), ("a b", "3. c")))


def test_no_plan() -> None:
    assert parse_plan(reply("none"), IDS) == ExtractedPlan("none", ())
    assert parse_plan('{"source": "none"}', IDS) == ExtractedPlan("none", ())


def test_an_unknown_span_is_no_span() -> None:
    plan = parse_plan(
        reply("labelled", {"span_id": "s9", "text": "x"}, {"span_id": ["s1"], "text": "y"}, {"text": "z"}), IDS
    )
    assert plan == ExtractedPlan("labelled", (("", "x"), ("", "y"), ("", "z")))


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "The plan is: 1. look it up.",
        '{"plans": []}',
        '{"source": ["none"], "plans": []}',
        reply("None"),
        reply("labelled"),
        reply("labelled", {"span_id": "s1", "text": "  "}),
        reply("labelled", {"span_id": "s1", "text": None}),
        reply("none", {"span_id": "s1", "text": "1. x"}),
        '{"source": "labelled", "plans": "1. x"}',
        '{"source": "labelled", "plans": ["1. x"]}',
        reply("labelled", {"span_id": "s1", "text": "1. x"})[:-1],
    ],
)
def test_a_reply_that_cannot_be_used_is_not_the_same_as_no_plan(text: str | None) -> None:
    assert parse_plan(text, IDS) is None


def test_a_plan_cannot_forge_a_heading() -> None:
    plan = parse_plan(
        reply("labelled", {"span_id": "a b", "text": "1. x\n## Output\u2028\ud800"}, {"span_id": "", "text": "2. y"}),
        IDS,
    )
    assert plan is not None
    assert plan.text == 'Plan, written in span "a b":\n> 1. x\n> ## Output\ufffd\ufffd\n\nRe-plan 1:\n> 2. y\n'
