"""Tests of the calls that judging would make, against those that it makes."""

from __future__ import annotations

import asyncio

import pytest

from judges.judge import judge
from judges.lm import LMReply, LMRequest
from judges.program import Knobs, seed_suite
from judges.render import render
from labeled_traces.simulated import simulate
from pipeline.dry_run import PLAN, dry_run, sample


class Recorder:
    """An LM that keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[LMRequest] = []

    async def complete(self, request: LMRequest) -> LMReply:
        self.requests.append(request)
        plan = '{"source": "labelled", "plans": [{"span_id": "", "text": "1. look"}]}'
        return LMReply(plan if "plans" in (request.schema or {})["properties"] else "", "stop", 10, 5)


@pytest.mark.parametrize("layout", ["shared_prefix", "mlflow"])
def test_the_calls_are_those_of_the_judges(layout: str) -> None:
    programs = list(seed_suite(Knobs(layout=layout)).programs.values())
    recorder, rows = Recorder(), simulate(3, 0)

    async def read() -> None:
        for row in rows:
            for repeat in range(2):
                for program in programs:
                    await judge(program, row.trace, recorder, repeat, seed=7)

    asyncio.run(read())
    made = {request.key: request for request in recorder.requests}
    asked: list[str] = []

    def find(key: str) -> LMReply | None:
        asked.append(key)
        return LMReply('{"source": "labelled", "plans": [{"span_id": "", "text": "1. look"}]}', "stop", 10, 5)

    calls = dry_run(programs, rows, 2, find, seed=7)
    assert set(asked) == set(made)
    assert len(calls) == len(made)
    assert [call.most for call in calls] == [request.max_tokens for request in made.values()]
    kinds = [call.kind for call in calls]
    assert kinds.count(PLAN) == (3 if layout == "shared_prefix" else 0)
    assert kinds.count("tool_calling") == 6
    assert [call.reading for call in calls if call.kind == "tool_calling"] == [0, 1] * 3


def test_a_reading_that_is_repeated_can_come_from_the_cache_whole() -> None:
    programs = list(seed_suite(Knobs(model="openai/mine", endpoint="http://127.0.0.1:1/v1")).programs.values())
    calls = dry_run(programs, simulate(2, 0), 2)
    later = [call for call in calls if call.reading == 1]
    assert len(later) == 14
    assert {call.prompt - call.cached for call in later} == {8}  # what stands around the two messages


def test_judges_of_a_trace_share_its_text_and_traces_share_the_system_text_only() -> None:
    programs = list(seed_suite(Knobs(model="openai/mine", endpoint="http://127.0.0.1:1/v1")).programs.values())
    rows = simulate(2, 0)
    calls = dry_run(programs, rows, 1)
    firsts = [call for call in calls if call.kind == programs[0].dimension]
    others = [call for call in calls if call.kind != programs[0].dimension]
    sizes = [render(row.trace, 24_000).tokens for row in rows]
    assert all(call.cached < 400 for call in firsts)
    assert min(call.cached for call in others) > min(sizes)


def test_what_is_marked_is_written_once_a_trace_and_schema_and_nothing_behind_it_is_cached() -> None:
    programs = list(seed_suite(Knobs(model="anthropic/claude-sonnet-4-5")).programs.values())
    rows = simulate(3, 0)
    calls = dry_run(programs, rows, 2)
    assert len(calls) == 3 * (1 + 7 * 2)
    # Of the plan's, of the two judges' that may find no plan, and of all others'.
    writers = [call for call in calls if call.written]
    assert len(writers) == 9
    for call in calls:
        assert (call.written == 0) == (call.cached > 0)
        assert max(call.written, call.cached) < call.prompt - 200
    plain = dry_run([program.with_knobs(model="openai/gpt-4o") for program in programs], rows, 2)
    assert not any(call.written for call in plain)
    assert sum(call.cached for call in plain) > sum(call.cached for call in calls)


def test_a_sample_stands_for_all() -> None:
    """Of rows of very different lengths, the long ones at the end: in all of its parts, too."""
    rows = sorted(simulate(400, 0), key=lambda row: len(row.trace.spans))
    length = {row.trace.trace_id: render(row.trace, 24_000).tokens for row in rows}
    found = sample(rows, 60)
    assert len({row.trace.trace_id for row in found}) == 60
    mean = sum(length.values()) / 400
    assert sum(length[row.trace.trace_id] for row in found) / 60 == pytest.approx(mean, rel=0.03)
    first = {row.trace.trace_id for row in rows[:200]}
    assert sum(row.trace.trace_id in first for row in found) == 30
    assert sample(rows, 400) == rows
