"""One experiment in one YAML file. Unknown keys are refused; every default is stated here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from judges.ledger.budget import DEAREST, MOST_DOLLARS
from judges.ledger.place import place_of
from judges.program import Knobs
from judges.redact import check_endpoint, check_tracking_uri
from labeled_traces.label import DIMENSIONS
from labeled_traces.names import unknown
from labeled_traces.raters import check_rule
from pipeline.explain import explain, keys, not_text

C = TypeVar("C", bound="Section")


class PipelineError(ValueError):
    """A bad experiment, run folder or command line: raised before the first call. Says what would be accepted."""


def _tracking_uri(uri: str) -> str:
    check_tracking_uri(uri)
    return uri


ASK_ABOVE = 10.0
"""Dollars."""


def _ledger(place: str) -> str:
    place_of(place)
    return place


MODELS = "accepted is a LiteLLM model name such as openai/gpt-5, or simulated/default to try it out"
TrackingUri = Annotated[str, AfterValidator(_tracking_uri)]
LedgerPlace = Annotated[str, AfterValidator(_ledger)]


class Section(BaseModel):
    """A part of a configuration file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise ValueError("true and false are not accepted here")
        return value


def _all(shares: tuple[float, float, float]) -> tuple[float, float, float]:
    if min(shares) <= 0 or not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise ValueError("accepted are three positive numbers that add up to 1")
    return shares


Seed = Annotated[int, Field(ge=0, lt=2**32)]
Shares = Annotated[tuple[float, float, float], AfterValidator(_all)]
"""Of train, val and test."""
Dollars = Annotated[float, Field(ge=0)]
ModelPrice = Annotated[tuple[Annotated[Dollars, Field(le=DEAREST)], ...], Field(min_length=2, max_length=4)]
"""As `Price.parse` reads it."""


class SimulatedData(Section):
    """`traces` runs of the simulated agent; `fault_scale` multiplies its fault rates.

    `rater`: labelled as by a person, who misses some errors, else with the exact truth. `shuffle_labels`: over the
    traces, so that there is nothing to learn.
    """

    traces: int = Field(default=400, ge=10, le=100_000)
    seed: Seed = 0
    fault_scale: float = Field(default=2.0, gt=0, le=10)
    rater: bool = True
    shuffle_labels: bool = False


class DataConfig(Section):
    """`path`: a file that `gpa-judges import` wrote; or `simulated`. `raters`: the rule that makes one voice of several
    raters' labels in the file, see `labeled_traces.raters`; None: all are kept. A split manifest must be of
    the same labels: of the file that `gpa-judges raters --reduce` wrote."""

    path: Path | None = None
    raters: str | None = Field(default=None, exclude_if=lambda rule: rule is None)
    simulated: SimulatedData | None = None

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if (self.path is None) == (self.simulated is None):
            raise ValueError("exactly one of `path` and `simulated` is needed")
        if self.raters is not None and self.path is None:
            raise ValueError("`raters` is accepted with `path` alone")
        if self.raters is not None:
            check_rule(self.raters)
        return self


class SplitConfig(Section):
    """`manifest`: a split that `gpa-judges split` wrote; else one is made from `fractions` (train, val, test)."""

    manifest: Path | None = None
    fractions: Shares = (0.35, 0.25, 0.4)
    seed: Seed | None = None


