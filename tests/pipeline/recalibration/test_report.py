from __future__ import annotations

from pathlib import Path

import pytest

from judges.ledger.budget import Usage
from pipeline.metrics.estimate import Estimate
from pipeline.recalibration.home import Passed
from pipeline.recalibration.report import gate_lines, pass_table
from pipeline.results import Result, Side

CONFIG = Path("recalibration.yaml")


@pytest.mark.parametrize(
    ("cost", "simulated", "shown"),
    [
        (1.5, False, "12,345 calls, 67,890 tokens, 1.5000 dollars"),
        (None, False, "12,345 calls, 67,890 tokens, unknown: no price is known for the model"),
        (0.0, True, "12,345 calls, 67,890 tokens, free: the model is simulated"),
    ],
)
def test_a_pass_says_what_it_cost_and_what_is_next(cost: float | None, simulated: bool, shown: str) -> None:
    document = {"calls": 12345, "tokens": 67890, "cost": cost, "simulated": simulated}
    text = pass_table(Passed("promoted", ("because",), {}, 60, run_id="r1", document=document), CONFIG)
    assert f"Cost of this pass: {shown}\nRecord in MLflow: run r1" in text
    assert "gpa-judges rollback recalibration.yaml    if it was a mistake" in text


def test_a_gate_names_its_report() -> None:
    document = {"gate": {"run_dir": "/state/r1/recalibration-1"}}
    text = pass_table(Passed("kept", (), {}, 60, run_id="r1", document=document), CONFIG)
    assert "Report of the gate: /state/r1/recalibration-1/report.html\n" in text


def test_a_pass_that_read_nothing_names_no_cost() -> None:
    text = pass_table(Passed("needs labels", ("few",), {}, 6, more=4), CONFIG)
    assert "Cost" not in text
    assert "4 more labelled traces are needed" in text
    left = pass_table(Passed("rolled back", (), {}, run_id="r1", document={"left": {}}), CONFIG)
    assert "Cost" not in left
    assert "Record in MLflow: run r1" in left


def test_a_gate_says_how_good_both_are_and_what_is_open() -> None:
    result = Result(
        name="recalibration",
        run_dir=Path("/runs/x"),
        model="openai/m",
        simulated=False,
        verdict="INCONCLUSIVE",
        reasons=("9 independent tasks",),
        sides={"seed": Side({"f1": Estimate(0.5)}), "tuned": Side({"f1": Estimate(0.8)})},
        controls=(),
        beaten={},
        differences={"f1": Estimate(0.3, 0.1, 0.4, 40)},
        usage=Usage(),
        cost=None,
        test_uses=1,
        traces=40,
        labels=50,
        labels_needed=106,
        conditions={"failed": (), "open": ("9 independent tasks",), "held": ("f1", "coverage")},
    )
    assert gate_lines(result) == [
        "gate: INCONCLUSIVE: f1 0.50 -> 0.80, +0.30 [+0.10, +0.40], 40 traces; conditions: 1 open, 2 held",
        "open: 9 independent tasks",
        "about 106 more labelled traces would decide it",
    ]
