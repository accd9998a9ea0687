"""What a challenger must show on held-out traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labeled_traces.names import unknown
from pipeline.config import PipelineError
from pipeline.metrics.suite import HIGHER_IS_BETTER
from pipeline.settings import fill


@dataclass(frozen=True)
class Gates:
    """The conditions of a PASS.

    `primary` must be better than the champion's and than every control's, each by more than `least_gain`: with enough
    traces a gain of nothing worth having is above 0 as well. `margins`: guard -> by how much it may be worse
    (non-inferiority); an empty mapping has no guards. `dimension_margin`: by how much `primary` may be seen to be worse
    in any one dimension. `scored_share` is the least share of judge calls that gave a usable judgment, on both sides,
    in every dimension. `least_groups`: the least number of independent tasks with a label, and as many clean ones
    where there is a guard on false alarms; from fewer, resampling cannot tell how sure a difference is.
    """

    primary: str = "f1"
    margins: Mapping[str, float] = field(
        default_factory=lambda: {
            "coverage": 0.05,
            "localization": 0.05,
            "false_alarms": 0.05,
            "alpha": 0.1,
            "agreement": 0.05,
        }
    )
    dimension_margin: float = 0.05
    scored_share: float = 0.95
    least_gain: float = 0.01
    least_groups: int = 10

    def __post_init__(self) -> None:
        for key, name in (("primary", self.primary), *(("margins", name) for name in self.margins)):
            if name not in HIGHER_IS_BETTER:
                raise PipelineError(f"{key}: {unknown(name, HIGHER_IS_BETTER)}")
        for name, margin in self.margins.items():
            if not margin >= 0:
                raise PipelineError(f"margins.{name} is {margin}: accepted is 0 or more")
        if not 0 <= self.least_gain < 1:
            raise PipelineError(f"least_gain is {self.least_gain}: accepted is 0 or more, and below 1")
        if not self.dimension_margin >= 0:
            raise PipelineError(f"dimension_margin is {self.dimension_margin}: accepted is 0 or more")
        if self.least_groups < 2:
            raise PipelineError(f"least_groups is {self.least_groups}: accepted is 2 or more")
        if not 0 <= self.scored_share <= 1:
            raise PipelineError(f"scored_share is {self.scored_share}: accepted is 0 to 1")

    @classmethod
    def parse(cls, options: Mapping[str, Any], where: str = "gates") -> Gates:
        """Gates from plain values; guards that `margins` does not name keep their default, null drops a guard.

        Raises:
            PipelineError: an unknown key, or a value that is not accepted; names the key's path.
        """
        margins = options.get("margins")
        if isinstance(margins, Mapping):
            named = {**cls().margins, **margins}
            options = {**options, "margins": {name: margin for name, margin in named.items() if margin is not None}}
        return fill(cls, options, where)
