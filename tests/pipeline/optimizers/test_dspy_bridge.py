"""A judge program as a DSPy module and back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.judge import judge
from judges.lm import BudgetExhausted, JudgeError
from judges.program import PARTS, JudgeProgram, seed_program
from labeled_traces.label import DIMENSIONS
from pipeline.optimizers.dspy_bridge import JudgeModule, Reading, UnusableJudgment, to_demo, to_line

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import FakeLM, World

LINE = '{"excerpt": "a {b} é", "findings": [], "score": 3, "trace_id": "t"}'
TEXTS = [part for part in PARTS if part != "examples"]
FINDING = {"span_ids": ["S1"], "explanation": "off", "evidence": "", "severity": "high", "confidence": 90}


@pytest.mark.parametrize("part", TEXTS)
@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_a_module_that_nothing_changed_is_the_program(dimension: str, part: str) -> None:
    program = seed_program(dimension)
    assert JudgeModule(program, part=part).program is program


@given(
    rubric=st.text(min_size=1).filter(lambda text: text.strip() and text.isprintable()),
    spaces=st.text(" \n\t", max_size=4),
    excerpt=st.text(),
)
def test_white_space_and_the_spelling_of_examples_survive(rubric: str, spaces: str, excerpt: str) -> None:
    example = json.dumps({"score": 0, "excerpt": excerpt, "findings": [FINDING]}, separators=(",", ":"))
    try:
        program = JudgeProgram("tool_calling", f"{spaces}{rubric}{spaces}", examples=f"\n{example}\n\n{LINE}")
    except JudgeError:  # a lone surrogate
        return
    module = JudgeModule(program)
    assert module.program is program
    assert module.deepcopy().program.hash == program.hash
    assert [to_demo(to_line(demo)) for demo in module.judge.demos] == module.judge.demos


@pytest.mark.parametrize("part", TEXTS)
def test_new_instructions_are_a_new_text_of_their_part_alone(part: str) -> None:
    program = JudgeProgram("tool_calling", "Look.\n", examples=LINE)
    module = JudgeModule(program, part=part, origin="a test")
    module.judge.signature = module.judge.signature.with_instructions("Look {twice}.\n\n### Scores\n- 3: none")
    changed = module.program
    assert changed.parts == {**program.parts, part: "Look {twice}.\n\n### Scores\n- 3: none"}
    assert (changed.parent, changed.origin, changed.knobs) == (program.hash, "a test", program.knobs)


def test_new_demos_are_new_examples() -> None:
    program = JudgeProgram("tool_calling", "Look.\n", examples=LINE)
    module = JudgeModule(program)
    demo = dspy.Example(augmented=True, trace='@span S1\n> "x"', findings=[FINDING], score=0, trace_id="u")
    module.judge.demos = [demo, *module.judge.demos]
    changed = module.program
    first, second = changed.examples.split("\n")
    assert json.loads(first) == {"excerpt": '@span S1\n> "x"', "findings": [FINDING], "score": 0, "trace_id": "u"}
    assert second == LINE
    assert changed.rubric == program.rubric
    module.judge.demos = []
    assert module.program.examples == ""
    assert module.reset_copy().program.examples == ""


def test_a_demo_holds_what_the_line_holds_and_no_more() -> None:
    demo = to_demo(LINE)
    assert demo.toDict() == {"trace": "a {b} é", "findings": [], "score": 3, "trace_id": "t"}
    assert demo.inputs().toDict() == {"trace": "a {b} é"}


def test_a_demo_that_is_a_whole_trace_is_refused(world: World) -> None:
    module = JudgeModule(world.program)
    row = next(iter(world.development.trainset))
    module.judge.demos = [dspy.Example(trace=row.trace, findings=[], score=3)]
    with pytest.raises(JudgeError, match="excerpt"):
        _ = module.program


def test_a_demo_without_findings_is_refused(world: World) -> None:
    module = JudgeModule(world.program)
    module.judge.demos = [dspy.Example(trace="x", score=3)]
    with pytest.raises(JudgeError, match="findings"):
        _ = module.program


@pytest.mark.parametrize("part", ["examples", "knobs"])
def test_a_part_without_instructions_is_refused(world: World, part: str) -> None:
    with pytest.raises(JudgeError, match="rubric, architecture_notes, output_template"):
        JudgeModule(world.program, part=part)


def test_a_saved_module_is_loaded_as_it_was(tmp_path: Path) -> None:
    program = JudgeProgram("tool_calling", " Look.\n", examples=f"{LINE}\n")
    module = JudgeModule(program)
    module.save(str(tmp_path / "same.json"))
    loaded = JudgeModule(program)
    loaded.load(str(tmp_path / "same.json"))
    assert loaded.program is program
    module.judge.signature = module.judge.signature.with_instructions("Look twice.")
    module.judge.demos = module.judge.demos * 2
    module.save(str(tmp_path / "other.json"))
    loaded.load(str(tmp_path / "other.json"))
    assert loaded.program == module.program
    assert loaded.program.examples == f"{LINE}\n{LINE}"


# -- reading ---------------------------------------------------------------------------------------------------------


def test_it_sends_what_the_judge_sends_and_says_what_the_judge_says(world: World, fake_lm: type[FakeLM]) -> None:
    program = world.program.with_parts({"examples": LINE}, "test")
    mine, ours = fake_lm(finds=lambda _: 1.0), fake_lm(finds=lambda _: 1.0)
    module = JudgeModule(program, Reading(mine, repeat=4, seed=7))
    for row in world.development.valset:
        said = module(trace=row.trace)
        judgment = asyncio.run(judge(program, row.trace, ours, 4, seed=7))
        assert said.judgment == judgment
        assert (said.score, said.rationale) == (judgment.score, judgment.rationale)
        assert [finding["span_ids"] for finding in said.findings] == [[*f.span_ids] for f in judgment.findings]
        assert {finding["severity"] for finding in said.findings} <= {"high"}
    assert mine.judged == ours.judged


def test_what_runs_is_what_dspy_changed(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm()
    module = JudgeModule(world.program, Reading(lm))
    module.judge.signature = module.judge.signature.with_instructions("Look for {this}.")
    module.judge.demos = [to_demo(LINE)]
    module(trace=next(iter(world.development.valset)).trace)
    prompt = lm.judged[0].messages[-1].content
    assert "## Rubric\n\nLook for {this}.\n" in prompt
    assert "> a {b} é" in prompt


def test_it_reads_where_an_event_loop_runs(world: World, fake_lm: type[FakeLM]) -> None:
    trace = next(iter(world.development.valset)).trace
    module = JudgeModule(world.program, Reading(fake_lm()))

    async def notebook() -> Any:
        return module(trace=trace).judgment

    assert asyncio.run(notebook()) == module(trace=trace).judgment


def test_copies_share_the_model(world: World, fake_lm: type[FakeLM]) -> None:
    lm = fake_lm()
    copy = JudgeModule(world.program, Reading(lm)).deepcopy()
    copy(trace=next(iter(world.development.valset)).trace)
    assert len(lm.judged) == 1


def test_an_unusable_judgment_is_raised_and_not_a_score(world: World, fake_lm: type[FakeLM]) -> None:
    module = JudgeModule(world.program, Reading(fake_lm(replies=lambda *_: "no JSON")))
    row = next(iter(world.development.valset))
    with pytest.raises(UnusableJudgment, match="unparseable") as raised:
        module(trace=row.trace)
    assert raised.value.judgment.trace_id == row.trace_id


def test_a_used_up_budget_is_raised(world: World, fake_lm: type[FakeLM]) -> None:
    module = JudgeModule(world.program, Reading(fake_lm(fails=lambda _: BudgetExhausted("no more"))))
    with pytest.raises(BudgetExhausted):
        module(trace=next(iter(world.development.valset)).trace)


def test_without_a_model_it_says_how_to_give_one(world: World) -> None:
    with pytest.raises(JudgeError, match="Reading"):
        JudgeModule(world.program)(trace=next(iter(world.development.valset)).trace)


@pytest.mark.parametrize("threads", [1, 4])
def test_dspy_evaluates_it_in_threads(world: World, fake_lm: type[FakeLM], threads: int) -> None:
    rows = [
        dspy.Example(trace=row.trace, wrong=bool(row.errors)).with_inputs("trace") for row in world.development.valset
    ]
    lm = fake_lm(finds=lambda _: 1.0, alarms=lambda _: 0.0)
    evaluate = dspy.Evaluate(
        devset=rows, metric=lambda row, said: float(row.wrong == bool(said.findings)), num_threads=threads
    )
    assert evaluate(JudgeModule(world.program, Reading(lm))).score == 100.0
    assert len(lm.judged) == len(rows)


def test_dspy_traces_the_predictor(world: World, fake_lm: type[FakeLM]) -> None:
    module = JudgeModule(world.program, Reading(fake_lm()))
    trace = next(iter(world.development.valset)).trace
    with dspy.context(trace=[]):
        said = module(trace=trace)
        assert [(step[0], step[1], step[2]) for step in dspy.settings.trace] == [(module.judge, {"trace": trace}, said)]
