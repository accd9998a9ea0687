"""How good judges were when they were proved, kept with them so that drift can be seen later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.metrics.estimate import Estimate

REFERENCE = "reference"
"""The tag of a prompt version that holds it."""


@dataclass(frozen=True)
class Reference:
    """What judges were promoted with: metric -> value, on held-out traces, with the matcher of this name. Numbers
    of another matcher cannot be compared with it."""

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
        """What `to_text` made; None for anything else."""
        try:
            row: Any = json.loads(text or "")
            return cls(str(row["matcher"]), {str(name): float(value) for name, value in row["metrics"].items()})
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
