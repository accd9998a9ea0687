from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from judges.ledger.budget import Usage
from pipeline.cli import main
from pipeline.results import Result


@pytest.mark.parametrize(("simulated", "to"), [(True, "folder"), (False, "mlflow")])
def test_the_next_step_of_a_pass_is_one_that_can_be_taken(
    simulated: bool, to: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing: dict[str, Any] = {"sides": {}, "controls": (), "beaten": {}, "differences": {}, "reasons": ()}
    counts: dict[str, Any] = {"usage": Usage(), "cost": 0.0, "test_uses": 1, "traces": 1, "labels": 1}
    result = Result("a", Path("runs/a"), "a/model", simulated, "PASS", **nothing, **counts)
    monkeypatch.setattr("pipeline.run.validate_run", lambda *_: result)
    assert main(["validate", "runs/a"]) == 0
    assert f"\n  gpa-judges export runs/a --to {to}\n" in capsys.readouterr().out
