from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.program import JudgeProgram
from pipeline.metrics.table import MatchTable
from pipeline.optimizers.archive import LENGTH_STEPS, Archive, Member, best_first, prompt_length
from pipeline.optimizers.scoring import Scores

EMPTY = MatchTable("span", True, (), ("tool_calling",), (), {})
INPUT = JudgeProgram("tool_calling", "r" * 1000)


def member(gain: float, precision: float | None = 0.5, length: int = 1000, mark: str = "") -> Member:
    program = replace(INPUT, rubric=mark + "r" * (length - len(mark)))
    objectives = {} if precision is None else {"t": {"precision": precision}}
    return Member(program, Scores(EMPTY, {}, objectives, 0), gain)


def test_the_founder_is_there_from_the_start() -> None:
    founder = member(0.0)
    assert Archive(founder).members == [founder]


def test_a_niche_keeps_the_better_one() -> None:
    archive = Archive(member(0.0))
    better = member(0.2, mark="b")
    assert archive.offer(better)
    assert archive.members == [better]
    assert not archive.offer(member(0.1, mark="c"))
    assert not archive.offer(member(0.2, mark="d")), "the earlier one stays in a tie"
    assert archive.members == [better]


def test_another_precision_or_length_is_another_niche() -> None:
    founder, precise, long = member(0.0), member(-0.1, precision=0.9), member(-0.2, length=2000)
    archive = Archive(founder)
    assert archive.offer(precise)
    assert archive.offer(long)
    assert archive.members == [founder, precise, long]


@pytest.mark.parametrize(
    ("precision", "step"), [(0.0, 0), (0.19, 0), (0.2, 1), (0.79, 3), (0.8, 4), (1.0, 4), (None, 0)]
)
def test_precision_has_five_steps(precision: float | None, step: int) -> None:
    assert Archive(member(0.0)).niche(member(0.0, precision))[1] == step


@pytest.mark.parametrize(
    ("length", "step"), [(1000, 0), (1180, 0), (1200, 1), (1400, 1), (2000, 2), (500, -2), (840, -1), (900, 0)]
)
def test_length_has_half_octaves(length: int, step: int) -> None:
    assert Archive(member(0.0)).niche(member(0.0, length=length))[0] == step


def test_what_lies_beyond_the_scale_shares_its_end() -> None:
    archive = Archive(member(0.0))
    assert archive.niche(member(0.0, length=50_000))[0] == archive.niche(member(0.0, length=5_000))[0] == LENGTH_STEPS
    assert archive.niche(member(0.0, length=10))[0] == -LENGTH_STEPS


def test_the_length_is_that_of_what_is_shown() -> None:
    line = '{"excerpt": "x", "findings": [], "score": 3, "trace_id": "t"}'
    shown = replace(INPUT, examples=line)
    assert prompt_length(shown) > prompt_length(INPUT)
    hidden = replace(shown, knobs=replace(INPUT.knobs, max_examples=0))
    assert prompt_length(hidden) == prompt_length(INPUT)


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1), st.integers(10, 9000)), max_size=30))
def test_each_niche_holds_the_best_that_was_offered(offers: list[tuple[float, float, int]]) -> None:
    founder = member(0.0)
    archive = Archive(founder)
    offered = [member(*offer, mark=str(number)) for number, offer in enumerate(offers)]
    for each in offered:
        archive.offer(each)
    niche: Callable[[Member], object] = archive.niche
    niches = {niche(each) for each in (founder, *offered)}
    assert {niche(each) for each in archive.members} == niches
    assert len(archive.members) == len(niches)
    for kept in archive.members:
        assert kept.gain == max(each.gain for each in (founder, *offered) if niche(each) == niche(kept))
    assert archive.members == best_first(archive.members)
