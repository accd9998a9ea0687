"""A seeded world: a data agent over fictional figures, with planted faults and exact labels.

A run is a tree: AGENT `data_agent` (task -> answer) over LLM `planner` (its output is the plan, `plan.py` has the
notation), one LLM `executor` a step (`Step N: <thought> <call>`, then `Recorded <name> = <JSON>`) with its calls as
TOOL children, and LLM `final_answer`. The planner's system message states what the database holds and where memory
ends; the tools' schemas stand in its inputs.
"""

from labeled_traces.simulated.agent import simulate
from labeled_traces.simulated.checks import Problem, find_problems
from labeled_traces.simulated.faults import FAULTS, FaultRates
from labeled_traces.simulated.rater import rate, shuffle_labels

__all__ = ["FAULTS", "FaultRates", "Problem", "find_problems", "rate", "shuffle_labels", "simulate"]
