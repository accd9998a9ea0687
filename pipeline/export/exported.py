"""One judge as the registry holds it, and its way there and back through the tags of a prompt version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from judges.decision import DecisionRule
from judges.program import JudgeProgram, JudgeSuite


@dataclass(frozen=True)
class Provenance:
    """Where exported judges come from.

    `run`: the run's name; `run_id`: its MLflow run in the same store, if there is one. `verdict`: of the validation of
    exactly the judge that is exported (layout and model included), "" where there was none. `extra`: further tags.
    """

    run: str
    run_id: str = ""
    verdict: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Exported:
    """One judge in the registry: version `version` of the prompt `prompt`, run by version `scorer_version` of the
    scorer `scorer`.

    `program` is the whole judge as it was exported (layout `mlflow`), ready for `judges.judge.judge`; `rule` is the
    decision rule of its suite. `tags` are the prompt version's: `verdict`, `run`, `run_id`, `simulated`, ...
    """

    dimension: str
    prompt: str
    version: int
    scorer: str
    scorer_version: int
    program: JudgeProgram
    rule: DecisionRule
    tags: Mapping[str, str]

    @property
    def uri(self) -> str:
        """As MLflow writes it: `prompts:/gpa_plan_quality/3`."""
        return f"prompts:/{self.prompt}/{self.version}"

    @property
    def simulated(self) -> bool:
        return self.tags.get("simulated") == "true"


def suite_of(judges: Mapping[str, Exported]) -> JudgeSuite:
    """The judges as a suite that `pipeline.evaluate.evaluate` takes.

    Raises:
        PipelineError: their decision rules differ, so they are not of one suite.
    """
    raise NotImplementedError
