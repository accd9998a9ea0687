from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.decision import DecisionRule
from judges.mlflow_layout import instructions
from judges.program import JudgeProgram, Knobs, seed_program
from labeled_traces.label import Impact
from pipeline.config import PipelineError
from pipeline.export.exported import Exported, Provenance, judge_tags, read_version, suite_of

RULE = DecisionRule(min_severity=Impact.MEDIUM, min_confidence=40, max_per_trace=3)
PROGRAM = seed_program("tool_calling", Knobs(layout="mlflow", model="openai/m"))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


@dataclass
class Version:
    """As MLflow gives a version of a prompt."""

    tags: dict[str, str]
    version: str = "3"
    template: str = field(default_factory=lambda: instructions(PROGRAM))


def tags(program: JudgeProgram = PROGRAM, **origin: Any) -> dict[str, str]:
    provenance = Provenance("a-run", **origin)
    live = {"scorer": "gpa_x", "scorer_version": "7"}
    return judge_tags(program, RULE, "12") | provenance.tags(program) | live


def exported(**changes: Any) -> Exported:
    return replace(read_version("gpa_tool_calling", Version(tags())), **changes)


def test_a_judge_comes_back_from_its_tags() -> None:
    judge = read_version("gpa_tool_calling", Version(tags(verdict="PASS", run_id="r1", extra={"labels": "9"})))
    assert (judge.program, judge.rule, judge.dimension) == (PROGRAM, RULE, "tool_calling")
    assert (judge.scorer, judge.scorer_version, judge.version) == ("gpa_x", 7, 3)
    assert judge.uri == "prompts:/gpa_tool_calling/3"
    assert (judge.verdict, judge.tags["run"], judge.tags["run_id"], judge.tags["labels"]) == (
        "PASS",
        "a-run",
        "r1",
        "9",
    )
    assert judge.tags["program_hash"] == PROGRAM.hash
    assert "program" not in judge.tags
    assert judge.is_current


@given(TEXT, TEXT, TEXT, st.sampled_from([None, "0123456789abcdef"]))
def test_any_program_comes_back(rubric: str, notes: str, template: str, parent: str | None) -> None:
    example = json.dumps({"excerpt": notes, "findings": [], "score": 3}, ensure_ascii=False)
    program = JudgeProgram(
        "plan_quality",
        f"x{rubric}",
        notes,
        f"{example}\n",
        template,
        Knobs(temperature=0.25, endpoint="http://127.0.0.1:1/v1", max_examples=0, plan_extraction=False),
        parent,
        "gepa",
    )
    judge = read_version("p", Version(tags(program)))
    assert judge.program == program
    assert judge.program.hash == program.hash


def test_no_verdict_is_none_and_only_real_ones_are_not_simulated() -> None:
    assert exported().verdict == "none"
    assert not exported().simulated
    for program, simulated in ((PROGRAM, True), (PROGRAM.with_knobs(model="simulated/default"), False)):
        assert read_version("p", Version(tags(program, simulated=simulated))).simulated


def test_a_text_that_this_version_does_not_send_any_more() -> None:
    assert not read_version("p", Version(tags(), template="An older wording. {{ inputs }}")).is_current


def test_what_makes_a_judge_the_same() -> None:
    judge = exported()
    assert judge.is_same(judge_tags(PROGRAM, RULE, "12"))
    assert not judge.is_same(judge_tags(PROGRAM, DecisionRule(), "12"))
    assert not judge.is_same(judge_tags(PROGRAM, RULE, "13"))
    assert not judge.is_same(judge_tags(PROGRAM.with_knobs(temperature=0.1), RULE, "12"))


@pytest.mark.parametrize(
    "broken",
    [
        {"program": "{"},
        {"program": "[]"},
        {"program": '{"dimension": "tool_calling"}'},
        {"rule": '{"min_judges": 0}'},
        {"rule": "3"},
        {"scorer_version": "x"},
    ],
)
def test_other_prompts_are_refused(broken: dict[str, str]) -> None:
    with pytest.raises(PipelineError, match=r"version 3 of the prompt gpa_x is no exported judge.*--name-prefix"):
        read_version("gpa_x", Version({**tags(), **broken}))


@pytest.mark.parametrize("missing", ["program", "rule", "scorer", "scorer_version"])
def test_missing_tags_are_refused(missing: str) -> None:
    with pytest.raises(PipelineError, match=missing):
        read_version("gpa_x", Version({key: value for key, value in tags().items() if key != missing}))


def test_judges_of_one_rule_are_a_suite() -> None:
    other = exported(dimension="plan_quality", program=seed_program("plan_quality"))
    suite = suite_of({"plan_quality": other, "tool_calling": exported()})
    assert list(suite.programs) == ["plan_quality", "tool_calling"]
    assert suite.rule == RULE
    with pytest.raises(PipelineError, match="share one decision rule"):
        suite_of({"plan_quality": replace(other, rule=DecisionRule()), "tool_calling": exported()})
    with pytest.raises(PipelineError, match="none"):
        suite_of({})
