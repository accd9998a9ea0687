from __future__ import annotations

from typing import Any

import pytest

from judges.judgment import HOLISTIC
from judges.mlflow_layout import instructions
from judges.program import JudgeProgram, Knobs, seed_program
from labeled_traces.label import DIMENSIONS
from pipeline.config import PipelineError
from pipeline.export.scorer import MAX_LENGTH, build_scorer, check_request, same_scorer

IN_MLFLOW = Knobs(layout="mlflow", model="openai/m")


def build(program: JudgeProgram, name: str = "gpa_x") -> Any:
    return build_scorer(name, program, instructions(program))


@pytest.mark.parametrize("dimension", [*DIMENSIONS, HOLISTIC])
def test_a_judge_of_mlflow_that_sends_what_the_layout_says(dimension: str) -> None:
    program = seed_program(dimension, IN_MLFLOW)
    scorer = build(program)
    assert check_request(scorer, program).startswith("mlflow 3.")
    assert (scorer.name, scorer.model) == ("gpa_x", "openai:/m")
    assert scorer.inference_params == {"temperature": 0.7, "max_tokens": 2048}
    assert scorer.template_variables == {"inputs"}


def test_another_text_or_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    program = seed_program("plan_quality", IN_MLFLOW)
    scorer = build(program)
    with pytest.raises(PipelineError, match=r"another way than mlflow 3\.17"):
        check_request(scorer, program.with_parts({"rubric": "Other."}, "test"))
    result_first = build(program)
    result_first._generate_rationale_first = False
    with pytest.raises(PipelineError, match="another way"):
        check_request(result_first, program)
    monkeypatch.setattr(type(scorer), "_build_user_message", lambda *_: "inputs: {}")
    with pytest.raises(PipelineError, match="another way"):
        check_request(scorer, program)
    monkeypatch.delattr(type(scorer), "_build_user_message")
    with pytest.raises(PipelineError, match="another way"):
        check_request(scorer, program)


def test_limits_are_told_before_mlflow_is_asked() -> None:
    long = seed_program("plan_quality", IN_MLFLOW).with_parts({"rubric": "é" * MAX_LENGTH}, "test")
    with pytest.raises(PipelineError, match=r"gpa_x: the judge's text has 1\d{5} characters: accepted are 100000"):
        build(long)
    for name in ("gpa x", "gpa/x", "", "gpä", "x" * 201):
        with pytest.raises(PipelineError, match="letters, digits, dots, hyphens and underscores"):
            build(seed_program("plan_quality", IN_MLFLOW), name)


def test_what_mlflow_refuses_is_one_of_our_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    program = seed_program("plan_quality", IN_MLFLOW)
    with pytest.raises(PipelineError, match=r"makes no judge of it: .*unsupported variables"):
        build_scorer("gpa_x", program, "{{ inputs }} {{ name }}")

    def older(name: str, instructions: str, model: str) -> None: ...

    monkeypatch.setattr("mlflow.genai.judges.make_judge", older)
    with pytest.raises(PipelineError, match=r"MLflow 3.*makes no judge of it: .*unexpected keyword"):
        build(program)


def test_scorers_are_the_same_if_they_send_the_same() -> None:
    program = seed_program("plan_quality", IN_MLFLOW)
    assert same_scorer(build(program), build(program, "other_name"))
    for other in (
        program.with_knobs(temperature=0.1),
        program.with_knobs(model="openai/n"),
        program.with_parts({"rubric": "Other."}, "test"),
    ):
        assert not same_scorer(build(program), build(other))
