"""The faults of the simulated agent: how likely each is, under which dimensions it falls, how much it matters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from labeled_traces.label import Impact

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

VARIANTS: dict[str, tuple[str, Impact]] = {
    # The plan fetches something else than the task needs; needs a name that no step produces (the executor
    # has to fetch it unplanned); fetches the same figure twice.
    "uncovered": ("bad_plan", Impact.HIGH),
    "undefined": ("bad_plan", Impact.MEDIUM),
    "redundant": ("bad_plan", Impact.LOW),
    # The plan searches the web for a figure that the database holds exactly; what came back counts.
    "web_undated": ("wrong_tool", Impact.HIGH),
    "web_rounded": ("wrong_tool", Impact.MEDIUM),
    "web_harmless": ("wrong_tool", Impact.LOW),
    # A call that does not match its step: the figure is wrong; the chart has another form; or the schema
    # rejects the call and the executor corrects it.
    "wrong_figure": ("wrong_argument", Impact.HIGH),
    "wrong_form": ("wrong_argument", Impact.MEDIUM),
    "rejected": ("wrong_argument", Impact.LOW),
    # A figure from memory: of a year that the memory cannot know, or of one that it might.
    "skipped_after_cutoff": ("skipped_step", Impact.HIGH),
    "skipped_before_cutoff": ("skipped_step", Impact.MEDIUM),
    # Another figure than the tool returned, or the same one rounded.
    "misread": ("misread_output", Impact.HIGH),
    "rounded": ("misread_output", Impact.LOW),
    # The same call three times or more, or twice.
    "loop": ("repeated_call", Impact.MEDIUM),
    "repeat": ("repeated_call", Impact.LOW),
    # A final answer with no figure, or with a figure that was found on the way but not asked for.
    "no_answer": ("off_target_answer", Impact.HIGH),
    "partial_answer": ("off_target_answer", Impact.MEDIUM),
    "no_end_plan": ("missing_end_plan", Impact.LOW),
}
"""Variant -> (kind of fault, impact): the rule by which an error gets its impact."""


@dataclass(frozen=True)
class FaultRates:
    """The probability of each fault at each place where it can happen.

    Per trace: bad_plan, missing_end_plan, off_target_answer. Per planned fetch of one figure: wrong_tool, skipped_step.
    Per executed step: wrong_argument, repeated_call, and misread_output (not for charts). `spread`: half of the runs
    are careless, with (1 + spread) times the probabilities, the others careful, with (1 - spread) times. The defaults
    give the published shape: about 40 % of tasks with an error in the process, 72 % right outcomes.
    """

    bad_plan: float = 0.08
    wrong_tool: float = 0.065
    wrong_argument: float = 0.065
    skipped_step: float = 0.105
    misread_output: float = 0.06
    repeated_call: float = 0.04
    off_target_answer: float = 0.04
    missing_end_plan: float = 0.045
    spread: float = 0.6

    def scaled(self, factor: float) -> FaultRates:
        """All probabilities times `factor`, at most 1; the spread stays."""
        return replace(self, **{kind: min(1.0, getattr(self, kind) * factor) for kind in FAULTS})

    def of_run(self, careless: bool) -> FaultRates:
        """The rates of one run."""
        return self.scaled(1 + self.spread if careless else 1 - self.spread)


NO_FAULTS = FaultRates().scaled(0)
