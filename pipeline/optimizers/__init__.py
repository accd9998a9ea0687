"""Optimisers by name. To add one: a class with `optimize` (see `base.Optimizer`), one line here, the contract tests."""

from __future__ import annotations

from pipeline.optimizers.base import Optimizer
from pipeline.optimizers.dspy_search import DspyOptimizer
from pipeline.optimizers.evolution import EvolutionOptimizer
from pipeline.optimizers.gepa import GepaOptimizer
from pipeline.optimizers.optuna_search import OptunaOptimizer
from pipeline.optimizers.seed import SeedOptimizer

OPTIMIZERS: dict[str, type[Optimizer]] = {
    "dspy": DspyOptimizer,
    "evolution": EvolutionOptimizer,
    "gepa": GepaOptimizer,
    "optuna": OptunaOptimizer,
    "seed": SeedOptimizer,
}
