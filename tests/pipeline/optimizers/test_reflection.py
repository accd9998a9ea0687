from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from judges.judgment import Finding
from judges.lm import LMReply, LMRequest
from labeled_traces.label import ScoreLabel
from pipeline.metrics.cell import Cell
from pipeline.optimizers.reflection import MOST_LINES, Reflector, feedback, reflection_prompt

if TYPE_CHECKING:
    from labeled_traces.dataset import LabeledTrace
    from tests.pipeline.optimizers.conftest import FakeLM, World

D = "tool_calling"


@pytest.fixture
def bad(world: World) -> LabeledTrace:
    return next(row for row in world.development.trainset if row.errors)


@pytest.fixture
def good(world: World) -> LabeledTrace:
    return next(row for row in world.development.trainset if not row.errors)


def at(row: LabeledTrace, span: str, text: str = "it is off") -> Finding:
    return Finding(D, (f"{row.trace_id}/{span}",), text)


def test_each_kind_has_its_line(bad: LabeledTrace, good: LabeledTrace) -> None:
    missed = Cell(True, 3, (), bad.errors)
    misplaced = Cell(True, 0, (at(bad, "plan"),), bad.errors, ((0, 0),))
    located = Cell(True, 0, (at(bad, "tool"),), bad.errors, ((0, 0),))
    spurious = Cell(True, 2, (at(good, "plan", "too terse\nfor  a@b.org"),), ())
    assert feedback([(bad, (missed,))], D) == [
        '- missed: category=wrong_argument; impact=high; at=TOOL "db_lookup"',
        "- wrong score: said=3; people said=0",
    ]
    assert feedback([(bad, (misplaced,))], D) == [
        '- misplaced: category=wrong_argument; reported at=LLM "planner"; belongs at=TOOL "db_lookup"'
    ]
    assert feedback([(bad, (located,))], D) == ['- good: category=wrong_argument; found at=TOOL "db_lookup"']
    assert feedback([(good, (spurious,))], D) == [
        '- spurious: reported at=LLM "planner" on a trace without this error; '
        "the judge said: too terse for <e-mail address>",
        "- wrong score: said=2; people said=3",
    ]


def test_repeats_of_one_trace_count_once_and_traces_one_by_one(bad: LabeledTrace) -> None:
    missed = Cell(True, 0, (), bad.errors)
    once = feedback([(bad, (missed, missed))], D)
    assert len(once) == 1
    assert feedback([(bad, (missed,)), (bad, (missed,))], D) == once * 2
    assert len(feedback([(bad, (missed,))] * 50, D)) == MOST_LINES["missed"]


def test_what_cannot_be_used_says_nothing(bad: LabeledTrace) -> None:
    assert feedback([(bad, (Cell(False, None, (), bad.errors),))], D) == []


def test_people_who_scored_are_believed(good: LabeledTrace) -> None:
    scored = replace(good, scores=(ScoreLabel(D, 2, "a"), ScoreLabel(D, 3, "b"), ScoreLabel("plan_quality", 0)))
    assert feedback([(scored, (Cell(True, 2, (), ()),))], D) == []
    assert feedback([(scored, (Cell(True, 0, (), ()),))], D) == ["- wrong score: said=0; people said=2 or 3"]


def test_no_word_of_a_label_is_quoted(bad: LabeledTrace) -> None:
    cells = (Cell(True, 3, (), bad.errors), Cell(True, 0, (at(bad, "plan"),), bad.errors, ((0, 0),)))
    text = "\n".join(feedback([(bad, cells)], D))
    for error in bad.errors:
        assert error.description not in text
        assert error.evidence not in text


def test_the_prompt_is_filled_in_one_pass() -> None:
    prompt = reflection_prompt("rubric", D, "Keep {feedback} and {part}.", ["- missed: {current}"])
    assert prompt.startswith("# Improve a judge\nPart: rubric\nDimension: tool_calling\n")
    assert "<<<\nKeep {feedback} and {part}.\n>>>" in prompt
    assert "- missed: {current}" in prompt


def test_an_equal_prompt_is_a_new_repeat(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm(reflects=lambda *_: "Here:\n<<<\nold\n>>>\nor rather\n<<<\nLook twice.\n\nThen report.\n>>>\n")
    reflector = Reflector(world.context(lm), D)
    assert reflector.propose("rubric", "Look.", ["- a"]) == "Look twice.\n\nThen report."
    reflector.propose("rubric", "Look.", ["- a"])
    reflector.propose("rubric", "Look.", ["- b"])
    assert [request.repeat for request in lm.reflected] == [0, 1, 0]
    assert {request.temperature for request in lm.reflected} == {1.0}
    assert {request.model for request in lm.reflected} == {"simulated/default"}
    assert reflector.calls == 3


@pytest.mark.parametrize(("text", "finish"), [("no fence", "stop"), ("<<<\nhalf a", "stop"), ("<<<\nx\n>>>", "length")])
def test_a_reply_without_a_whole_text_is_none(world: World, text: str, finish: str) -> None:
    class Cut:
        async def complete(self, request: LMRequest) -> LMReply:
            assert request.messages
            return LMReply(text, finish_reason=finish)

    assert Reflector(world.context(Cut()), D).propose("rubric", "Look.", []) is None
