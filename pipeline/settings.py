"""Settings classes filled from plain values of an experiment file."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from labeled_traces.names import did_you_mean, unknown
from pipeline.config import PipelineError
from pipeline.optimizers import OPTIMIZERS
from pipeline.optimizers.base import Optimizer

T = TypeVar("T")


def build_optimizer(name: str, values: Mapping[str, Any], where: str = "search") -> Optimizer:
    """The optimizer of this name. Its settings are the dataclass that its constructor takes as `settings`. `where`: the
    step's place in the experiment file, for messages.

    Raises:
        PipelineError: an unknown optimizer, an unknown setting, or a value that is not accepted.
    """
    if name not in OPTIMIZERS:
        raise PipelineError(f"{where}.optimizer: {unknown(name, OPTIMIZERS)}")
    kind = OPTIMIZERS[name]
    settings = _dataclass_in(get_type_hints(kind.__init__).get("settings"))
    if settings is not None:
        return kind(settings=fill(settings, values, f"{where}.settings"))  # type: ignore[call-arg]
    if values:
        raise PipelineError(f"{where}.settings: the optimizer {name} has no settings")
    return kind()


def fill(kind: type[T], values: Mapping[str, Any], where: str, default: T | None = None) -> T:
    """A settings dataclass with these values, nested ones included; what is not given keeps its default, which may be
    another one where the class is nested in others.

    Raises:
        PipelineError: an unknown key, or a value that is not accepted; names the key's path.
    """
    hints = get_type_hints(kind)
    if not isinstance(values, Mapping):
        raise PipelineError(f"{where}: accepted is a mapping with the keys {', '.join(hints)}")
    given: dict[str, Any] = {} if default is None else dict(vars(default))
    for key, value in values.items():
        if key not in hints:
            hint = did_you_mean(str(key), hints)
            raise PipelineError(f"{where}: unknown key `{key}`{hint}: accepted are {', '.join(hints)}")
        nested = _dataclass_in(hints[key])
        if nested:
            given[key] = fill(nested, value, f"{where}.{key}", _default(kind, key))
        else:
            given[key] = _checked(value, hints[key], f"{where}.{key}")
    try:
        return kind(**given)
    except (TypeError, ValueError) as error:
        raise PipelineError(f"{where}: {error}") from error


def _default(kind: type[Any], key: str) -> Any:
    """The default of a field, None where it has none."""
    field = kind.__dataclass_fields__[key]
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _checked(value: Any, hint: Any, where: str) -> Any:
    """A value of exactly this type; ranges are checked by the class itself."""
    try:
        return TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False)).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        # Pydantic says of a text in the place of a list what is not allowed, not what is.
        accepted = "a list" if first["type"] == "sequence_str" else first["msg"].removeprefix("Input should be ")
        at = "".join(f".{part}" for part in first["loc"])
        raise PipelineError(f"{where}{at}: accepted is {accepted} (given: {value!r:.80})") from error


def _dataclass_in(hint: Any) -> type[Any] | None:
    """The dataclass of a hint, or of one side of `X | None`."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return next((kind for kind in options if isinstance(kind, type) and dataclasses.is_dataclass(kind)), None)
