from __future__ import annotations

from dataclasses import replace

import pytest

from judges.program import JudgeProgram
from pipeline.metrics.table import MatchTable
from pipeline.optimizers.archive import Member
from pipeline.optimizers.islands import Islands
from pipeline.optimizers.scoring import Scores

EMPTY = MatchTable("span", True, (), ("tool_calling",), (), {})
INPUT = JudgeProgram("tool_calling", "r" * 1000)


def member(gain: float, precision: float = 0.5, mark: str = "") -> Member:
    program = replace(INPUT, rubric=mark + INPUT.rubric[len(mark) :])
    return Member(program, Scores(EMPTY, {}, {"t": {"precision": precision}}, 0), gain)


FOUNDER = member(0.0)


def test_every_island_starts_with_the_founder_alone() -> None:
    islands = Islands(3, FOUNDER, "x")
    assert [archive.members for archive in islands.archives] == [[FOUNDER]] * 3
    assert islands.members == [FOUNDER]
    assert islands.parents(1) == (FOUNDER, FOUNDER)


def test_the_best_moves_one_island_on() -> None:
    islands = Islands(3, FOUNDER, "x")
    good, better = member(0.1, 0.9, "g"), member(0.2, 0.3, "b")
    islands.archives[0].offer(good)
    islands.archives[2].offer(better)
    islands.migrate()
    assert [archive.members for archive in islands.archives] == [
        [better, good, FOUNDER],
        [good, FOUNDER],
        [better, FOUNDER],
    ]
    islands.migrate()
    assert [archive.members[0] for archive in islands.archives] == [better, better, better]
    assert islands.members == [better, good, FOUNDER]


def test_a_single_island_migrates_to_itself() -> None:
    islands = Islands(1, FOUNDER, "x")
    islands.migrate()
    assert islands.members == [FOUNDER]


def test_parents_are_two_and_the_better_comes_first() -> None:
    islands = Islands(1, FOUNDER, "x")
    others = [member(gain, precision, str(gain)) for gain, precision in ((0.3, 0.1), (0.2, 0.3), (-0.1, 0.9))]
    for other in others:
        islands.archives[0].offer(other)
    pairs = [islands.parents(0) for _ in range(200)]
    assert all(first.gain > second.gain for first, second in pairs)
    firsts = [first.gain for first, _ in pairs]
    assert firsts.count(0.3) > firsts.count(0.2) > firsts.count(0.0) > 0
    assert {second.gain for _, second in pairs} == {0.2, 0.0, -0.1}


def test_islands_draw_apart_and_alike_for_a_name() -> None:
    def drawn(name: str) -> list[list[float]]:
        return [[draw.random() for _ in range(3)] for draw in Islands(2, FOUNDER, name).draws]

    assert drawn("a") == drawn("a")
    assert drawn("a") != drawn("b")
    first, second = drawn("a")
    assert first != second


@pytest.mark.parametrize("count", [1, 4])
def test_there_are_as_many_as_asked_for(count: int) -> None:
    assert len(Islands(count, FOUNDER, "x").archives) == count
