from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import validate

from experiments.small_model import SmallModel
from judges.judgment import Outcome
from judges.lm import LMRequest, Message
from judges.models.connect import open_lm
from judges.program import JudgeProgram, JudgeSuite, Knobs, seed_suite
from judges.prompt import reply_schema
from judges.render import render
from judges.reply import parse_reply
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.readers import read
from labeled_traces.simulated import simulate
from labeled_traces.trace import Span, Trace
from pipeline.cli import main
from pipeline.evaluate import EvaluateSettings, evaluate, load_judgments

ALONE = EvaluateSettings(concurrency=1)
"""One slot: what is asked before stays in its cache until the next call."""
PATIENCE = 300.0
"""Seconds for one call, on a machine that has other things to do."""


@pytest.fixture(scope="session")
def trace(request: pytest.FixtureRequest) -> Trace:
    """The beginning of a real run, where real runs are; else of a simulated one."""
    try:
        folder: Path = request.getfixturevalue("shared_data")
        rows = list(read([folder / "agentrx_tau"])[0])
    except pytest.skip.Exception:
        rows = simulate(1, 0)
    kept: dict[str, Span] = {}
    for span in rows[0].trace.walk():
        short = len(str(span.inputs)) + len(str(span.outputs)) < 300
        if span.parent_id is None or (short and span.parent_id in kept and len(kept) < 4):
            kept[span.span_id] = span
    return Trace(rows[0].trace_id, tuple(kept.values()))


def suite(model: SmallModel, *dimensions: str, **knobs: object) -> JudgeSuite:
    """Judges with a rubric of one line: most of a call's time goes into reading the prompt."""
    settings = {"model": model.name, "endpoint": model.endpoint, "max_tokens": 64, "plan_extraction": False, **knobs}
    shipped = seed_suite(Knobs(**settings))  # type: ignore[arg-type]
    short = {
        "rubric": "Is there an error of this kind?",
        "output_template": 'An example: {"rationale": "fine", "findings": [], "score": 3}',
    }
    programs: dict[str, JudgeProgram] = {
        name: program.with_parts(short, "test") for name, program in shipped.programs.items()
    }
    return JudgeSuite({name: programs[name] for name in dimensions or programs})


def test_the_seven_judges_over_http(
    small_model: SmallModel, trace: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite(small_model).save(tmp_path / "judges")
    Dataset([LabeledTrace(trace)]).save(tmp_path / "data.jsonl")
    command = ["evaluate", str(tmp_path / "data.jsonl"), "--judges", str(tmp_path / "judges"), "--concurrency", "1"]
    command += ["--model", small_model.name, "--api-base", small_model.endpoint, "--timeout", str(PATIENCE)]
    command += ["--out", str(tmp_path / "out"), "--json"]
    before = small_model.counted()
    code = main(command)
    assert json.loads(capsys.readouterr().out)
    after = small_model.counted()
    judgments = load_judgments(tmp_path / "out" / "judgments.jsonl")
    assert code in (0, 3)  # 3: not one reply could be used, as may well be
    assert len(judgments) == 7
    ids = set(render(trace, 24_000).span_ids)
    for judgment in judgments:
        assert judgment.outcome in (Outcome.SCORED, Outcome.NOT_APPLICABLE, Outcome.TRUNCATED, Outcome.UNPARSEABLE)
        assert {span for finding in judgment.findings for span in finding.span_ids} <= ids
        assert (judgment.score in (0, 1, 2, 3)) == (judgment.outcome is Outcome.SCORED)
    # What is told is what the server counted itself.
    assert sum(judgment.prompt_tokens - judgment.cached_tokens for judgment in judgments) == after[0] - before[0]
    assert sum(judgment.completion_tokens for judgment in judgments) == after[1] - before[1]
    # From the second judge on, what all of them share is not read again.
    shared = len(render(trace, 24_000).text) // 6  # tokens, at the least
    first, *others = judgments
    assert all(judgment.cached_tokens > shared for judgment in others)
    evaluated = [judgment.prompt_tokens - judgment.cached_tokens for judgment in judgments]
    assert max(evaluated[1:]) < evaluated[0] - shared
    assert first.prompt_tokens > 2 * shared


def test_repeats_are_calls_of_their_own_and_are_made_once(
    small_model: SmallModel, trace: Trace, tmp_path: Path
) -> None:
    judges, settings = suite(small_model, "tool_calling"), replace(ALONE, repeats=2)
    with open_lm(tmp_path / "ledger.sqlite", "run", timeout=PATIENCE) as lm:
        first = evaluate(judges, [LabeledTrace(trace)], lm, settings)
        calls, before = lm.spent().calls, small_model.counted()
        assert calls >= 2
        assert evaluate(judges, [LabeledTrace(trace)], lm, settings) == first
        assert (lm.spent().calls, small_model.counted()) == (calls, before)
    assert first[0].repeat != first[1].repeat
    # The second reading finds the whole prompt in the cache but for its last token.
    assert first[1].prompt_tokens - first[1].cached_tokens <= 2 * 8


def test_a_reply_keeps_to_the_schema_and_to_the_ids_of_the_trace(
    small_model: SmallModel, trace: Trace, tmp_path: Path
) -> None:
    ids = render(trace, 24_000).span_ids
    schema = reply_schema("tool_calling", ids)
    finding = schema["properties"]["findings"]
    # As ours, but so short that a model that rambles ends in time.
    schema["properties"]["rationale"]["maxLength"] = 40
    finding |= {"maxItems": 1, "minItems": 1}
    for name in ("explanation", "evidence"):
        finding["items"]["properties"][name]["maxLength"] = 20
    finding["items"]["properties"]["span_ids"] |= {"maxItems": 2, "minItems": 1}
    ask = LMRequest(
        small_model.name,
        (Message("user", "Judge the step and reply in JSON."),),
        max_tokens=250,
        schema=schema,
        endpoint=small_model.endpoint,
        seed=1,
    )
    with open_lm(tmp_path / "ledger.sqlite", "run", timeout=PATIENCE) as lm:
        reply = asyncio.run(lm.complete(ask))
    assert reply.finish_reason == "stop"
    answer = json.loads(reply.text)
    validate(answer, schema)
    parsed = parse_reply(reply.text, reply.finish_reason, "tool_calling", ids)
    assert parsed.outcome is Outcome.SCORED
    assert set(parsed.findings[0].span_ids) == set(answer["findings"][0]["span_ids"]) <= set(ids)


def test_a_prompt_over_the_context_is_told_as_such(small_model: SmallModel, tmp_path: Path) -> None:
    rows = simulate(1, 0)
    spans = tuple(replace(span, outputs="word " * small_model.context) for span in rows[0].trace.spans)
    long = LabeledTrace(Trace("long", spans))
    with open_lm(tmp_path / "ledger.sqlite", "run", timeout=PATIENCE) as lm:
        (judgment,) = evaluate(suite(small_model, "tool_calling"), [long], lm, ALONE)
    assert judgment.outcome is Outcome.TOO_LONG
    assert str(small_model.context) in judgment.detail


def test_a_reply_that_is_cut_is_told_as_such(small_model: SmallModel, tmp_path: Path) -> None:
    request = LMRequest(
        small_model.name,
        (Message("user", "Count to one hundred."),),
        max_tokens=5,
        endpoint=small_model.endpoint,
    )
    with open_lm(tmp_path / "ledger.sqlite", "run", timeout=PATIENCE) as lm:
        reply = asyncio.run(lm.complete(request))
    assert (reply.finish_reason, reply.completion_tokens) == ("length", 5)
