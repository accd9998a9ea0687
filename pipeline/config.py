"""One experiment in one YAML file. Unknown keys are refused; every default is stated here and nowhere else."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from labeled_traces.label import DIMENSIONS

C = TypeVar("C", bound="Section")


class PipelineError(ValueError):
    """A bad experiment, run folder or command line: raised before the first call. Says what would be accepted."""


class Section(BaseModel):
    """A part of a configuration file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SimulatedData(Section):
    """`traces` runs of the simulated agent; `fault_scale` multiplies its fault rates.

    `rater`: labelled as by a person, who misses some errors, else with the exact truth. `shuffle_labels`: over the
    traces, so that there is nothing to learn.
    """

    traces: int = Field(default=400, ge=10, le=100_000)
    seed: int = 0
    fault_scale: float = Field(default=2.0, gt=0, le=10)
    rater: bool = True
    shuffle_labels: bool = False


class DataConfig(Section):
    """`path`: a file that `gpa-judges import` wrote; or `simulated`."""

    path: Path | None = None
    simulated: SimulatedData | None = None

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if (self.path is None) == (self.simulated is None):
            raise ValueError("exactly one of `path` and `simulated` is needed")
        return self


class SplitConfig(Section):
    """`manifest`: a split that `gpa-judges split` wrote; else one is made from `fractions` (train, val, test)."""

    manifest: Path | None = None
    fractions: tuple[float, float, float] = (0.35, 0.25, 0.4)
    seed: int | None = None


class JudgesConfig(Section):
    """Which judges, from where (`programs`: a folder; else the seeds as shipped), and which model reads.

    The knobs `temperature`, `max_tokens`, `trace_tokens`, `layout`, `model` and `endpoint` override those of every
    program; None leaves a knob as it stands. Judges that are to run in MLflow are proved in the layout `mlflow`.
    `concurrency` bounds the judgments in flight, `timeout` is in seconds per call.
    """

    model: str | None = None
    endpoint: str | None = None
    dimensions: tuple[str, ...] = tuple(DIMENSIONS)
    programs: Path | None = None
    holistic: bool = True
    temperature: float | None = None
    max_tokens: int | None = None
    trace_tokens: int | None = None
    layout: Literal["shared_prefix", "mlflow"] | None = None
    concurrency: int = Field(default=8, ge=1, le=1000)
    timeout: float = Field(default=60.0, gt=0)

    @field_validator("dimensions")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in DIMENSIONS:
                hint = did_you_mean(name, DIMENSIONS)
                raise ValueError(f"{name!r} is unknown{hint}: accepted are {', '.join(DIMENSIONS)}")
        if not names or len(set(names)) != len(names):
            raise ValueError("needs at least one dimension, each once")
        return names

    @property
    def knobs(self) -> dict[str, Any]:
        """The knobs that this section sets."""
        names = ("model", "endpoint", "temperature", "max_tokens", "trace_tokens", "layout")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


class MatcherConfig(Section):
    """`kind`: one of `pipeline.matching.MATCHERS`."""

    kind: str = "span"
    threshold: float | None = Field(default=None, ge=0, le=1)


class SearchConfig(Section):
    """One step of the search: the optimizer of each dimension's program. `settings`: what the optimizer's own Settings
    class accepts.

    `reflection_model` and `reflection_endpoint`: None means the judges' own.
    """

    optimizer: str = "gepa"
    reflection_model: str | None = None
    reflection_endpoint: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)


class SelectionConfig(Section):
    """After several search steps: which step's program is kept, by `repeats` fresh readings of at most `traces`
    validation traces. A program replaces an earlier step's if its paired gain is above 0 at the one-sided `level`."""

    repeats: int = Field(default=2, ge=2, le=100)
    traces: int = Field(default=200, ge=2)
    level: float = Field(default=0.9, gt=0.5, lt=1)


class RuleConfig(Section):
    """The decision rule, searched by replay over `repeats` fresh readings of the development split."""

    enabled: bool = True
    repeats: int = Field(default=2, ge=1, le=100)


class ValidationConfig(Section):
    """The gates on the testset, read `repeats` times. `gates`: what `pipeline.validate.Gates` accepts."""

    repeats: int = Field(default=3, ge=1, le=100)
    gates: dict[str, Any] = Field(default_factory=dict)


class BudgetConfig(Section):
    """Caps on what the whole run may spend; None: no cap. Spending never passes a cap."""

    calls: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    dollars: float | None = Field(default=None, gt=0)


class TrackingConfig(Section):
    """Where MLflow keeps the run; `uri` None: a SQLite file `mlflow.db` in the output folder."""

    enabled: bool = True
    uri: str | None = None
    experiment: str = "gpa-judges"


