"""Each fault of the executor leaves the traces that its label says, one fault at a time."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from labeled_traces.label import Impact
from labeled_traces.simulated.executor import Execution
from labeled_traces.simulated.faults import NO_FAULTS, FaultRates
from labeled_traces.simulated.plan import Step
from labeled_traces.simulated.planner import PlannedStep
from labeled_traces.simulated.recorder import Recorder
from labeled_traces.simulated.tasks import Task
from labeled_traces.simulated.tools import Toolbox
from labeled_traces.simulated.world import build_world
from labeled_traces.trace import Span, SpanKind, Trace

WORLD = build_world(0)
GROWTH = Task("growth", ("Velmar",), (2021, 2024))
SERIES = Task("series_chart", ("Velmar",), (2020, 2024))


def execute(rates: FaultRates, plan: list[PlannedStep], seed: int = 0) -> tuple[Execution, Trace]:
    recorder = Recorder(seed, 0, random.Random(0))
    root = recorder.begin(SpanKind.AGENT, "data_agent", None, "task")
    execution = Execution(WORLD, Toolbox(WORLD), rates, random.Random(seed), recorder)
    execution.run(root, plan)
    recorder.end(root, "answer")
    return execution, recorder.trace()


def planned(task: Task) -> list[PlannedStep]:
    return [PlannedStep(step) for step in task.reference_plan()]


def tools_of(trace: Trace, executor: Span) -> list[str]:
    return [child.name for child in trace.children(executor.span_id)]


def executors(trace: Trace) -> list[Span]:
    return [span for span in trace.spans if span.name == "executor"]


def test_without_faults_each_step_makes_its_call_and_records_the_output() -> None:
    execution, trace = execute(NO_FAULTS, planned(GROWTH))
    assert execution.labels == []
    assert execution.values == GROWTH.true_values(WORLD.database)
    assert [tools_of(trace, span) for span in executors(trace)] == [["db_lookup"], ["db_lookup"], ["calculator"]]
    first = executors(trace)[0]
    assert [list(message) for message in first.outputs["messages"]] == [
        ["role", "content", "tool_calls"],
        ["role", "content"],
    ]
    assert first.outputs["messages"][1]["content"] == f"Recorded v1 = {execution.values['v1']}"
    assert first.inputs["messages"][1]["content"].endswith("Recorded so far: nothing")


def test_a_skipped_step_makes_no_call_and_its_value_is_from_memory() -> None:
    execution, trace = execute(replace(NO_FAULTS, skipped_step=1.0, spread=0), planned(GROWTH))
    first, second, third = executors(trace)
    assert [tools_of(trace, span) for span in (first, second, third)] == [[], [], ["calculator"]]
    assert execution.values["v1"] == WORLD.memory("Velmar", 2021)
    assert [(label.span_id, label.impact) for label in execution.labels] == [
        (first.span_id, Impact.MEDIUM),
        (second.span_id, Impact.HIGH),
    ]
    assert {label.dimensions for label in execution.labels} == {("plan_adherence", "logical_consistency")}


def test_only_fetches_of_one_figure_are_skipped() -> None:
    execution, _ = execute(replace(NO_FAULTS, skipped_step=1.0), planned(SERIES))
    assert execution.labels == []


@pytest.mark.parametrize("seed", range(12))
def test_a_repeated_call_is_the_same_call_for_the_same_step(seed: int) -> None:
    execution, trace = execute(replace(NO_FAULTS, repeated_call=1.0), planned(GROWTH), seed)
    for span, label in zip(executors(trace), execution.labels, strict=True):
        calls = trace.children(span.span_id)
        assert label.span_id == span.span_id
        assert 2 <= len(calls) <= 4
        assert all((call.name, call.inputs) == (calls[0].name, calls[0].inputs) for call in calls)
        assert label.impact == (Impact.LOW if len(calls) == 2 else Impact.MEDIUM)


@pytest.mark.parametrize("seed", range(12))
def test_a_misread_output_is_recorded_other_than_returned(seed: int) -> None:
    execution, trace = execute(replace(NO_FAULTS, misread_output=1.0), planned(SERIES), seed)
    [label] = execution.labels
    fetch = executors(trace)[0]
    [call] = trace.children(fetch.span_id)
    differing = [
        (row, seen) for row, seen in zip(call.outputs["rows"], execution.values["v1"], strict=True) if row != seen
    ]
    [(row, seen)] = differing
    assert row[0] == seen[0]
    assert label.impact == (Impact.LOW if seen[1] == round(row[1]) else Impact.HIGH)
    assert label.span_id == fetch.span_id
    assert str(seen[1]) in label.description


@pytest.mark.parametrize("seed", range(12))
def test_a_wrong_argument_goes_through_or_is_corrected(seed: int) -> None:
    execution, trace = execute(replace(NO_FAULTS, wrong_argument=1.0), planned(SERIES), seed)
    assert len(execution.labels) == 2
    for span, label in zip(executors(trace), execution.labels, strict=True):
        calls = trace.children(span.span_id)
        assert [call.status for call in calls] == (["ERROR", "OK"] if label.impact == Impact.LOW else ["OK"])
    impacts = {label.impact for label in execution.labels}
    assert impacts <= {Impact.LOW, Impact.MEDIUM, Impact.HIGH}


def test_a_missing_fetch_is_made_up_for_and_a_redundant_one_made_without_faults() -> None:
    v1, v2, r = GROWTH.reference_plan()
    plan = [PlannedStep(v1), PlannedStep(replace(v1, output="v3"), redundant=True), PlannedStep(r, missing=v2)]
    every = FaultRates(**dict.fromkeys(("wrong_argument", "skipped_step", "misread_output", "repeated_call"), 1.0))
    execution, trace = execute(every, plan)
    first, redundant, repaired = executors(trace)
    assert tools_of(trace, redundant) == ["db_lookup"]
    assert tools_of(trace, repaired) == ["db_lookup", "calculator"]
    assert "No step produced v2, so I fetch it first" in repaired.outputs["messages"][0]["content"]
    assert {label.span_id for label in execution.labels} == {first.span_id}
    assert execution.values["v2"] == WORLD.database("Velmar", 2024)


def test_what_the_web_gave_is_kept_by_step() -> None:
    plan = [PlannedStep(Step("web_search", {"query": "GDP of Velmar in 2022"}, "v1"))]
    execution, _ = execute(NO_FAULTS, plan)
    assert execution.web_forms == {1: WORLD.web_forms["Velmar", 2022]}
