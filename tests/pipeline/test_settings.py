from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from pipeline.config import PipelineError
from pipeline.optimizers.gepa import GepaOptimizer, GepaSettings
from pipeline.optimizers.seed import SeedOptimizer
from pipeline.settings import build_optimizer, fill


@dataclass(frozen=True)
class Inner:
    depth: int = 1
    width: int = 1


@dataclass(frozen=True)
class Outer:
    count: int = 2
    share: float = 0.5
    name: str = "x"
    on: bool = False
    margins: Mapping[str, float] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None
    wide: Inner = field(default_factory=lambda: Inner(width=9))

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count is negative")


def test_what_is_given_is_set_and_the_rest_keeps_its_default() -> None:
    values = {"count": 3, "share": 1, "on": True, "inner": {"depth": 4}, "maybe": {"depth": 5}, "margins": {"a": 0.1}}
    assert fill(Outer, values, "s") == Outer(3, 1, "x", True, {"a": 0.1}, Inner(4), Inner(5))
    assert fill(Outer, {}, "s") == Outer()
    assert fill(Outer, {"wide": {"depth": 2}}, "s").wide == Inner(2, 9)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cuont": 1}, r"s: unknown key `cuont` \(did you mean `count`\?\): accepted are count, share"),
        ({"inner": {"dpth": 1}}, r"s\.inner: unknown key `dpth` \(did you mean `depth`\?\)"),
        ({"inner": 3}, r"s\.inner: accepted is a mapping"),
        ({"count": "3"}, r"s\.count: accepted is a valid integer \(given: '3'\)"),
        ({"count": True}, r"s\.count: accepted is a valid integer"),
        ({"on": 1}, r"s\.on: accepted is a valid boolean"),
        ({"share": None}, r"s\.share: accepted is a valid number"),
        ({"share": float("nan")}, r"s\.share: accepted is a finite number"),
        ({"margins": [1]}, r"s\.margins: accepted is a valid dictionary"),
        ({"margins": {"a": "x"}}, r"s\.margins\.a: accepted is a valid number"),
        ({"count": -1}, "s: count is negative"),
    ],
)
def test_what_is_not_accepted(values: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        fill(Outer, values, "s")


def test_an_optimizer_gets_its_settings() -> None:
    optimizer = build_optimizer("gepa", {"max_calls": 77, "selection": {"repeats": 9}})
    assert isinstance(optimizer, GepaOptimizer)
    assert optimizer.settings.max_calls == 77
    assert optimizer.settings.selection.repeats == 9
    assert optimizer.settings.max_iterations == GepaSettings().max_iterations
    assert isinstance(build_optimizer("seed", {}), SeedOptimizer)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("gpea", {}, r"'gpea' is unknown \(did you mean `gepa`\?\): accepted are .*gepa.*seed"),
        ("gepa", {"max_cals": 1}, r"search\.settings: unknown key `max_cals`"),
        ("gepa", {"alpha": 2.0}, r"search\.settings.*alpha"),
        ("seed", {"max_calls": 1}, "the optimizer seed has no settings"),
    ],
)
def test_an_optimizer_that_cannot_be_built(name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        build_optimizer(name, values)
