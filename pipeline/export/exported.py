"""One judge as the registry holds it, and its way there and back through the tags of a prompt version."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from judges.decision import DecisionRule
from judges.lm import JudgeError
from judges.mlflow_layout import instructions
from judges.models.connect import is_simulated
from judges.program import JudgeProgram, JudgeSuite, Knobs
from labeled_traces.trace import text_hash
from pipeline.config import PipelineError

SCORER, SCORER_VERSION = "scorer", "scorer_version"
NO_VERDICT = "none"
_IDENTITY = ("experiment_id", "program_hash", "instructions_hash", "rule")


@dataclass(frozen=True)
class Provenance:
    """Where exported judges come from.

    `run`: the run's name; `run_id`: its MLflow run in the same store, if there is one. `verdict`: of the validation of
    exactly the judges that are exported (layout and model included), "" where there was none. `simulated`: the run's
    traces or its model were. `extra`: further tags.
    """

    run: str
    run_id: str = ""
    verdict: str = ""
    simulated: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)

    def tags(self, program: JudgeProgram) -> dict[str, str]:
        """The tags of a version that may change: another run may come to the same judge, or validate it."""
        simulated = self.simulated or is_simulated(program.knobs.model)
        return {
            "run": self.run,
            "run_id": self.run_id,
            "verdict": self.verdict or NO_VERDICT,
            "simulated": str(simulated).lower(),
            **self.extra,
        }


@dataclass(frozen=True)
class Exported:
    """One judge in the registry: version `version` of the prompt `prompt`, run by version `scorer_version` of the
    scorer `scorer`.

    `program` is the whole judge as it was exported (layout `mlflow`), ready for `judges.judge.judge`; `rule` is the
    decision rule of its suite. `template` is the prompt's text, the instructions that MLflow runs. `tags` are the
    prompt version's: `run`, `run_id`, `program_hash`, ...
    """

    dimension: str
    prompt: str
    version: int
    scorer: str
    scorer_version: int
    program: JudgeProgram
    rule: DecisionRule
    template: str
    tags: Mapping[str, str]

    @property
    def uri(self) -> str:
        """As MLflow writes it: `prompts:/gpa_plan_quality/3`."""
        return f"prompts:/{self.prompt}/{self.version}"

    @property
    def verdict(self) -> str:
        """Of the validation of exactly this judge: `PASS`, `FAIL`, `INCONCLUSIVE` or `none`."""
        return self.tags.get("verdict", NO_VERDICT)

    @property
    def simulated(self) -> bool:
        """Whether the judge's model is simulated, or the traces or the model that it was tuned with."""
        return self.tags.get("simulated") != "false"

    @property
    def is_current(self) -> bool:
        """Whether this version of gpa-judges sends for `program` what MLflow sends for `template`."""
        return instructions(self.program) == self.template

    def is_same(self, tags: Mapping[str, str]) -> bool:
        """Whether these `judge_tags` are of this very judge."""
        return all(self.tags[key] == tags[key] for key in _IDENTITY)


def versions_of(judges: Mapping[str, Exported]) -> dict[str, int]:
    """Dimension -> version."""
    return {name: judge.version for name, judge in judges.items()}


def suite_of(judges: Mapping[str, Exported]) -> JudgeSuite:
    """The judges as a suite that `pipeline.evaluate.evaluate` takes.

    Raises:
        PipelineError: there are none, or their decision rules differ, so they are not of one suite.
    """
    rules = {json.dumps(judge.rule.to_json(), sort_keys=True): judge.rule for judge in judges.values()}
    if len(rules) != 1:
        names = ", ".join(f"{judge.prompt} {judge.version}" for judge in judges.values())
        raise PipelineError(f"no suite: accepted are judges that share one decision rule (given: {names or 'none'})")
    (rule,) = rules.values()
    return JudgeSuite({name: judge.program for name, judge in judges.items()}, rule)


def judge_tags(program: JudgeProgram, rule: DecisionRule, experiment_id: str) -> dict[str, str]:
    """The tags that make a prompt version a judge: they never change."""
    return {
        "dimension": program.dimension,
        "experiment_id": experiment_id,
        "program": json.dumps(_to_json(program), ensure_ascii=False),
        "program_hash": program.hash,
        "rule": json.dumps(rule.to_json(), sort_keys=True),
        "instructions_hash": text_hash(instructions(program))[:16],
        "model": program.knobs.model,
        "endpoint": program.knobs.endpoint,
    }


def read_version(prompt: str, version: Any) -> Exported:
    """The judge in a version of a prompt, as MLflow gives it.

    Raises:
        PipelineError: its tags are no judge.
    """
    tags: dict[str, str] = dict(version.tags)
    try:
        program = _from_json(json.loads(tags["program"]))
        return Exported(
            dimension=program.dimension,
            prompt=prompt,
            version=int(version.version),
            scorer=tags[SCORER],
            scorer_version=int(tags[SCORER_VERSION]),
            program=program,
            rule=DecisionRule.from_json(json.loads(tags["rule"]), "rule"),
            template=str(version.template),
            tags={key: value for key, value in tags.items() if key != "program"},
        )
    except (KeyError, TypeError, ValueError, JudgeError) as error:
        raise PipelineError(
            f"version {version.version} of the prompt {prompt} is no exported judge ({type(error).__name__}: {error}): "
            "accepted are versions that `gpa-judges export` made; use another --name-prefix beside other prompts"
        ) from error


def _to_json(program: JudgeProgram) -> dict[str, Any]:
    return {
        "dimension": program.dimension,
        "parts": program.parts,
        "knobs": asdict(program.knobs),
        "parent": program.parent,
        "origin": program.origin,
    }


def _from_json(row: dict[str, Any]) -> JudgeProgram:
    return JudgeProgram(
        dimension=row["dimension"],
        **row["parts"],
        knobs=Knobs(**row["knobs"]),
        parent=row["parent"],
        origin=row["origin"],
    )
