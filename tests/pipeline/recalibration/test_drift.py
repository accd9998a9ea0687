from __future__ import annotations

import pytest

from pipeline.export.reference import Reference
from pipeline.metrics.estimate import Estimate
from pipeline.recalibration.config import DriftConfig
from pipeline.recalibration.drift import find_drift


@pytest.mark.parametrize(
    ("metric", "now", "then", "drifted"),
    [
        ("f1", Estimate(0.6, 0.5, 0.69), 0.75, True),
        ("f1", Estimate(0.6, 0.5, 0.71), 0.75, False),
        ("f1", Estimate(0.9, 0.85, 0.95), 0.75, False),
        ("false_alarms", Estimate(0.3, 0.26, 0.4), 0.2, True),
        ("false_alarms", Estimate(0.3, 0.24, 0.4), 0.2, False),
        ("f1", Estimate(None, reason="no label"), 0.75, False),
        ("f1", Estimate(0.1, reason="no interval"), 0.75, False),
        ("f1", Estimate(0.1, 0.0, 0.2), None, False),
    ],
)
def test_a_whole_interval_must_be_worse_by_the_margin(
    metric: str, now: Estimate, then: float | None, drifted: bool
) -> None:
    reference = Reference("span", {} if then is None else {metric: then})
    found = find_drift({metric: now}, reference, DriftConfig(metrics=(metric,), margin=0.05))
    assert found.drifted == ((metric,) if drifted else ())
    assert len(found.reasons) == 1
    assert found.reasons[0].startswith(f"{metric}: ")


def test_any_metric_can_drift() -> None:
    now = {"f1": Estimate(0.8, 0.7, 0.9), "coverage": Estimate(0.5, 0.4, 0.6)}
    reference = Reference("span", {"f1": 0.8, "coverage": 0.8})
    assert find_drift(now, reference, DriftConfig(metrics=("f1", "coverage"))).drifted == ("coverage",)


def test_a_reference_is_a_tag() -> None:
    reference = Reference.of("span", {"f1": Estimate(0.5), "alpha": Estimate(None, reason="x")})
    assert reference.metrics == {"f1": 0.5}
    assert Reference.parse(reference.to_text()) == reference


@pytest.mark.parametrize("text", [None, "", "{}", "[1]", "1", '{"matcher": "span", "metrics": {"f1": "x"}}', "no JSON"])
def test_anything_else_is_no_reference(text: str | None) -> None:
    assert Reference.parse(text) is None
