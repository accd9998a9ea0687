"""A seeded world: a data agent over fictional figures, with planted faults and exact labels."""

from labeled_traces.simulated.agent import simulate
from labeled_traces.simulated.checks import Problem, find_problems
from labeled_traces.simulated.faults import FAULTS, FaultRates
from labeled_traces.simulated.rater import rate, shuffle_labels

__all__ = ["FAULTS", "FaultRates", "Problem", "find_problems", "rate", "shuffle_labels", "simulate"]
