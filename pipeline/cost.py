"""What a run may cost, told before the first call."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from judges.judgment import HOLISTIC
from judges.ledger.budget import Budget, Usage, unknown_price
from judges.lm import LMRequest
from judges.models.connect import Asked, Models, check_name, is_on_loopback, is_simulated
from judges.models.tokens import reasons
from judges.program import JudgeSuite
from labeled_traces.dataset import LabeledTrace
from pipeline.consent import Consent
from pipeline.dry_run import PLAN, Call, Find, dry_run, sample

_CALLS = 2000
"""Calls that are built to estimate all: a second of work. Of 5,000 simulated traces they tell the tokens to 0.1 %."""
_ENOUGH = 5
"""Kept replies from which their mean is trusted."""

REPLY_TOKENS = {PLAN: 200, HOLISTIC: 700}
REPLY_DEFAULT = 300
"""Tokens of a reply where none is known: a rationale of 450 characters, and 1.5 findings (holistic 5) of 300 with their
evidence, as JSON of 3.5 bytes a token."""
SIMULATED_TOKENS = {PLAN: 63, HOLISTIC: 91, "tool_calling": 46, "logical_consistency": 40, "plan_adherence": 39}
SIMULATED_DEFAULT = 33
"""The means of 150 simulated traces."""
REASONING_TOKENS = 800
"""What a model that reasons unasked writes before its reply, and is paid for."""


@dataclass(frozen=True)
class Cost:
    """What is still to be paid. `calls` and `most_completion` (tokens of replies) are upper bounds, but for replies
    that are cut and asked for again; the other tokens are what is expected. `cached_tokens` are those of the prompts'
    that the provider's cache may serve. `kept`: calls that are in the ledger already.

    `known`: expected dollars of the models with a price, `most`: if nothing is cached and all replies are as long as
    they may be. `paid`: the models that are not simulated; `unpriced`: those of them without a price. `uncounted`: paid
    models whose calls are not in the numbers: how many it will be is not known.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    known: float = 0.0
    paid: frozenset[str] = frozenset()
    unpriced: frozenset[str] = frozenset()
    uncounted: frozenset[str] = frozenset()
    cached_tokens: int = 0
    most_completion: int = 0
    most: float = 0.0
    kept: int = 0

    def __add__(self, other: Cost) -> Cost:
        values: dict[str, Any] = {}
        for one in fields(self):
            mine, others = getattr(self, one.name), getattr(other, one.name)
            values[one.name] = mine | others if isinstance(mine, frozenset) else mine + others
        return Cost(**values)

    @property
    def dollars(self) -> float | None:
        """Expected; None where a price is unknown."""
        return None if self.unpriced else self.known

    @property
    def simulated(self) -> bool:
        """All is free."""
        return not self.paid

    def in_words(self, budget: Budget, spent: Usage | None = None, included: bool = False) -> str:
        """`spent`: what counts against the budget already. `included`: it is in these numbers."""
        spent = spent or Usage()
        if self.kept and not self.calls:
            return f"cost: nothing: all {self.kept:,} calls are in the ledger"
        prompts = f"{_rounded(self.prompt_tokens)} tokens of prompts"
        if self.cached_tokens:
            prompts += f" ({self.cached_tokens / self.prompt_tokens:.0%} of them can come from the provider's cache)"
        text = (
            f"cost: up to about {self.calls:,} calls, {prompts} and {_rounded(self.completion_tokens)} of replies "
            f"(at most {_rounded(self.most_completion)}); {self._money()}"
        )
        if self.kept:
            text += f"; {self.kept:,} of {self.kept + self.calls:,} calls are in the ledger and cost nothing"
        if self.uncounted:
            text += f"; what {', '.join(sorted(self.uncounted))} takes to write proposals comes on top"
        caps, short = [], False
        expected = {"calls": self.calls, "tokens": self.prompt_tokens + self.completion_tokens, "dollars": self.known}
        for name, cap in vars(budget).items():
            if cap is not None:
                used = spent.cost if name == "dollars" else getattr(spent, name)
                shown = f"{used:.2f}" if name == "dollars" else f"{used:,}"
                caps.append(f"{cap:,} {name}{(used and f', of which {shown} are spent already') or ''}")
                short |= expected[name] > cap - (0 if included else used)
        if not caps:
            return text
        text += f"; the budget ends it at {' or '.join(caps)}"
        return f"{text}: if it takes what is expected, it will not finish within the budget" if short else text

    def _money(self) -> str:
        if self.simulated:
            return "free: the model is simulated"
        if self.unpriced:
            return f"unknown price of {', '.join(sorted(self.unpriced))}"
        return f"about {self.known:.2f} dollars, at most {self.most:.2f}"


