"""The checks read only the trace and find exactly the planted labels, none more and none less."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import Impact
from labeled_traces.simulated import FAULTS, FaultRates, find_problems, simulate
from labeled_traces.simulated.faults import NO_FAULTS, VARIANTS
from labeled_traces.trace import JSON, Span, Trace

EVERYTHING = FaultRates(**dict.fromkeys(FAULTS, 0.5), spread=0.0)
ROWS = simulate(60, 0, EVERYTHING)


def planted(row: LabeledTrace) -> Counter[tuple[object, ...]]:
    return Counter((e.category, e.dimensions, e.span_id, e.impact, e.evidence) for e in row.errors)


def found(trace: Trace) -> Counter[tuple[object, ...]]:
    return Counter((p.kind, p.dimensions, p.span_id, p.impact, p.evidence) for p in find_problems(trace))


@pytest.mark.parametrize(
    "rates", [FaultRates(), FaultRates().scaled(2), EVERYTHING], ids=["default", "doubled", "half"]
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_exactly_the_planted_labels_are_found(rates: FaultRates, seed: int) -> None:
    rows = simulate(1000, seed, rates, world_seed=seed)
    assert sum(len(row.errors) for row in rows) > 500
    for row in rows:
        assert found(row.trace) == planted(row), row.trace_id


def test_every_variant_occurs_and_is_told_apart() -> None:
    rows = simulate(1500, 8, FaultRates().scaled(3))
    seen = {(error.category, error.impact) for row in rows for error in row.errors}
    assert seen == set(VARIANTS.values())


def test_a_clean_run_has_no_problem() -> None:
    assert all(find_problems(row.trace) == [] for row in simulate(500, 1, NO_FAULTS))


def test_metadata_ids_and_times_do_not_matter() -> None:
    for row in ROWS:
        names = {span.span_id: f"s{i}" for i, span in enumerate(row.trace.spans)}
        spans = tuple(
            replace(s, span_id=names[s.span_id], parent_id=s.parent_id and names[s.parent_id], start=None, end=None)
            for s in row.trace.spans
        )
        other = find_problems(Trace("other", spans, {"answer": 42}))
        assert [names[problem.span_id] for problem in find_problems(row.trace)] == [p.span_id for p in other]


def one(rates: FaultRates, kind: str, task: str = "compare") -> tuple[Trace, list[tuple[str, str]]]:
    """A trace with one problem of a kind at least, and (name of root cause, name of symptom) of each."""
    for row in simulate(300, 0, rates):
        problems = [p for p in find_problems(row.trace) if p.kind == kind]
        if problems and row.metadata["task"] == task:
            trace = row.trace
            return trace, [(trace.by_id[p.span_id].name, trace.by_id[p.symptom_id].name) for p in problems]
    raise AssertionError(f"no trace has {kind}")


@pytest.mark.parametrize(
    ("kind", "cause", "symptoms"),
    [
        ("bad_plan", "planner", {"executor"}),
        ("wrong_tool", "planner", {"executor"}),
        ("missing_end_plan", "planner", {"executor"}),
        ("wrong_argument", "executor", {"db_lookup", "calculator"}),
        ("repeated_call", "executor", {"db_lookup", "calculator"}),
        ("skipped_step", "executor", {"executor"}),
        ("misread_output", "executor", {"executor", "final_answer"}),
        ("off_target_answer", "final_answer", {"data_agent"}),
    ],
)
def test_root_cause_and_symptom(kind: str, cause: str, symptoms: set[str]) -> None:
    trace, places = one(replace(NO_FAULTS, spread=0.0, **{kind: 1.0}), kind)
    assert {place[0] for place in places} == {cause}
    assert {place[1] for place in places} <= symptoms
    order = [span.span_id for span in trace.spans]
    for problem in find_problems(trace):
        assert problem.symptom_id != problem.span_id
        if kind != "off_target_answer":
            assert order.index(problem.symptom_id) > order.index(problem.span_id)


def test_a_skipped_or_misread_value_shows_where_it_is_used_next() -> None:
    trace, _ = one(replace(NO_FAULTS, skipped_step=1.0, spread=0.0), "skipped_step")
    calculating = [span for span in trace.spans if span.name == "executor"][2]
    assert {problem.symptom_id for problem in find_problems(trace)} == {calculating.span_id}


def test_a_bad_plan_is_no_fault_of_the_execution() -> None:
    rows = simulate(600, 3, replace(NO_FAULTS, bad_plan=1.0, spread=0.0))
    assert all([problem.kind for problem in find_problems(row.trace)] == ["bad_plan"] for row in rows)


def test_a_step_that_the_plan_repeats_is_no_repeated_call() -> None:
    rows = simulate(400, 3, replace(NO_FAULTS, bad_plan=1.0, spread=0.0))
    redundant = [row for row in rows if row.errors[0].impact == Impact.LOW]
    assert redundant
    assert all(problem.kind != "repeated_call" for row in redundant for problem in find_problems(row.trace))


@pytest.mark.parametrize("label_rates", [FaultRates().scaled(2)])
def test_a_check_takes_less_than_a_millisecond(label_rates: FaultRates) -> None:
    traces = [row.trace for row in simulate(300, 5, label_rates)]
    start = time.process_time()
    for trace in traces:
        find_problems(trace)
    assert (time.process_time() - start) / len(traces) < 1e-3


JUNK: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["messages", "content", "value", "rows", "year"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def damaged_text(text: str, data: st.DataObject) -> str:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    return (
        text[:start]
        + data.draw(st.sampled_from(["", "\ufffd", f"[... {end - start} characters left out ...]"]))
        + text[end:]
    )


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_trace_raises_nothing(data: st.DataObject) -> None:
    spans: list[Span] = []
    for span in data.draw(st.sampled_from(ROWS)).trace.spans:
        match data.draw(st.sampled_from(["keep", "keep", "drop", "inputs", "outputs", "text", "name"])):
            case "drop" if span.parent_id is not None:
                continue
            case "inputs":
                span = replace(span, inputs=data.draw(JUNK))
            case "outputs":
                span = replace(span, outputs=data.draw(JUNK))
            case "text" if isinstance(span.outputs, dict) and "messages" in span.outputs:
                content = damaged_text(span.outputs["messages"][0]["content"], data)
                span = replace(span, outputs={"messages": [{"role": "assistant", "content": content}]})
            case "text":
                span = replace(span, outputs=damaged_text(json.dumps(span.outputs), data))
            case "name":
                span = replace(span, name=data.draw(st.sampled_from(["planner", "executor", "final_answer", "x"])))
        spans.append(span)
    kept = {span.span_id for span in spans}
    root = spans[0].span_id
    whole = [replace(s, parent_id=root) if s.parent_id and s.parent_id not in kept else s for s in spans]
    for problem in find_problems(Trace("damaged", tuple(whole))):
        assert problem.span_id in kept
        assert problem.symptom_id in kept


def test_a_trace_of_another_agent_has_no_problem() -> None:
    assert find_problems(Trace("t", (Span("a", None, "chat", inputs="hello", outputs="hi"),))) == []
