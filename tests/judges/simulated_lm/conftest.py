"""Traces of the simulated agent, with more faults than usual."""

from __future__ import annotations

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.simulated import FaultRates, simulate


@pytest.fixture(scope="session")
def simulated_rows() -> list[LabeledTrace]:
    return list(simulate(60, seed=5, rates=FaultRates().scaled(2.0)))
