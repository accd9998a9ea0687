from __future__ import annotations

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.program import MLFLOW, JudgeProgram, Knobs, seed_suite
from labeled_traces.label import DIMENSIONS
from pipeline.call_order import CallOrder, Place

PLANS = ("plan_quality", "plan_adherence")


def readings(repeats: int, **knobs: object) -> list[tuple[JudgeProgram, int]]:
    suite = seed_suite(Knobs(**knobs))  # type: ignore[arg-type]
    return [(program, repeat) for program in suite.programs.values() for repeat in range(repeats)]


def played(order: CallOrder, slots: int, seconds: int = 1) -> tuple[list[tuple[int, Place]], int]:
    """When each is started and when all are done, if each takes so many seconds and all slots are used."""
    starts: list[tuple[int, Place]] = []
    flying: list[tuple[int, int, Place]] = []
    now = 0
    while True:
        while len(flying) < slots and (place := order.take()) is not None:
            heapq.heappush(flying, (now + seconds, len(starts), place))
            starts.append((now, place))
        if not flying:
            return starts, now
        now, _, place = heapq.heappop(flying)
        order.ended(place)


@pytest.mark.parametrize(
    ("traces", "repeats", "slots", "seconds"),
    [
        (1, 5, 64, 4),  # one, five judges, the judge that shares their schema, its repeats
        (1, 1, 1, 7),
        (3, 5, 64, 4),
        (46, 1, 32, 11),  # 322 of them: 10.1 rounds
        (100, 5, 32, 111),  # 3,500: 109.4 rounds, and at the end the one that waits for the last
        (1000, 1, 128, 56),  # 7,000: 54.7 rounds
    ],
)
def test_slots_stay_full_as_long_as_there_is_work(traces: int, repeats: int, slots: int, seconds: int) -> None:
    starts, end = played(CallOrder(traces, readings(repeats, plan_extraction=False), slots), slots)
    assert len(starts) == traces * repeats * 7
    assert end == seconds


@given(
    st.integers(0, 12), st.integers(1, 4), st.integers(1, 20), st.booleans(), st.sampled_from(["shared_prefix", MLFLOW])
)
@settings(max_examples=60, deadline=None)
def test_each_is_taken_once_and_the_first_of_a_trace_alone(
    traces: int, repeats: int, slots: int, plans: bool, layout: str
) -> None:
    every = readings(repeats, plan_extraction=plans, layout=layout)
    starts, _ = played(CallOrder(traces, every, slots), slots)
    assert sorted(place for _, place in starts) == [
        (trace, number) for trace in range(traces) for number in range(len(every))
    ]
    for trace in range(traces):
        when = {number: now for now, (of, number) in starts if of == trace}
        pairs = [(number - repeat, number) for number, (_, repeat) in enumerate(every) if repeat]
        if layout != MLFLOW:  # there a judge shares its prompt with nobody but its own repeats
            pairs += [(0, number) for number in range(1, len(every))]
            shown = [number for number, (program, _) in enumerate(every) if program.dimension in PLANS]
            pairs += [(shown[0], number) for number in shown[1:]]
        assert all(when[first] < when[later] for first, later in pairs)


def test_with_one_slot_a_trace_is_read_judge_by_judge_and_then_the_next() -> None:
    every = readings(2)
    starts, _ = played(CallOrder(3, every, 1), 1)
    assert [place for _, place in starts] == [(trace, number) for trace in range(3) for number in range(len(every))]


def test_the_plan_is_had_once_and_holds_up_nobody_else() -> None:
    every = readings(2)
    order = CallOrder(1, every, 32)
    first = order.take()
    assert first == (0, 0)
    assert order.take() is None
    assert order.ended(first) == 6
    second = [every[place[1]] for place in iter(order.take, None)]
    assert [program.dimension for program, repeat in second if not repeat] == [
        name for name in list(DIMENSIONS)[1:] if name != "plan_adherence"
    ]
    assert order.ended((0, 2 * list(DIMENSIONS).index("plan_quality"))) == 2
    third = [every[place[1]] for place in iter(order.take, None)]
    assert [(program.dimension, repeat) for program, repeat in third] == [("plan_quality", 1), ("plan_adherence", 0)]


def test_earlier_traces_go_first() -> None:
    starts, _ = played(CallOrder(200, readings(1), 8), 8)
    begun, done = [], []
    for trace in range(200):
        places = [index for index, (_, place) in enumerate(starts) if place[0] == trace]
        begun.append(places[0])
        done.append(places[-1])
    assert begun == sorted(begun)
    assert max(done[trace] - begun[trace] for trace in range(200)) < 20 * 8


def test_nothing_is_made_before_it_is_needed() -> None:
    order = CallOrder(10**9, readings(5), 8)
    assert [order.take() for _ in range(8)] == [(trace, 0) for trace in range(8)]


def test_judges_of_two_models_warm_a_cache_each() -> None:
    every = readings(1, plan_extraction=False)
    other = [(program.with_knobs(model="openai/other"), repeat) for program, repeat in every[:2]]
    order = CallOrder(1, [*every, *other], 32)
    assert list(iter(order.take, None)) == [(0, 0), (0, 7)]
    assert order.ended((0, 7)) == 1
