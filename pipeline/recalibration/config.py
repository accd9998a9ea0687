"""What one pass does, in one YAML file. Unknown keys are refused; every default is stated here and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from pipeline.config import (
    BudgetConfig,
    ExperimentConfig,
    MatcherConfig,
    PipelineError,
    RuleConfig,
    SearchConfig,
    Section,
    SelectionConfig,
    ValidationConfig,
    one_or_many_steps,
    parse_config,
    read_yaml,
    validated,
)
from pipeline.metrics.suite import HIGHER_IS_BETTER
from pipeline.settings import build_optimizer
from pipeline.validate import Gates


class MlflowConfig(Section):
    """`experiment` holds the traces and people's labels, `judges` the champions (None: the same experiment). Decisions
    are recorded beside the champions. `filter`: only traces that this filter of MLflow's lets through."""

    uri: str
    experiment: str
    judges: str | None = None
    prefix: str = Field(default="gpa_", pattern=r"^[A-Za-z0-9_.-]{1,100}$")
    filter: str | None = None

    @property
    def home(self) -> str:
        """The experiment of champions and decisions."""
        return self.judges or self.experiment


class LabelsConfig(Section):
    """A pass starts with at least `least_traces` newly labelled traces. `fractions`: the shares of train, val and
    held-out; a task is always in the same part. `taxonomy`: what errors without named dimensions are sorted by."""

    least_traces: int = Field(default=60, ge=10)
    fractions: tuple[float, float, float] = (0.3, 0.2, 0.5)
    taxonomy: str = "trail"

    @field_validator("fractions")
    @classmethod
    def _all(cls, given: tuple[float, float, float]) -> tuple[float, float, float]:
        if min(given) <= 0 or abs(sum(given) - 1) > 1e-6:
            raise ValueError("accepted are three positive numbers that add up to 1")
        return given


class DriftConfig(Section):
    """The champion has drifted if, over `repeats` fresh readings of the development part of the new labels, the whole
    interval of one of the `metrics` is worse than what it was promoted with by more than `margin`."""

    metrics: tuple[str, ...] = ("f1",)
    margin: float = Field(default=0.05, ge=0)
    repeats: int = Field(default=2, ge=1, le=100)

    @field_validator("metrics")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in HIGHER_IS_BETTER:
                raise ValueError(f"{name!r} is unknown: accepted are {', '.join(HIGHER_IS_BETTER)}")
        if not names:
            raise ValueError("needs at least one metric")
        return names


class CallsConfig(Section):
    """As in an experiment's `judges`: judgments in flight, seconds per call."""

    concurrency: int = Field(default=8, ge=1, le=1000)
    timeout: float = Field(default=60.0, gt=0)


class RecalibrationConfig(Section):
    """`state`: the folder of ledgers and lock. `budget`: of one pass. All other sections are an experiment's."""

    mlflow: MlflowConfig
    state: Path = Path("recalibration")
    seed: int = Field(default=0, ge=0)
    labels: LabelsConfig = LabelsConfig()
    drift: DriftConfig = DriftConfig()
    calls: CallsConfig = CallsConfig()
    matcher: MatcherConfig = MatcherConfig()
    search: tuple[SearchConfig, ...] = (SearchConfig(),)
    selection: SelectionConfig = SelectionConfig()
    rule: RuleConfig = RuleConfig()
    validation: ValidationConfig = ValidationConfig()
    budget: BudgetConfig = BudgetConfig()
    prices: dict[str, tuple[float, float]] = Field(default_factory=dict)

    _steps = field_validator("search", mode="before")(one_or_many_steps)

    def experiment(self, folder: Path, dimensions: tuple[str, ...]) -> ExperimentConfig:
        """The pass as an experiment: its champion, labels and split lie in `folder`."""
        values: dict[str, Any] = {
            "name": "recalibration",
            "seed": self.seed,
            "output": str(folder),
            "data": {"path": str(folder / DATA)},
            "split": {"manifest": str(folder / SPLIT)},
            "judges": {
                "dimensions": dimensions,
                "programs": str(folder / CHAMPION),
                "holistic": False,
                **self.calls.model_dump(),
            },
            "tracking": {"enabled": False},
        }
        shared = ("matcher", "search", "selection", "rule", "validation", "budget", "prices")
        return parse_config(values | {name: self.model_dump()[name] for name in shared}, "recalibration", folder)


DATA, SPLIT, CHAMPION = "labels.jsonl", "split.json", "champion"


def load_recalibration(path: Path) -> RecalibrationConfig:
    """Reads a file; its relative paths are relative to it.

    Raises:
        PipelineError: no such file, not YAML, an unknown key or a value that is not accepted; names file and key path.
    """
    config = validated(RecalibrationConfig, read_yaml(path, "a re-calibration"), str(path))
    names = ["search"] if len(config.search) == 1 else [f"search.{number}" for number in range(len(config.search))]
    try:
        for name, step in zip(names, config.search, strict=True):
            build_optimizer(step.optimizer, step.settings, name)
        Gates.parse(config.validation.gates)
    except PipelineError as error:
        raise PipelineError(f"{path}: {error}") from error
    return config.model_copy(update={"state": (path.parent / config.state.expanduser()).absolute()})
