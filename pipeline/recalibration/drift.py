"""The champion on new labels: as good as when it was promoted?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import HIGHER_IS_BETTER
from pipeline.recalibration.config import DriftConfig


@dataclass(frozen=True)
class Reference:
    """What a champion was promoted with. Numbers of another matcher are no measure for it."""

    matcher: str
    metrics: Mapping[str, float]

    @classmethod
    def of(cls, matcher: str, metrics: Mapping[str, Estimate]) -> Reference:
        return cls(matcher, {name: found.value for name, found in metrics.items() if found.value is not None})

    def to_text(self) -> str:
        rounded = {name: round(value, 6) for name, value in self.metrics.items()}
        return json.dumps({"matcher": self.matcher, "metrics": rounded}, sort_keys=True)

    @classmethod
    def parse(cls, text: str | None) -> Reference | None:
        """What `to_text` made; None where there is none."""
        try:
            row: Any = json.loads(text or "")
            return cls(str(row["matcher"]), {str(name): float(value) for name, value in row["metrics"].items()})
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


@dataclass(frozen=True)
class Drift:
    """`reasons`: one line for each metric that was looked at; `drifted`: those that are worse."""

    drifted: tuple[str, ...]
    reasons: tuple[str, ...]


def find_drift(metrics: Mapping[str, Estimate], reference: Reference, config: DriftConfig) -> Drift:
    """Compares intervals with the reference. What is undefined now, or was then, shows no drift, and is said."""
    drifted, reasons = [], []
    for name in config.metrics:
        now, then = metrics[name], reference.metrics.get(name)
        if now.value is None or now.low is None or now.high is None or then is None:
            reasons.append(f"{name}: cannot be compared ({now.reason or 'it was undefined at the promotion'})")
            continue
        higher = HIGHER_IS_BETTER[name]
        worse = now.high < then - config.margin if higher else now.low > then + config.margin
        said = f"{name}: {now.value:.3f} ({now.low:.3f} to {now.high:.3f}), promoted with {then:.3f}"
        reasons.append(f"{said}: {'worse by more than' if worse else 'not shown to be worse by'} {config.margin:g}")
        if worse:
            drifted.append(name)
    return Drift(tuple(drifted), tuple(reasons))
