from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.program import PARTS, JudgeProgram
from pipeline.optimizers.archive import Member
from pipeline.optimizers.breeding import Breeder, crossed, unstable_first
from pipeline.optimizers.proposer import Proposal, Proposer
from pipeline.optimizers.scoring import Scorer, Scores

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import FakeLM, World

EXAMPLE = '{"excerpt": "x", "findings": [], "score": 3, "trace_id": "t"}'
A = JudgeProgram("tool_calling", "rubric a", "notes a", "", "template a")
B = JudgeProgram("tool_calling", "rubric b", "notes b", EXAMPLE, "template a")


@given(st.integers())
def test_a_crossing_takes_each_part_from_one_parent_and_something_from_both(seed: int) -> None:
    child = crossed(A, B, random.Random(seed))
    assert child is not None
    assert all(child.parts[part] in (A.parts[part], B.parts[part]) for part in PARTS)
    assert child.parts != A.parts
    assert child.parts != B.parts
    assert child.parent == A.hash


def test_parents_that_differ_in_one_part_have_no_new_child() -> None:
    assert crossed(A, A, random.Random(0)) is None
    assert crossed(A, A.with_parts({"rubric": "rubric b"}, "test"), random.Random(0)) is None


@dataclass
class Scripted:
    """A proposer whose proposals a test writes; it keeps which parts it was asked for."""

    proposal: Proposal
    asked: list[list[str]] = field(default_factory=list)

    def propose(self, parent: JudgeProgram, parts: list[str], told: Any, draw: Any) -> Proposal:  # noqa: ARG002
        self.asked.append(parts)
        return self.proposal


@pytest.fixture
def scores(world: World, fake_lm: type[FakeLM]) -> Scores:
    rows = list(world.development.trainset)[:8]
    return Scorer(world.context(fake_lm(finds=lambda _: 0.5)), "tool_calling").score(world.program, rows, 3)


def breeder(proposer: Scripted, crossover: float, part_rate: float = 0.5) -> Breeder:
    return Breeder(cast("Proposer", proposer), crossover, part_rate)


def test_a_mutation_rewrites_at_least_one_part(scores: Scores) -> None:
    proposer = Scripted(Proposal({"rubric": "new"}, ("examples: too long",)))
    parents = (Member(A, scores, 0.1), Member(B, scores, 0.0))
    for seed in range(60):
        bred = breeder(proposer, 0.0, part_rate=0.1).breed(parents, set(), random.Random(seed))
    assert bred.program == A.with_parts({"rubric": "new"}, "evolution")
    assert bred.how == "rewrites rubric"
    assert bred.refused == ("examples: too long",)
    assert {len(parts) for parts in proposer.asked} >= {1, 2}
    assert {part for parts in proposer.asked for part in parts} == set(PARTS)
    assert all(parts == [part for part in PARTS if part in parts] for parts in proposer.asked)


def test_a_crossover_asks_no_model(scores: Scores) -> None:
    proposer = Scripted(Proposal({}))
    bred = breeder(proposer, 1.0).breed((Member(A, scores, 0.1), Member(B, scores, 0.0)), set(), random.Random(1))
    assert bred.program is not None
    assert bred.proposal is None
    assert B.hash in bred.how
    assert not proposer.asked


def test_parents_that_cannot_be_crossed_give_a_mutation(scores: Scores) -> None:
    proposer = Scripted(Proposal({"rubric": "new"}))
    parent = Member(A, scores, 0.1)
    assert breeder(proposer, 1.0).breed((parent, parent), set(), random.Random(0)).proposal == proposer.proposal


def test_a_child_that_is_known_costs_nothing(scores: Scores) -> None:
    known = A.with_parts({"rubric": "new"}, "evolution").hash
    parent = Member(A, scores, 0.1)
    bred = breeder(Scripted(Proposal({"rubric": "new"})), 0.0).breed((parent, parent), {known}, random.Random(0))
    assert bred.program is None
    assert "a copy of an earlier candidate" in bred.refused[-1]
    bred = breeder(Scripted(Proposal({}, ("rubric: empty",))), 0.0).breed((parent, parent), set(), random.Random(0))
    assert bred.program is None
    assert bred.refused == ("rubric: empty",)


def test_traces_in_which_the_repeats_differ_are_told_first(scores: Scores) -> None:
    told = unstable_first(scores)
    assert {row.trace_id for row, _ in told} == set(scores.table.trace_ids)
    assert all(len(cells) == 3 for _, cells in told)
    stable = [len({bool(cell.findings) for cell in cells}) == 1 for _, cells in told]
    assert stable == sorted(stable)
    assert False in stable
    assert True in stable