class JudgesConfig(Section):
    """Which judges, from where (`programs`: a folder; else the seeds as shipped), and which model reads.

    The knobs `temperature`, `max_tokens`, `trace_tokens`, `layout`, `model` and `endpoint` override those of every
    program; None leaves a knob as it stands. Judges that are to run in MLflow are proved in the layout `mlflow`.
    `concurrency` bounds the judgments in flight, `timeout` is in seconds, for each attempt of a call.
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
    timeout: float = Field(default=60.0, gt=0, le=86_400)

    @field_validator("dimensions")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in DIMENSIONS:
                raise ValueError(unknown(name, DIMENSIONS))
        if not names or len(set(names)) != len(names):
            raise ValueError("needs at least one dimension, each once")
        return names

    @field_validator("model", "endpoint", "temperature", "max_tokens", "trace_tokens")
    @classmethod
    def _knob(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None:
            Knobs(**{str(info.field_name): value})
        return value

    @property
    def knobs(self) -> dict[str, Any]:
        """The knobs that this section sets."""
        names = ("model", "endpoint", "temperature", "max_tokens", "trace_tokens", "layout")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


class MatcherConfig(Section):
    """`kind`: one of `pipeline.matching.MATCHERS`."""

    kind: str = "span"
    threshold: float | None = Field(default=None, gt=0, le=1)


class SearchConfig(Section):
    """One step of the search: the optimizer of each dimension's program. `settings`: what the optimizer's own Settings
    class accepts.

    `reflection_model` and `reflection_endpoint`: None means the judges' own.
    """

    optimizer: str = "gepa"
    reflection_model: str | None = None
    reflection_endpoint: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @field_validator("reflection_endpoint")
    @classmethod
    def _endpoint(cls, value: str | None) -> str | None:
        check_endpoint(value or "")
        return value


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
    """The gates on the testset, read `repeats` times. `gates`: what `pipeline.gates.Gates` accepts."""

    repeats: int = Field(default=3, ge=1, le=100)
    gates: dict[str, Any] = Field(default_factory=dict)


class BudgetConfig(Section):
    """Caps on what the whole run may spend; None: no cap. See `LedgerLM` for how they are kept."""

    calls: int | None = Field(default=None, ge=1, lt=2**63)
    tokens: int | None = Field(default=None, ge=1, lt=2**63)
    dollars: float | None = Field(default=None, gt=0, le=MOST_DOLLARS)


class LimitsConfig(Section):
    """Requests and tokens a minute of each model at each endpoint; None: no limit but those that the provider tells."""

    rpm: int | None = Field(default=None, ge=1)
    tpm: int | None = Field(default=None, ge=1)


class TrackingConfig(Section):
    """Where MLflow keeps the run; `uri` None: a SQLite file `mlflow.db` in the output folder."""

    enabled: bool = True
    uri: TrackingUri | None = None
    experiment: str = "gpa-judges"


def _one_or_many(value: Any) -> Any:
    """A search as a list of steps."""
    if not value or not isinstance(value, Mapping | list | tuple):
        raise ValueError("accepted is one step (optimizer, settings) or a list of steps")
    return [value] if isinstance(value, Mapping) else value


class TuningConfig(Section):
    """What experiments and re-calibrations share: how judges are searched and what they must show.

    `search`: one step, or a list of steps, of which each starts from the programs that the one before returned.
    `prices`: model -> [input, output], or with a third number for cached input, in dollars per million tokens, for
    models that LiteLLM has no price of.
    """

    seed: Seed = 0
    matcher: MatcherConfig = MatcherConfig()
    search: Annotated[tuple[SearchConfig, ...], BeforeValidator(_one_or_many)] = (SearchConfig(),)
    selection: SelectionConfig = SelectionConfig()
    rule: RuleConfig = RuleConfig()
    validation: ValidationConfig = ValidationConfig()
    budget: BudgetConfig = BudgetConfig()
    limits: LimitsConfig = LimitsConfig()
    prices: dict[str, ModelPrice] = Field(default_factory=dict)


class ExperimentConfig(TuningConfig):
    """One experiment. Relative paths in a file are relative to that file.

    `ask_above`: a run that is expected to cost more dollars, and has no cap in dollars, is asked about; None: never.
    `ledger`: where calls are kept, a path or postgresql://USER@HOST/DATABASE, which other runs may use as well; None: a
    file in the run's folder.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    output: Path = Path("runs")
    data: DataConfig
    split: SplitConfig = SplitConfig()
    judges: JudgesConfig = JudgesConfig()
    tracking: TrackingConfig = TrackingConfig()
    ask_above: Dollars | None = ASK_ABOVE
    ledger: LedgerPlace | None = None


def validated(kind: type[C], values: Any, where: str) -> C:
    """A configuration from plain values.

    Raises:
        PipelineError: an unknown key or a value that is not accepted; names the key's path.
    """
    if not isinstance(values, dict):
        raise PipelineError(f"{where}: accepted is a mapping with the keys {', '.join(keys(kind))}")
    for path in not_text(values):
        raise PipelineError(f"{where}: `{path}`: a lone surrogate is no text")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise PipelineError("\n".join(explain(kind, where, row, values) for row in error.errors())) from error
