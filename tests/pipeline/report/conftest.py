"""A result whose numbers are made up, for the tests of what people read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from judges.ledger.budget import Usage
from pipeline.metrics.estimate import Estimate
from pipeline.results import HEADLINE, STEP_METRICS, Result, Side, StepReport


def estimates(value: float) -> dict[str, Estimate]:
    return {name: Estimate(value, value - 0.05, value + 0.05, 120) for name in (*HEADLINE, "f1", "scored_share")}


def step(optimizer: str, before: float, after: float, kept: tuple[str, ...]) -> StepReport:
    low, high = ({name: Estimate(value, value, value, 100) for name in STEP_METRICS} for value in (before, after))
    gain = {name: Estimate(after - before, after - before - 0.05, after - before + 0.05, 100) for name in STEP_METRICS}
    changed = ("plan_quality", "tool_calling")
    return StepReport(optimizer, changed, kept, 12_345, 100, 21.6, 100, low, high, gain)


@pytest.fixture
def result() -> Result:
    seed, tuned, holistic = estimates(0.5), estimates(0.75), estimates(0.25)
    tuned["alpha"] = Estimate(None, n=120, reason="alpha undefined: no variation")
    better = {name: Estimate(0.25, 0.1, 0.4, 120) for name in seed}
    sides = {
        "seed": Side(seed, {"plan_quality": seed}, ((0.0, 0.0), (0.5, 0.4)), {"scored": 9, "refused": 1}),
        "tuned": Side(tuned, {"plan_quality": tuned}, ((0.0, 0.0), (0.3, 0.7)), {"scored": 10}),
        "holistic": Side(holistic, {}, ((0.0, 0.1),), {"scored": 2}),
        "flag_all": Side(replace_coverage(estimates(0.1), 1.0), {}, ((0.0, 0.0), (9.0, 1.0))),
    }
    return Result(
        name="a <b> run & more",
        run_dir=Path("/runs/x"),
        model="simulated/default",
        simulated=True,
        verdict="PASS",
        reasons=("f1 rose <much>", "alpha rose"),
        conditions={"failed": (), "open": (), "held": ("f1 rose <much>", "alpha rose")},
        sides=sides,
        controls=("flag_all",),
        beaten={"coverage": ["flag_all"]},
        differences=better,
        usage=Usage(1234, 56789, 0.0),
        cost=0.0,
        test_uses=1,
        traces=60,
        labels=70,
        outside_gpa=3,
        steps=(step("gepa", 0.5, 0.7, ("plan_quality", "tool_calling")), step("evolution", 0.7, 0.7, ())),
        provenance={"data": "abc", "rule": "min \ud83d"},
    )


def replace_coverage(metrics: dict[str, Estimate], value: float) -> dict[str, Estimate]:
    return {**metrics, "coverage": replace(metrics["coverage"], value=value)}
