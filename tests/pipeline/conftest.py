from __future__ import annotations

import pytest

from judges.program import JudgeProgram
from labeled_traces.split import Development
from pipeline.optimizers import OPTIMIZERS
from pipeline.optimizers.base import OptimizationResult, SearchContext, check_development


class ByHand:
    """Not a search: a line more in each rubric, without a call."""

    name = "by_hand"

    def optimize(self, program: JudgeProgram, development: Development, context: SearchContext) -> OptimizationResult:
        check_development(development, context.locked)
        better = program.with_parts({"rubric": f"{program.rubric}\n- Look twice."}, "by hand")
        return OptimizationResult(better, improved=True, reason="a line", stop_reason="done", optimizer=self.name)


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment may say `optimizer: by_hand`: a tuning that changes something and costs nothing."""
    monkeypatch.setitem(OPTIMIZERS, ByHand.name, ByHand)
