"""A judge program as a DSPy module and back. Needs the dspy library."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import dspy

from judges.judgment import Judgment
from judges.lm import LM, JudgeError
from judges.program import PARTS, JudgeProgram, JudgeSuite
from labeled_traces.dataset import LabeledTrace
from labeled_traces.trace import Trace
from pipeline.evaluate import EvaluateSettings, evaluate

SIGNATURE = "trace -> findings: list, score"
AUGMENTED = "augmented"
"""dspy's mark of a complete demo, no part of an example."""


class UnusableJudgment(RuntimeError):
    """A judgment without a score. It is missing data, so it is raised: a metric could count a prediction as 0."""

    def __init__(self, judgment: Judgment) -> None:
        super().__init__(f"trace {judgment.trace_id!r} has no judgment: {judgment.outcome}: {judgment.detail}")
        self.judgment = judgment


@dataclass(frozen=True)
class Reading:
    """How a module reads: with which model, as which repeat. Copies of a module share it."""

    lm: LM
    repeat: int = 0
    seed: int = 0

    def __deepcopy__(self, memo: object) -> Reading:
        return self


class JudgeModule(dspy.Module):  # type: ignore[misc]
    """A judge program as a `dspy.Module` with one predictor.

    The predictor's instructions are the text of `part`, its demos are the examples (one demo a line, with the excerpt
    as the field `trace`). What dspy's optimisers put there is read back by `program`; the rest of the program stays as
    it is. The prompt is ours, and so are the calls: dspy's adapters and cache have no part in them.
    """

    def __init__(
        self, program: JudgeProgram, reading: Reading | None = None, part: str = "rubric", origin: str = "dspy"
    ) -> None:
        """Raises:
        JudgeError: `part` is no part with instructions.
        """
        super().__init__()
        if part == "examples" or part not in PARTS:
            texts = [name for name in PARTS if name != "examples"]
            raise JudgeError(f"part {part!r} cannot be a module's instructions: accepted are {', '.join(texts)}")
        self.input = program
        self.reading = reading
        self.part = part
        self.origin = origin
        self.judge = dspy.Predict(dspy.Signature(SIGNATURE, program.parts[part]))
        self.judge.demos = [to_demo(line) for line in _lines(program.examples)]
        # In dspy's form, which has lost white space at the ends and the spelling of the JSON.
        self._untouched = (self.judge.signature.instructions, [_fields(demo) for demo in self.judge.demos])

    @property
    def program(self) -> JudgeProgram:
        """The program that this module now is: the input program itself where nothing has changed.

        Raises:
            JudgeError: a demo is no example (its trace is no excerpt, its findings are none).
        """
        instructions, demos = self._untouched
        texts = {}
        if self.judge.signature.instructions != instructions:
            texts[self.part] = self.judge.signature.instructions
        if [_fields(demo) for demo in self.judge.demos] != demos:
            texts["examples"] = "\n".join(to_line(demo) for demo in self.judge.demos)
        return self.input.with_parts(texts, self.origin) if texts else self.input

    def forward(self, trace: Trace) -> Any:
        """One judgment, as a prediction with `findings` (as the examples spell them), `score`, `rationale`, `judgment`.

        Raises:
            UnusableJudgment: the judgment has no score, and is not "not applicable" either.
            JudgeError: the module has no model to read with.
            BudgetExhausted: the call was not sent.
        """
        if self.reading is None:
            raise JudgeError("this module has no model to read with: accepted is JudgeModule(program, Reading(lm))")
        settings = EvaluateSettings(first_repeat=self.reading.repeat, seed=self.reading.seed)
        suite = JudgeSuite({self.input.dimension: self.program})
        judgment = evaluate(suite, [LabeledTrace(trace)], self.reading.lm, settings)[0]
        if not judgment.usable:
            raise UnusableJudgment(judgment)
        prediction = dspy.Prediction(
            findings=_findings(judgment),
            score=str(judgment.outcome) if judgment.score is None else judgment.score,
            rationale=judgment.rationale,
            judgment=judgment,
        )
        if dspy.settings.trace is not None:
            dspy.settings.trace.append((self.judge, {"trace": trace}, prediction))
        return prediction


def to_demo(line: str) -> Any:
    """A line of a program's `examples` as a demo. It holds what the line holds: no label, no gold answer."""
    row = json.loads(line)
    excerpt = row.pop("excerpt")
    return dspy.Example({"trace": excerpt, **row}).with_inputs("trace")


def to_line(demo: Any) -> str:
    """A demo as a line of a program's `examples`.

    Raises:
        JudgeError: its trace is not the text of an excerpt.
    """
    fields = _fields(demo)
    if not isinstance(fields.get("trace"), str):
        raise JudgeError(f"a demo's trace is a {type(fields.get('trace')).__name__}: accepted is an excerpt's text")
    excerpt = fields.pop("trace")
    return json.dumps({"excerpt": excerpt, **fields}, ensure_ascii=False)


def _lines(examples: str) -> list[str]:
    return [line for line in examples.split("\n") if line.strip()]


def _fields(demo: Any) -> dict[str, Any]:
    """A demo's own fields: a dictionary where the module was loaded from a file, else an Example."""
    return {key: value for key, value in demo.items() if key != AUGMENTED}


def _findings(judgment: Judgment) -> list[dict[str, Any]]:
    return [
        {
            "span_ids": list(finding.span_ids),
            "explanation": finding.explanation,
            "evidence": finding.evidence,
            "severity": str(finding.severity),
            "confidence": finding.confidence,
        }
        for finding in judgment.findings
    ]
