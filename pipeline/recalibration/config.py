"""What one pass does, in one YAML file. Unknown keys are refused; every default is stated here and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from labeled_traces.names import unknown
from pipeline.config import ExperimentConfig, Section, Shares, TrackingUri, TuningConfig
from pipeline.config_file import checked, database_at, parse_config, read_config, steps_at
from pipeline.metrics.suite import HIGHER_IS_BETTER


class MlflowConfig(Section):
    """`experiment` holds the traces and people's labels, `judges` the champions (None: the same experiment). Decisions
    are recorded beside the champions. `filter`: only traces that this filter of MLflow's lets through."""

    uri: TrackingUri
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
    fractions: Shares = (0.3, 0.2, 0.5)
    taxonomy: str = "trail"


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
                raise ValueError(unknown(name, HIGHER_IS_BETTER))
        if not names:
            raise ValueError("needs at least one metric")
        return names


class CallsConfig(Section):
    """As in an experiment's `judges`: judgments in flight, seconds per call."""

    concurrency: int = Field(default=8, ge=1, le=1000)
    timeout: float = Field(default=60.0, gt=0, le=86_400)


class RecalibrationConfig(TuningConfig):
    """`state`: the folder of ledgers and lock. `budget`: of one pass. All other sections are an experiment's."""

    mlflow: MlflowConfig
    state: Path = Path("recalibration")
    labels: LabelsConfig = LabelsConfig()
    drift: DriftConfig = DriftConfig()
    calls: CallsConfig = CallsConfig()

    def experiment(self, folder: Path, dimensions: tuple[str, ...]) -> ExperimentConfig:
        """The pass as an experiment: its champion, labels and split lie in `folder`."""
        values: dict[str, Any] = {
            "name": "recalibration",
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
            # A pass is started by a clock: its cap is `budget`.
            "ask_above": None,
        }
        shared = self.model_dump(include=set(TuningConfig.model_fields))
        return parse_config(values | shared, "recalibration", folder)


DATA, SPLIT, CHAMPION, LEDGER = "labels.jsonl", "split.json", "champion", "ledger.sqlite"


def load_recalibration(path: Path) -> RecalibrationConfig:
    """Reads a file; its relative paths are relative to it.

    Raises:
        PipelineError: no such file, not YAML, an unknown key or a value that is not accepted; names file and key path.
    """
    config = checked(RecalibrationConfig, read_config(path), str(path))
    mlflow = config.mlflow.model_copy(update={"uri": database_at(config.mlflow.uri, path.parent)})
    state = (path.parent / config.state.expanduser()).absolute()
    return config.model_copy(update={"state": state, "mlflow": mlflow, "search": steps_at(config.search, path.parent)})