def announce(
    cost: Cost,
    budget: Budget,
    say: Callable[[str], None],
    consent: Consent | None = None,
    asked: Asked = frozenset(),
    spent: Usage | None = None,
    included: bool = False,
) -> None:
    """Tells what comes before anything is spent, and asks for `consent`; None: nobody is asked. `asked`: the
    models and where; `spent` and `included` as in `Cost.in_words`.

    Raises:
        JudgeError: the budget is in dollars, and a model has no known price.
        PipelineError: there is no consent.
    """
    say(cost.in_words(budget, spent, included))
    if budget.dollars is not None and cost.unpriced:
        raise unknown_price(cost.unpriced)
    if consent is not None:
        comes = cost.unpriced if cost.calls or cost.uncounted else frozenset()
        elsewhere = {name for name, endpoint in asked if not is_on_loopback(name, endpoint)}
        unknown = comes - {name for name, _ in asked}
        consent.ask(cost.known, budget, (comes & elsewhere) | unknown)


def compared(cost: Cost, before: Usage, after: Usage) -> str:
    """What was expected beside what was spent since `before`, for people."""
    spent = after - before
    said = f"spent now: {spent.calls:,} calls, {_rounded(spent.tokens)} tokens"
    expected = f"expected were {cost.calls:,} and {_rounded(cost.prompt_tokens + cost.completion_tokens)}"
    if cost.simulated or after.unpriced or cost.unpriced:
        return f"{said}; {expected}"
    return f"{said}, {spent.cost:.2f} dollars{spent.doubt}; {expected}, {cost.known:.2f} dollars"


def asked_by(suite: JudgeSuite) -> Asked:
    """The models that the judges of a suite ask, and where."""
    return frozenset((one.knobs.model, one.knobs.endpoint) for one in suite.programs.values())


def check_models(asked: Asked, budget: Budget, known: Models) -> None:
    """Names and prices of models, before a folder is made or anything is sent. Keys are not looked
    for: providers find them in more places than one.

    Raises:
        JudgeError: there is no such model or provider; or the budget is in dollars, and a model has no known price.
    """
    for model, endpoint in sorted(asked):
        check_name(model, endpoint)
    unpriced = [
        model
        for model in sorted({model for model, _ in asked})
        if known.cost_of(LMRequest(model, ()), 1000, 1000) is None
    ]
    if budget.dollars is not None and unpriced:
        raise unknown_price(unpriced)


