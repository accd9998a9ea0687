"""The simulated data agent: runs tasks, plants faults and writes their exact labels."""

from __future__ import annotations

from labeled_traces.dataset import LabeledTrace
from labeled_traces.simulated.faults import FaultRates


def simulate(n: int, seed: int, rates: FaultRates | None = None, world_seed: int = 0) -> list[LabeledTrace]:
    """`n` traces with their true labels."""
    raise NotImplementedError
