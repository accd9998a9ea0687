"""A run is read back from its trace, in all forms that content may have, and only as far as it is whole."""

from __future__ import annotations

import json
from dataclasses import replace

from labeled_traces.simulated import simulate
from labeled_traces.simulated.faults import NO_FAULTS
from labeled_traces.simulated.reading import Run, read_run
from labeled_traces.trace import JSON, Span, SpanKind, Trace

TRACE = next(row.trace for row in simulate(50, 0, NO_FAULTS) if row.metadata["task"] == "compare")
CUT = "[... 12 characters left out ...]"


def read(trace: Trace) -> Run:
    run = read_run(trace)
    assert run is not None
    return run


def changed(name: str, **fields: JSON) -> Trace:
    return replace(TRACE, spans=tuple(replace(s, **fields) if s.name == name else s for s in TRACE.spans))


def said(text: str) -> dict[str, JSON]:
    return {"messages": [{"role": "assistant", "content": text}]}


def test_a_whole_trace_is_read_whole() -> None:
    run = read(TRACE)
    assert run.task is not None
    assert run.task.text == TRACE.roots[0].inputs
    assert run.plan == dict(enumerate(run.task.reference_plan(), 1))
    assert (run.plan_end, run.cutoff, run.answer) == ("<end_plan>", 2023, TRACE.roots[0].outputs)
    assert [list(step.recorded) for step in run.steps.values()] == [["v1"], ["v2"], ["r"]]
    assert [call.tool for step in run.steps.values() for call in step.calls] == ["db_lookup", "db_lookup", "calculator"]


def test_tool_arguments_and_results_may_be_text() -> None:
    spans = [
        replace(s, inputs=json.dumps(s.inputs), outputs=json.dumps(s.outputs)) if s.kind == SpanKind.TOOL else s
        for s in TRACE.spans
    ]
    assert read(replace(TRACE, spans=tuple(spans))) == read(TRACE)


def test_the_task_may_stand_in_a_field_or_with_the_planner_alone() -> None:
    assert read(changed("data_agent", inputs={"task": TRACE.roots[0].inputs})) == read(TRACE)
    assert read(changed("data_agent", inputs=None)) == read(TRACE)


def test_a_step_may_be_numbered_by_its_instruction_alone() -> None:
    run = read(changed("executor", outputs=said("Recorded v1 = 1.5")))
    assert {number: step.recorded for number, step in run.steps.items()} == {n: {"v1": 1.5} for n in (1, 2, 3)}


def test_what_is_cut_is_not_read() -> None:
    plan = TRACE.spans[1].outputs["messages"][0]["content"]
    assert read(changed("planner", outputs=said(plan[:30] + CUT + plan[60:]))).plan is None
    assert read(changed("final_answer", outputs=said(f"The {CUT} bn."))).answer == ""
    assert read(changed("executor", outputs=said(f"Step 1: Recorded\nRecorded v1 = {CUT}"))).steps[1].recorded == {}
    assert read(changed("db_lookup", inputs={"entity": f"Vel{CUT}"})).steps[1].calls[0].arguments is None


def test_a_plan_with_a_hole_is_no_plan() -> None:
    plan = TRACE.spans[1].outputs["messages"][0]["content"]
    assert read(changed("planner", outputs=said(plan.replace("2. db_lookup(", "2. db_lookup")))).plan is None
    assert read(changed("planner", outputs=said(plan.split("\n", 1)[1]))).plan is None
    assert read(changed("planner", outputs=said(""))).plan is None


def test_an_executor_that_announces_a_call_is_not_silent() -> None:
    spans = tuple(span for span in TRACE.spans if span.kind != SpanKind.TOOL)
    assert [step.silent for step in read(replace(TRACE, spans=spans)).steps.values()] == [False, False, False]


def test_another_agents_trace_is_no_run() -> None:
    assert read_run(Trace("t", (Span("a", None, "planner", SpanKind.AGENT), Span("b", "a", "x", SpanKind.LLM)))) is None