@dataclass(frozen=True)
class Kept:
    """Replies that are had already: `find` by a call's key, of an evaluation with this `seed`.

    `lengths`: model -> kind of call ("" is any judge but the holistic one) -> mean tokens of replies to other calls.
    """

    find: Find | None = None
    seed: int = 0
    lengths: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def suite_cost(
    suite: JudgeSuite, rows: Sequence[LabeledTrace], readings: float, models: Models, kept: Kept | None = None
) -> Cost:
    """Every judge of the suite reads every row `readings` times. A plan is extracted once per row, for all judges and
    readings that share a model and a rendering.

    The calls of a sample of the rows are built and looked up in what is `kept` (then `readings` is a whole number),
    and scaled up. Kept replies of a model tell how long its replies are, how it counts tokens and what it caches.
    """
    kept = kept or Kept()
    # Readings after the second are like it, unless some of them are kept.
    weights = [1.0] * round(readings) if kept.find else [min(1.0, readings), max(0.0, readings - 1)]
    weights = [weight for weight in weights if weight]
    some = sample(rows, max(50, _CALLS // max(1, len(suite.programs) * len(weights))))
    programs = suite.programs.values()
    calls = dry_run(programs, some, len(weights), kept.find, kept.seed)
    groups: dict[str, list[tuple[float, Call]]] = defaultdict(list)
    for call in calls:
        # A plan is extracted once, however often the trace is read, and even if not all are.
        weight = math.ceil(weights[0]) if call.kind == PLAN else weights[call.reading]
        groups[call.model].append((weight * len(rows) / len(some), call))
    costs = (_cost(model, weighted, models, kept.lengths.get(model, {})) for model, weighted in groups.items())
    return sum(costs, Cost())


def uncounted_cost(model: str, models: Models) -> Cost:
    """Of a model that is asked nobody knows how often."""
    cost = _cost(model, [], models, {})
    return replace(cost, uncounted=cost.paid)


def _cost(model: str, weighted: Sequence[tuple[float, Call]], models: Models, lengths: Mapping[str, float]) -> Cost:
    """The calls to one model, each as many times as its weight says; `lengths` of earlier replies, per kind."""
    known = _Known.of(model, [call for _, call in weighted], models, lengths)
    new = [(weight, call) for weight, call in weighted if call.reply is None]
    calls = sum(weight for weight, _ in new)
    prompt = sum(weight * call.prompt for weight, call in new) * known.tokens
    cached = sum(weight * call.cached for weight, call in new) * known.tokens * known.hits
    written = sum(weight * call.written for weight, call in new) * known.tokens
    completion = sum(weight * known.reply(call) for weight, call in new)
    longest = sum(weight * call.most for weight, call in new)
    # Of one call, since long prompts have a price of their own; and of at least one token: of none, a model without a
    # price would cost nothing.
    each = [round(total / calls) if calls else 1000 for total in (prompt, completion, cached, written, longest)]
    expected = models.expected_cost(model, *each[:4] if calls else (1000, 1000))
    most = models.cost_of(LMRequest(model, ()), each[0], each[4])
    paid = frozenset() if is_simulated(model) else frozenset({model})
    return Cost(
        calls=round(calls),
        prompt_tokens=round(prompt),
        completion_tokens=round(completion),
        known=(expected or 0.0) * calls,
        paid=paid,
        unpriced=paid if expected is None else frozenset(),
        cached_tokens=round(cached),
        most_completion=round(longest),
        most=(most or 0.0) * calls,
        kept=round(sum(weight for weight, call in weighted if call.reply is not None)),
    )


@dataclass(frozen=True)
class _Known:
    """What is known of a model. `tokens`: its count of a prompt over ours. `hits`: the share of what its cache may
    serve that it does serve. `replies`: mean tokens of replies, per kind of call and (kind "") of any judge's."""

    model: str
    tokens: float
    hits: float
    replies: Mapping[str, float]

    @classmethod
    def of(cls, model: str, calls: Sequence[Call], models: Models, earlier: Mapping[str, float]) -> _Known:
        replies = [(call, call.reply) for call in calls if call.reply is not None]
        # Replies that were had elsewhere may not tell both.
        kept = [(call, reply) for call, reply in replies if reply.prompt_tokens and reply.completion_tokens]
        lengths: dict[str, list[int]] = defaultdict(list)
        for call, reply in kept:
            lengths[call.kind].append(reply.completion_tokens)
            if call.kind not in REPLY_TOKENS:
                lengths[""].append(reply.completion_tokens)
        means = {kind: sum(found) / len(found) for kind, found in lengths.items() if len(found) >= _ENOUGH}
        # A hosted model without a price for cached tokens may have no cache; the simulated ones have none.
        caches = models.has_cached_price(model) or not all(call.hosted for call in calls)
        tokens, hits = 1.0, float(caches and not is_simulated(model))
        if len(kept) >= _ENOUGH:
            tokens = sum(reply.prompt_tokens for _, reply in kept) / sum(call.prompt for call, _ in kept)
            if able := sum(call.cached for call, _ in kept) * tokens:
                hits = min(1.0, sum(reply.cached_tokens for _, reply in kept) / able)
        return cls(model, tokens, hits, {**earlier, **means})

    def reply(self, call: Call) -> float:
        """Tokens of the reply to a call."""
        found = self.replies.get(call.kind if call.kind in self.replies or call.kind in REPLY_TOKENS else "")
        if found is not None:
            return found
        if is_simulated(self.model):
            return SIMULATED_TOKENS.get(call.kind, SIMULATED_DEFAULT)
        usual = REPLY_TOKENS.get(call.kind, REPLY_DEFAULT) + REASONING_TOKENS * reasons(self.model)
        return min(call.most, usual)


def _rounded(number: int) -> str:
    for size, name in ((10**9, "billion"), (10**6, "million"), (10**3, "thousand")):
        if number >= size:
            return f"{number / size:.3g} {name}"
    return str(number)
