"""Simulated runs: repeatable, well formed, of the published shape, and with nothing of the answer in the trace."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import DIMENSIONS, Impact
from labeled_traces.simulated import FAULTS, FaultRates, simulate
from labeled_traces.simulated.faults import NO_FAULTS
from labeled_traces.trace import SpanKind


@pytest.fixture(scope="module")
def rows() -> list[LabeledTrace]:
    return simulate(3000, 1)


@pytest.fixture(scope="module")
def doubled() -> list[LabeledTrace]:
    return simulate(3000, 2, FaultRates().scaled(2))


def in_process(row: LabeledTrace) -> int:
    """Errors other than of the final answer."""
    return sum(error.category != "off_target_answer" for error in row.errors)


def share_right(rows: list[LabeledTrace]) -> float:
    return float(sum(row.metadata["outcome"] == "right" for row in rows) / len(rows))


def test_the_same_seed_gives_the_same_rows_and_a_row_does_not_depend_on_their_number() -> None:
    assert simulate(20, 5) == simulate(20, 5)
    assert simulate(8, 5) == simulate(20, 5)[:8]
    assert simulate(20, 5) != simulate(20, 6)
    assert simulate(5, 5, world_seed=1) != simulate(5, 5)


def test_ids_are_unique_over_traces_and_seeds(rows: list[LabeledTrace]) -> None:
    more = [*rows[:300], *simulate(300, 9)]
    assert len({row.trace_id for row in more}) == 600
    assert len({span.span_id for row in more for span in row.trace.spans}) == sum(len(row.trace.spans) for row in more)


def test_a_run_is_a_plan_its_steps_and_an_answer(rows: list[LabeledTrace]) -> None:
    for row in rows[:500]:
        root, planner, *steps, final = row.trace.spans
        assert (root.kind, root.name, root.parent_id) == (SpanKind.AGENT, "data_agent", None)
        assert (planner.name, final.name) == ("planner", "final_answer")
        assert {span.name for span in steps if span.kind == SpanKind.LLM} == {"executor"}
        assert all(span.parent_id == root.span_id for span in row.trace.spans if span.kind == SpanKind.LLM)
        assert 4 <= len(row.trace.spans) <= 20
        assert root.outputs == final.outputs["messages"][0]["content"]
        assert len(planner.inputs["tools"]) == 6


def test_labels_are_the_truth_at_spans_of_the_trace_with_evidence_from_them(doubled: list[LabeledTrace]) -> None:
    for row in doubled[:800]:
        for error in row.errors:
            assert error.rater == "truth"
            assert error.dimensions == FAULTS[error.category]
            assert error.span_id is not None
            said = "\n".join(m["content"] for m in row.trace.by_id[error.span_id].outputs["messages"])
            assert error.evidence
            assert error.evidence in said


def test_nothing_of_the_answer_is_in_the_trace(rows: list[LabeledTrace]) -> None:
    assert all(row.trace.metadata == {} and span.attributes == {} for row in rows[:50] for span in row.trace.spans)
    wrong = [row for row in rows if row.metadata["outcome"] == "wrong"]
    assert len(wrong) > 500
    for row in wrong:
        agent = [(s.inputs, s.outputs) for s in row.trace.spans if s.kind != SpanKind.TOOL]  # the web may know it
        assert row.reference
        assert row.reference not in str(agent)


def test_a_run_without_faults_is_wrong_only_by_stale_records() -> None:
    rows = simulate(1000, 3, NO_FAULTS)
    assert all(row.errors == () for row in rows)
    assert 0.04 < 1 - share_right(rows) < 0.12
    assert {row.group for row in rows if row.metadata["outcome"] == "wrong"} == {
        row.group for row in rows if row.trace.roots[0].outputs != row.reference and row.metadata["outcome"] == "wrong"
    }


def test_an_off_target_answer_is_wrong(doubled: list[LabeledTrace]) -> None:
    slips = [row for row in doubled if any(error.category == "off_target_answer" for error in row.errors)]
    assert slips
    assert share_right(slips) == 0


def test_luck_is_a_right_answer_with_a_wrong_figure_on_the_way(rows: list[LabeledTrace]) -> None:
    lucky = [row for row in rows if row.metadata["luck"]]
    assert 0.02 < len(lucky) / len(rows) < 0.12
    assert all(row.metadata["outcome"] == "right" for row in lucky)


def test_default_rates_have_the_published_shape(rows: list[LabeledTrace]) -> None:
    """Published: 40 % of tasks with an error in the process, 72.5 % right, 53 % right of those with an error."""
    faulty = [row for row in rows if in_process(row)]
    assert 0.37 < len(faulty) / len(rows) < 0.45
    assert 0.67 < share_right(rows) < 0.76
    assert 0.45 < share_right(faulty) < 0.60


def test_doubled_rates_have_the_published_number_of_errors(doubled: list[LabeledTrace]) -> None:
    """Published: 363 errors in the process of 300 traces, 46 % of high impact."""
    errors = [error for row in doubled for error in row.errors if error.category != "off_target_answer"]
    assert 310 < len(errors) / len(doubled) * 300 < 400
    assert 0.38 < sum(error.impact == Impact.HIGH for error in errors) / len(errors) < 0.50


def test_every_dimension_has_labels_enough_in_240_traces() -> None:
    for seed in range(4):
        rows = simulate(240, seed, FaultRates().scaled(2))
        counts = Counter(name for row in rows for error in row.errors for name in error.dimensions)
        assert min(counts[name] for name in DIMENSIONS) >= 8
        assert set(error.category for row in rows for error in row.errors) == set(FAULTS)


def test_tasks_recur_so_that_groups_have_several_traces(rows: list[LabeledTrace]) -> None:
    groups: dict[str, set[str]] = {}
    for row in rows[:300]:
        groups.setdefault(row.group, set()).add(row.trace.roots[0].inputs)
    assert 100 < len(groups) < 280
    assert all(len(texts) == 1 for texts in groups.values())


def test_searching_the_web_and_trusting_memory_each_cost_right_answers() -> None:
    """The published pair of agents that differ in one habit, each in 25 % of fetches."""
    clean = share_right(simulate(900, 4, NO_FAULTS))
    web = share_right(simulate(900, 4, replace(NO_FAULTS, wrong_tool=0.25)))
    memory = share_right(simulate(900, 4, replace(NO_FAULTS, skipped_step=0.25)))
    assert memory < web < clean


def test_300_traces_take_less_than_one_and_a_half_seconds() -> None:
    simulate(1, 0)  # imports the schema validator
    start = time.process_time()
    simulate(300, 0)
    assert time.process_time() - start < 1.5
