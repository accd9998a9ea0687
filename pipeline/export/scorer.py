"""A judge program as a judge of MLflow, and the check that MLflow sends what we validated."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from typing import Any, Literal

from judges.mlflow_layout import build_messages, judge_inputs, response_schema, results
from judges.program import JudgeProgram
from judges.render import Rendering
from pipeline.config import PipelineError
from pipeline.export.models import inference_params, mlflow_model

MAX_LENGTH = 100_000
"""Most characters of a prompt's text, and of a tag's."""
READS = """\
A registered judge reads `inputs={"trace": [the rendered trace, line by line]}` and nothing else. `gpa-judges score`
calls it so, and Python does with

    from judges.mlflow_layout import judge_inputs
    from judges.render import render
    scorer(inputs=judge_inputs(render(trace, 24_000)))    # the judge's `trace_tokens`

where `trace` is a `labeled_traces.trace.Trace`. Warning: `scorer(trace=...)`, `mlflow.genai.evaluate` on traces and
MLflow's automatic scoring give it the inputs of the root span alone: it answers, often "3", and has judged nothing."""
"""What whoever calls a registered judge has to know."""
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_SAMPLE = Rendering('@span a kind=TOOL name="é" parent=-\n> "{{ inputs }}"\n', 0, 0, ("a",))


def check_name(name: str) -> None:
    """
    Raises:
        PipelineError: MLflow takes no prompt of this name.
    """
    if not _NAME.fullmatch(name) or len(name) > 200:
        raise PipelineError(
            f"{name!r} is no name of a prompt: accepted are at most 200 letters, digits, dots, hyphens and underscores"
        )


def build_scorer(name: str, program: JudgeProgram, template: str) -> Any:
    """MLflow's judge. `template` is the text of its instructions.

    Raises:
        PipelineError: MLflow does not take it: the name, the model, the text's length, or an MLflow that is too old.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.genai.judges import make_judge

    check_name(name)
    if len(template) > MAX_LENGTH:
        raise PipelineError(
            f"{name}: the judge's text has {len(template)} characters: accepted are {MAX_LENGTH}; show fewer examples "
            "(knob max_examples) or shorten its parts"
        )
    try:
        return make_judge(
            name=name,
            instructions=template,
            model=mlflow_model(program.knobs),
            description=f"{program.dimension}: 3 no error, 2 low, 1 medium, 0 high severity (gpa-judges)",
            feedback_value_type=Literal[results(program.dimension)],
            generate_rationale_first=True,
            inference_params=inference_params(program.knobs),
        )
    except (TypeError, MlflowException) as error:
        raise PipelineError(f"{name}: MLflow {version('mlflow')} makes no judge of it: {error}") from error


def check_request(scorer: Any, program: JudgeProgram) -> str:
    """Holds the judge against our layout, with the code that MLflow itself runs when the judge is called.

    Returns the release of MLflow that was held against it.

    Raises:
        PipelineError: this release of MLflow sends something else than what was validated.
    """
    theirs: object = None
    release = f"mlflow {version('mlflow')}"
    try:
        system = scorer._build_system_message(False)
        user = scorer._build_user_message(judge_inputs(_SAMPLE), None, None, None)
        fields = scorer._create_response_format_model().model_json_schema()
        theirs = (system, user, json.dumps(fields["properties"]))
    except (AttributeError, TypeError):
        pass
    messages = build_messages(program, _SAMPLE)
    fields = response_schema(program.dimension)
    ours = (*(message.content for message in messages), json.dumps(fields["properties"]))
    if theirs != ours:
        raise PipelineError(
            f"{release} words a judge's request in another way than mlflow 3.17, which the layout `mlflow` renders: "
            "accepted is mlflow 3.17, where judges are exported and where they run"
        )
    return release


def same_scorer(one: Any, other: Any) -> bool:
    """Whether two judges of MLflow send the same."""
    key = "instructions_judge_pydantic_data"
    return bool(one.model_dump()[key] == other.model_dump()[key])
