"""The layout `mlflow`: the request that a judge made by MLflow's `make_judge` sends, byte for byte.

MLflow puts a judge's instructions into the system message between words of its own, and the inputs that the judge is
called with into the user message, as JSON. `instructions` and `judge_inputs` are what MLflow is given; `build_messages`
and `response_schema` are what it makes of them (MLflow 3.17; a test holds them against a real judge).

A registered judge is one call and gives a `rationale` and a `result`: no plan is extracted before it, and its findings
stand at the end of the rationale (`judges.reply` reads them).
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from judges.lm import Message
from judges.program import MLFLOW, JudgeProgram
from judges.prompt import NOT_APPLICABLE, PLAN_DIMENSIONS, build_tail, system_text
from judges.render import Rendering
from labeled_traces.label import SCORES

_BEFORE = """\
You are an expert judge tasked with evaluating the performance of an AI
agent on a particular query. You will be given instructions that describe the criteria and
methodology for evaluating the agent's performance on the query.

Your task: """
_RATIONALE, _RESULT = "Detailed explanation for the evaluation", "The evaluation rating/result"

_VARIABLE = re.compile(r"\{\{(?=\s*[a-zA-Z_][a-zA-Z0-9_]*(?:\.[a-zA-Z_][a-zA-Z0-9_]*)*\s*\}\})")


def instructions(program: JudgeProgram) -> str:
    """The judge as one text for `make_judge`. Its only template variable is `{{ inputs }}`.

    What looks like another one in the program's texts gets a space between its first braces, since MLflow would refuse
    it. MLflow closes the text with a full stop, so it has none.
    """
    tail = _VARIABLE.sub("{ {", build_tail(program, None))
    return f"{system_text(MLFLOW)}\n\n{tail}".removesuffix(".")


def results(dimension: str) -> tuple[str, ...]:
    """The values that a judge's `result` may have, as texts: MLflow's server would turn whole numbers into floats."""
    return (*map(str, SCORES), *((NOT_APPLICABLE,) if dimension in PLAN_DIMENSIONS else ()))


def judge_inputs(rendering: Rendering) -> dict[str, list[str]]:
    """What the registered judge is called with: `judge(inputs=...)`. Line by line, so that JSON keeps it readable."""
    return {"trace": rendering.text.removesuffix("\n").split("\n")}


def build_messages(program: JudgeProgram, rendering: Rendering) -> tuple[Message, Message]:
    """System and user message of one judge call."""
    system = f"{_BEFORE}{instructions(program)}{_after(program.dimension)}"
    return Message("system", system), Message("user", _user_text(rendering))


@lru_cache(maxsize=512)
def _user_text(rendering: Rendering) -> str:
    return f"inputs: {json.dumps(judge_inputs(rendering), indent=2, ensure_ascii=False)}"


def response_schema(dimension: str) -> dict[str, Any]:
    """JSON Schema of the reply, key by key in MLflow's order. Its title is the name under which it is sent."""
    return {
        "properties": {
            "rationale": {"description": _RATIONALE, "title": "Rationale", "type": "string"},
            "result": {"description": _RESULT, "enum": list(results(dimension)), "title": "Result", "type": "string"},
        },
        "required": ["rationale", "result"],
        "title": "ResponseFormat",
        "type": "object",
        "additionalProperties": False,
    }


def _after(dimension: str) -> str:
    return f"""\
.

You *must* format your evaluation rating as a JSON object with the following fields (no markdown). \
Pay close attention to the field type of the evaluation rating (string, boolean, numeric, etc.), \
and ensure that it conforms to the instructions.

- rationale (str): {_RATIONALE}
- result (Literal{list(results(dimension))}): {_RESULT}"""
