"""The faults of the simulated agent: how likely each is, and what its label says."""

from __future__ import annotations

from dataclasses import dataclass, fields

FAULTS: dict[str, tuple[str, ...]] = {
    "bad_plan": ("plan_quality",),
    "wrong_tool": ("tool_selection",),
    "wrong_argument": ("tool_calling",),
    "skipped_step": ("plan_adherence", "logical_consistency"),
    "misread_output": ("logical_consistency", "tool_calling"),
    "repeated_call": ("execution_efficiency",),
    "off_target_answer": ("goal_fulfillment",),
    "missing_end_plan": ("logical_consistency",),
}
"""Kind of fault (the label's category) -> the dimensions under which it falls."""


@dataclass(frozen=True)
class FaultRates:
    """The probability of each fault, at each place where it can happen."""

    bad_plan: float = 0.1
    wrong_tool: float = 0.1
    wrong_argument: float = 0.1
    skipped_step: float = 0.1
    misread_output: float = 0.1
    repeated_call: float = 0.1
    off_target_answer: float = 0.1
    missing_end_plan: float = 0.1

    def scaled(self, factor: float) -> FaultRates:
        """All probabilities times `factor`, at most 1."""
        return FaultRates(**{f.name: min(1.0, getattr(self, f.name) * factor) for f in fields(self)})
