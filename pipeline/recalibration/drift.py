"""The champion on new labels: as good as when it was promoted?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.export.reference import Reference
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import HIGHER_IS_BETTER
from pipeline.recalibration.config import DriftConfig


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
