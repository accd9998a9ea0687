"""A number with its interval, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Estimate:
    """`low` and `high` bound the interval, `n` is how many units (labels, findings, traces ...) the value rests on.

    An undefined number has `value` None and a `reason`, never NaN. A value whose interval is undefined has `low` and
    `high` None and a `reason`.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """`{value, low, high, n}`, and `reason` where there is one."""
        row = {"value": self.value, "low": self.low, "high": self.high, "n": self.n}
        return row if self.reason is None else {**row, "reason": self.reason}
