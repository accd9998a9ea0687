"""The plan of one trace, as the judges of plans get it: one call, through a ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from judges.judge import estimate_plan, find_plan
from judges.ledger.budget import Budget, Price
from judges.models.connect import check_keys, check_name, open_lm
from judges.plan import ExtractedPlan
from judges.program import seed_program
from labeled_traces.trace import Trace


@dataclass(frozen=True)
class PlanCall:
    """How it is asked for. `ledger`: where replies are kept, so that the same again costs nothing."""

    model: str
    endpoint: str = ""
    trace_tokens: int = 24_000
    seed: int = 0
    timeout: float = 60.0
    budget: Budget = field(default_factory=Budget)
    price: Price | None = None
    ledger: Path | str = Path("runs/inspect/ledger.sqlite")


def extract_plan(trace: Trace, call: PlanCall, say: Callable[[str], None]) -> ExtractedPlan | None:
    """None where the model's reply cannot be used.

    Raises:
        JudgeError, LMError, BudgetExhausted: as evaluate does.
    """
    seed = seed_program("plan_quality")
    knobs = {"model": call.model, "endpoint": call.endpoint, "trace_tokens": call.trace_tokens}
    program = seed.with_knobs(**knobs)
    check_name(call.model, call.endpoint)
    check_keys(frozenset({(call.model, call.endpoint)}))
    prompt, most = estimate_plan(program, trace)
    say(f"plan: one call of {call.model}, about {prompt:,} tokens, at most {most:,} in reply; none if it is kept")
    prices = {} if call.price is None else {call.model: call.price}
    with open_lm(call.ledger, "inspect", call.budget, prices, call.timeout) as lm:
        return asyncio.run(find_plan(program, trace, lm, call.seed))
