from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.recalibration.home import Passed
from pipeline.recalibration.report import pass_table

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


def test_a_pass_that_read_nothing_names_no_cost() -> None:
    text = pass_table(Passed("needs labels", ("few",), {}, 6, more=4), CONFIG)
    assert "Cost" not in text
    assert "4 more labelled traces are needed" in text
    left = pass_table(Passed("rolled back", (), {}, run_id="r1", document={"left": {}}), CONFIG)
    assert "Cost" not in left
    assert "Record in MLflow: run r1" in left
