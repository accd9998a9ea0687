"""What a run found out: one value that the table, the report, MLflow and `--json` are all made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judges.ledger.budget import Usage
from pipeline.metrics.estimate import Estimate
from pipeline.terminal import counted

SIDES = ("seed", "tuned", "holistic")
"""The judges of a result."""
HEADLINE = ("coverage", "localization", "precision", "false_alarms", "alpha", "agreement")
"""The metrics that every table starts with."""


def side_names(*, generic: bool) -> dict[str, str]:
    """What people call the judges of a result. `generic`: those that were tuned are the shipped ones."""
    before = "generic judges" if generic else "champion judges"
    return {"seed": before, "tuned": "tuned judges", "holistic": "holistic judge"}


def counted_labels(labels: int, outside_gpa: int) -> str:
    """How many labels there are, and of which kind, in the same words everywhere."""
    return f"{counted(labels, 'error label')} ({outside_gpa} more outside GPA: reported apart)"


STEP_METRICS = ("f1", "coverage", "localization", "precision", "false_alarms", "alpha", "std")
"""What is said of every step of a search."""


@dataclass(frozen=True)
class StepReport:
    """What one step of the search added, measured on `traces` validation traces with fresh repeats.

    `changed`: the dimensions whose program the step changed; `kept`: those whose change the selection kept. `before`
    and `after` are metrics of all judges, without and with what was kept, `gain` their paired difference; all are empty
    after a single step, of which there is no selection. `seconds` is the time of the searches over all attempts, None
    where one was killed, so that nobody knows.
    """

    optimizer: str
    changed: tuple[str, ...]
    kept: tuple[str, ...]
    judge_calls: int
    reflection_calls: int
    seconds: float | None
    traces: int = 0
    before: Mapping[str, Estimate] = field(default_factory=dict)
    after: Mapping[str, Estimate] = field(default_factory=dict)
    gain: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def calls(self) -> int:
        return self.judge_calls + self.reflection_calls

    def to_json(self) -> dict[str, Any]:
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        return plain | {name: _estimates(getattr(self, name)) for name in _MEASURED}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> StepReport:
        """What `to_json` made."""
        measured = {name: {metric: Estimate(**value) for metric, value in row[name].items()} for name in _MEASURED}
        return cls(**{**row, "changed": tuple(row["changed"]), "kept": tuple(row["kept"]), **measured})


_MEASURED = ("before", "after", "gain")


@dataclass(frozen=True)
class Side:
    """One suite of judges (or one control) on one set of traces.

    `curve` is its free-response curve: (false alarms per clean trace, localized coverage), rising. `outcomes` counts
    the judgments by outcome, `warnings` those whose reply was repaired or cut down in reading, by kind; both are empty
    for a control.
    """

    metrics: Mapping[str, Estimate]
    dimensions: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    curve: tuple[tuple[float, float], ...] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    warnings: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return _estimates(self.metrics)


@dataclass(frozen=True)
class Result:
    """A validation on the testset.

    `sides`: `seed`, `tuned`, `holistic` where it was measured, then the controls, whose names are in `controls`.
    `beaten`: the metrics in which controls beat the tuned judges, with their names.
    `differences` are tuned - seed. `cost` is in dollars, None where a price is unknown. `test_uses` counts the uses of
    this testset, this one included. `traces` and `labels` are the testset's. `steps` are those of the search.
    `primary`: the metric that must rise. `conditions`: `failed`, `open` and `held` -> those of the verdict, in words;
    empty where nothing was read.
    """

    name: str
    run_dir: Path
    model: str
    simulated: bool
    verdict: str
    reasons: tuple[str, ...]
    sides: Mapping[str, Side]
    controls: tuple[str, ...]
    beaten: Mapping[str, Sequence[str]]
    differences: Mapping[str, Estimate]
    usage: Usage
    cost: float | None
    test_uses: int
    traces: int
    labels: int
    outside_gpa: int = 0
    generic: bool = True
    steps: tuple[StepReport, ...] = ()
    labels_needed: int | None = None
    warnings: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    primary: str = "f1"
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """What people call the judges."""
        return side_names(generic=self.generic)

    @property
    def before(self) -> str:
        """What the judges were before the tuning: `generic`, or `champion`."""
        return self.names["seed"].removesuffix(" judges")

    def to_json(self) -> dict[str, Any]:
        """What `demo --json` and `validate --json` print."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "conditions": {state: list(said) for state, said in self.conditions.items()},
            "labels_needed": self.labels_needed,
            "model": self.model,
            "simulated": self.simulated,
            "testset": {name: side.to_json() for name, side in self.sides.items()},
            "beaten_by_controls": {metric: list(names) for metric, names in self.beaten.items()},
            "differences": _estimates(self.differences),
            "steps": [step.to_json() for step in self.steps],
            "dimensions": {
                name: {dimension: _estimates(metrics) for dimension, metrics in side.dimensions.items()}
                for name, side in self.sides.items()
                if side.dimensions
            },
            "outcomes": {name: dict(side.outcomes) for name, side in self.sides.items() if side.outcomes},
            "reading_warnings": {name: dict(side.warnings) for name, side in self.sides.items() if side.warnings},
            "traces": self.traces,
            "labels": self.labels,
            "outside_gpa": self.outside_gpa,
            "test_uses": self.test_uses,
            "calls": self.usage.calls,
            "tokens": self.usage.tokens,
            "cost": self.cost,
            "warnings": list(self.warnings),
            "provenance": dict(self.provenance),
            "run_dir": str(self.run_dir),
        }


def _estimates(metrics: Mapping[str, Estimate]) -> dict[str, Any]:
    return {name: estimate.to_json() for name, estimate in metrics.items()}
