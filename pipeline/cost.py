"""What a run may cost at most, told before the first call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judges.budget import Budget
from judges.connect import Models, is_simulated
from judges.judge import estimate_call
from judges.lm import LMRequest
from judges.program import JudgeSuite
from labeled_traces.dataset import LabeledTrace

_SAMPLE = 25
"""Traces that are rendered to estimate the length of a prompt."""


@dataclass(frozen=True)
class Cost:
    """Tokens and dollars are upper bounds. `dollars` is None where a price is unknown; `simulated`: all is free."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    dollars: float | None
    simulated: bool

    def __add__(self, other: Cost) -> Cost:
        unknown = self.dollars is None or other.dollars is None
        return Cost(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            None if unknown else (self.dollars or 0.0) + (other.dollars or 0.0),
            self.simulated and other.simulated,
        )

    def in_words(self, budget: Budget) -> str:
        if self.simulated:
            money = "free: the model is simulated"
        else:
            money = "unknown price" if self.dollars is None else f"at most {self.dollars:.2f} dollars"
        text = (
            f"cost: about {self.calls:,} calls, up to {_rounded(self.prompt_tokens)} prompt and "
            f"{_rounded(self.completion_tokens)} reply tokens; {money}"
        )
        caps = [f"{value:,} {name}" for name, value in vars(budget).items() if value is not None]
        return f"{text}; the budget ends it at {' or '.join(caps)}" if caps else text


def suite_cost(
    suite: JudgeSuite,
    rows: Sequence[LabeledTrace],
    readings: float,
    models: Models,
) -> Cost:
    """Every judge of the suite reads every row `readings` times: the mean over a sample of the rows, scaled up."""
    sample = rows[:: max(1, len(rows) // _SAMPLE)][:_SAMPLE]
    scale = len(rows) / max(1, len(sample)) * readings
    total = Cost(0, 0, 0, 0.0, True)
    for program in suite.programs.values():
        estimates = [estimate_call(program, row.trace) for row in sample]
        prompt = round(sum(tokens for tokens, _ in estimates) * scale)
        completion = round(sum(tokens for _, tokens in estimates) * scale)
        dollars = models.cost_of(LMRequest(program.knobs.model, ()), prompt, completion)
        calls = round(len(rows) * readings)
        total += Cost(calls, prompt, completion, dollars, is_simulated(program.knobs.model))
    return total


def _rounded(number: int) -> str:
    for size, name in ((10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return str(number)
