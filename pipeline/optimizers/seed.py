"""The baseline that changes nothing."""

from __future__ import annotations

from judges.program import JudgeProgram
from labeled_traces.split import Development
from pipeline.optimizers.base import OptimizationResult, SearchContext, check_input


class SeedOptimizer:
    """The `seed` optimiser: returns its input, makes no call."""

    name = "seed"
    reflects = False

    def optimize(self, program: JudgeProgram, development: Development, context: SearchContext) -> OptimizationResult:
        """As `Optimizer.optimize`."""
        check_input(program, development, context)
        return OptimizationResult(
            program, improved=False, reason="this baseline changes nothing", stop_reason="done", optimizer=self.name
        )