def one_or_many_steps(value: Any) -> Any:
    """A search as a list of steps."""
    if not value or not isinstance(value, Mapping | list | tuple):
        raise ValueError("accepted is one step (optimizer, settings) or a list of steps")
    return [value] if isinstance(value, Mapping) else value


class ExperimentConfig(Section):
    """One experiment. Relative paths in a file are relative to that file.

    `search`: one step, or a list of steps, of which each starts from the programs that the one before returned.
    `prices`: model -> [input, output] in dollars per million tokens, for models that LiteLLM has no price of.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    seed: int = Field(default=0, ge=0)
    output: Path = Path("runs")
    data: DataConfig
    split: SplitConfig = SplitConfig()
    judges: JudgesConfig = JudgesConfig()
    matcher: MatcherConfig = MatcherConfig()
    search: tuple[SearchConfig, ...] = (SearchConfig(),)
    selection: SelectionConfig = SelectionConfig()
    rule: RuleConfig = RuleConfig()
    validation: ValidationConfig = ValidationConfig()
    budget: BudgetConfig = BudgetConfig()
    prices: dict[str, tuple[float, float]] = Field(default_factory=dict)
    tracking: TrackingConfig = TrackingConfig()

    _steps = field_validator("search", mode="before")(one_or_many_steps)


def load_config(path: Path) -> ExperimentConfig:
    """Reads an experiment file.

    Raises:
        PipelineError: no such file, not YAML, an unknown key or a value that is not accepted; names file and key path.
    """
    return parse_config(read_yaml(path, "an experiment"), str(path), path.parent)


def parse_config(values: Any, where: str, folder: Path) -> ExperimentConfig:
    """An experiment from plain values; `folder` is what relative paths are relative to.

    Raises:
        PipelineError: as `load_config`.
    """
    return _absolute(validated(ExperimentConfig, values, where), folder)


def read_yaml(path: Path, what: str) -> Any:
    """
    Raises:
        PipelineError: no such file, or not YAML.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PipelineError(f"{path} cannot be read as {what}: {error}") from error


def validated(kind: type[C], values: Any, where: str) -> C:
    """A configuration from plain values.

    Raises:
        PipelineError: an unknown key or a value that is not accepted; names the key's path.
    """
    if not isinstance(values, dict):
        raise PipelineError(f"{where}: accepted is a mapping with the keys {', '.join(kind.model_fields)}")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise PipelineError("\n".join(_explain(kind, where, row, values) for row in error.errors())) from error


def did_you_mean(name: str, accepted: Iterable[str]) -> str:
    """A hint for an error message, empty where no accepted name is close."""
    close = difflib.get_close_matches(name, accepted, n=1, cutoff=0.6)
    return f" (did you mean `{close[0]}`?)" if close else ""


def _explain(kind: type[Section], where: str, row: Any, values: Mapping[str, Any]) -> str:
    location = [*row["loc"]]
    if location[:2] == ["search", 0] and isinstance(values["search"], Mapping):
        del location[1]  # a single step, which is no list in the file
    path = ".".join(map(str, location))
    if row["type"] == "extra_forbidden":
        *parents, key = location
        accepted = _fields(kind, parents)
        return f"{where}: unknown key `{path}`{did_you_mean(str(key), accepted)}: accepted are {', '.join(accepted)}"
    if row["type"] == "missing":
        return f"{where}: the key `{path}` is missing"
    message = row["msg"].removeprefix("Value error, ")
    given = row["input"]
    shown = f" (given: {given!r})" if isinstance(given, str | int | float | bool | None) else ""
    return f"{where}: `{path}`: {message}{shown}"


def _fields(kind: type[Section], path: Sequence[str | int]) -> list[str]:
    """The keys of the section at this path."""
    model: Any = kind
    for key in path:
        field = model.model_fields[key].annotation if key in model.model_fields else None
        sections = [kind for kind in (field, *get_args(field)) if isinstance(kind, type) and issubclass(kind, Section)]
        model = sections[0] if sections else model
    return list(model.model_fields)


def _absolute(config: ExperimentConfig, folder: Path) -> ExperimentConfig:
    def at(path: Path | None) -> Path | None:
        return None if path is None else (folder / path.expanduser()).absolute()

    return config.model_copy(
        update={
            "output": at(config.output),
            "data": config.data.model_copy(update={"path": at(config.data.path)}),
            "split": config.split.model_copy(update={"manifest": at(config.split.manifest)}),
            "judges": config.judges.model_copy(update={"programs": at(config.judges.programs)}),
        }
    )
