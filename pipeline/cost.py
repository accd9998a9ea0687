"""What a run may cost, told before the first call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from judges.judge import estimate_call, estimate_plan
from judges.ledger.budget import Budget, unknown_price
from judges.lm import LMRequest
from judges.models.connect import Models, check_name, is_simulated
from judges.plan import wants_plan
from judges.program import JudgeProgram, JudgeSuite
from labeled_traces.dataset import LabeledTrace

_SAMPLE = 25
"""Traces that are rendered to estimate the length of a prompt."""


@dataclass(frozen=True)
class Cost:
    """Calls and tokens of replies are upper bounds, but for replies that are cut and asked for again. Tokens of prompts
    are what such texts take on average (see `estimate_tokens`).

    `known`: dollars of the models with a price. `paid`: the models that are not simulated; `unpriced`: those of them
    without a price. `uncounted`: paid models whose calls are not in the numbers: how many it will be is not known.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    known: float = 0.0
    paid: frozenset[str] = frozenset()
    unpriced: frozenset[str] = frozenset()
    uncounted: frozenset[str] = frozenset()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.known + other.known,
            self.paid | other.paid,
            self.unpriced | other.unpriced,
            self.uncounted | other.uncounted,
        )

    @property
    def dollars(self) -> float | None:
        """None where a price is unknown."""
        return None if self.unpriced else self.known

    @property
    def simulated(self) -> bool:
        """All is free."""
        return not self.paid

    def in_words(self, budget: Budget) -> str:
        if self.simulated:
            money = "free: the model is simulated"
        else:
            money = "unknown price" if self.dollars is None else f"about {self.dollars:.2f} dollars"
        text = (
            f"cost: up to about {self.calls:,} calls, {_rounded(self.prompt_tokens)} tokens of prompts and at most "
            f"{_rounded(self.completion_tokens)} of replies; {money}"
        )
        if self.uncounted:
            text += f"; what {', '.join(sorted(self.uncounted))} takes to write proposals comes on top"
        caps = [f"{value:,} {name}" for name, value in vars(budget).items() if value is not None]
        return f"{text}; the budget ends it at {' or '.join(caps)}" if caps else text


def announce(cost: Cost, budget: Budget, say: Callable[[str], None]) -> None:
    """Tells what comes before anything is spent.

    Raises:
        JudgeError: the budget is in dollars, and a model has no known price.
    """
    say(cost.in_words(budget))
    if budget.dollars is not None and cost.unpriced:
        raise unknown_price(cost.unpriced)


def check_models(models: Mapping[str, str], budget: Budget, known: Models) -> None:
    """Names and prices of models (name -> endpoint), before a folder is made or anything is sent. Keys are not looked
    for: providers find them in more places than one.

    Raises:
        JudgeError: there is no such model or provider; or the budget is in dollars, and a model has no known price.
    """
    for model, endpoint in models.items():
        check_name(model, endpoint)
    unpriced = [model for model in models if known.cost_of(LMRequest(model, ()), 1000, 1000) is None]
    if budget.dollars is not None and unpriced:
        raise unknown_price(unpriced)


def suite_cost(suite: JudgeSuite, rows: Sequence[LabeledTrace], readings: float, models: Models) -> Cost:
    """Every judge of the suite reads every row `readings` times: the mean over a sample of the rows, scaled up. A plan
    is extracted once per row, for all judges and readings that share a model and a rendering."""
    sample = rows[:: max(1, len(rows) // _SAMPLE)][:_SAMPLE]
    plans: dict[tuple[object, ...], JudgeProgram] = {}
    total = Cost()
    for program in suite.programs.values():
        estimates = [estimate_call(program, row.trace) for row in sample]
        if wants_plan(program) and readings:
            knobs = program.knobs
            plans[knobs.model, knobs.endpoint, knobs.max_tokens, knobs.trace_tokens] = program
        shared = [estimate_plan(program, row.trace) for row in sample]
        alone = [(call[0] - plan[0], call[1] - plan[1]) for call, plan in zip(estimates, shared, strict=True)]
        total += _cost(program.knobs.model, alone, len(rows) * readings, models)
    for program in plans.values():
        shared = [estimate_plan(program, row.trace) for row in sample]
        total += _cost(program.knobs.model, shared, len(rows), models)
    return total


def uncounted_cost(model: str, models: Models) -> Cost:
    """Of a model that is asked nobody knows how often."""
    cost = _cost(model, [], 0, models)
    return replace(cost, uncounted=cost.paid)


def _cost(model: str, sample: Sequence[tuple[int, int]], calls: float, models: Models) -> Cost:
    """So many calls whose prompt and completion tokens are on average those of the sample."""
    scale = calls / max(1, len(sample))
    prompt, completion = (round(sum(tokens[i] for tokens in sample) * scale) for i in (0, 1))
    # Asked of at least one token: of none, a model without a price would cost nothing.
    unpriced = models.cost_of(LMRequest(model, ()), 1000, 1000) is None
    dollars = models.cost_of(LMRequest(model, ()), prompt, completion)
    paid = frozenset() if is_simulated(model) else frozenset({model})
    return Cost(round(calls), prompt, completion, dollars or 0.0, paid, paid if unpriced else frozenset())


def _rounded(number: int) -> str:
    for size, name in ((10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return str(number)
