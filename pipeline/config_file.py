"""Configuration files: read, and checked as a whole before anything happens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from labeled_traces.files import read_yaml
from labeled_traces.names import unknown
from labeled_traces.trace import TraceError
from pipeline.config import ExperimentConfig, PipelineError, SearchConfig, TuningConfig, validated
from pipeline.gates import Gates
from pipeline.matching import MATCHERS
from pipeline.optimizers.base import Optimizer
from pipeline.settings import build_optimizer

T = TypeVar("T", bound=TuningConfig)
_SQLITE = "sqlite:///"


def load_config(path: Path) -> ExperimentConfig:
    """Reads an experiment file.

    Raises:
        PipelineError: no such file, not YAML, an unknown key or a value that is not accepted; names file and key path.
    """
    return parse_config(read_config(path), str(path), path.parent)


def parse_config(values: Any, where: str, folder: Path) -> ExperimentConfig:
    """An experiment from plain values; `folder` is what relative paths are relative to.

    Raises:
        PipelineError: as `load_config`.
    """
    return _absolute(checked(ExperimentConfig, values, where), folder)


def read_config(path: Path) -> Any:
    """The plain values of a file.

    Raises:
        PipelineError: no such file, or not YAML; names file and line.
    """
    try:
        return read_yaml(path)
    except TraceError as error:
        raise PipelineError(str(error)) from error


def checked(kind: type[T], values: Any, where: str) -> T:
    """A configuration from plain values, with the settings of its optimizers, its gates and its matcher.

    Raises:
        PipelineError: an unknown key or a value that is not accepted; names the key's path.
    """
    config = validated(kind, values, where)
    if config.matcher.kind not in MATCHERS:
        raise PipelineError(f"{where}: matcher.kind: {unknown(config.matcher.kind, MATCHERS)}")
    try:
        build_settings(config)
    except PipelineError as error:
        raise PipelineError(f"{where}: {error}") from error
    return config


def build_settings(config: TuningConfig) -> tuple[list[Optimizer], Gates]:
    """The optimizer of each search step, and the gates.

    Raises:
        PipelineError: an unknown name, or a value that is not accepted; names the key's path.
    """
    names = ["search"] if len(config.search) == 1 else [f"search.{number}" for number in range(len(config.search))]
    steps = zip(config.search, names, strict=True)
    optimizers = [build_optimizer(step.optimizer, step.settings, name) for step, name in steps]
    return optimizers, Gates.parse(config.validation.gates, "validation.gates")


def _absolute(config: ExperimentConfig, folder: Path) -> ExperimentConfig:
    def at(path: Path | None) -> Path | None:
        return None if path is None else (folder / path.expanduser()).absolute()

    tracking = config.tracking.model_copy(update={"uri": database_at(config.tracking.uri, folder)})
    return config.model_copy(
        update={
            "output": at(config.output),
            "ledger": config.ledger
            if config.ledger is None or "://" in config.ledger
            else str(at(Path(config.ledger))),
            "search": steps_at(config.search, folder),
            "tracking": tracking,
            "data": config.data.model_copy(update={"path": at(config.data.path)}),
            "split": config.split.model_copy(update={"manifest": at(config.split.manifest)}),
            "judges": config.judges.model_copy(update={"programs": at(config.judges.programs)}),
        }
    )


def steps_at(steps: Sequence[SearchConfig], folder: Path) -> tuple[SearchConfig, ...]:
    """The steps of a search whose relative databases are relative to `folder`."""

    def settings(step: SearchConfig) -> dict[str, Any]:
        return {key: database_at(value, folder) if key == "storage" else value for key, value in step.settings.items()}

    return tuple(step.model_copy(update={"settings": settings(step)}) for step in steps)


def database_at(uri: str | None, folder: Path) -> str | None:
    """A URI whose relative SQLite file is relative to `folder`; any other as it is."""
    path = (uri or "").removeprefix(_SQLITE)
    if uri is None or not uri.startswith(_SQLITE) or path[:1] in ("", "/", "$", ":"):
        return uri
    return f"{_SQLITE}{(folder / Path(path).expanduser()).absolute()}"
