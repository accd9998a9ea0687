"""What a run may spend, what it has spent, and how much the next call could add at most."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from judges.lm import BudgetExhausted, JudgeError, LMRequest

OWN = "run"
"""The account in a ledger that belongs to one run alone."""
TOKENS_PER_CALL = 64
"""Room for what a chat template adds around the messages."""
DEAREST = 10_000
"""Dollars of a call, and of a million tokens: nothing costs more, and the ledger can add up many such."""
MOST_DOLLARS = 1_000_000
"""Of a budget: what the ledger can add up exactly is nine times that."""


@dataclass(frozen=True)
class Usage:
    """`calls` sent, `tokens` (prompt and completion), `cost` in dollars (of the calls whose price is known).
    `unpriced`: there were others. `assumed`: those of the dollars that stand for `unsure` calls, as the most that each
    can have cost, since nobody knows what it did."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: bool = False
    # They tell how well the cost is known; what was spent is the same.
    assumed: float = field(default=0.0, compare=False)
    unsure: int = field(default=0, compare=False)

    def __sub__(self, before: Usage) -> Usage:
        """What came since."""
        return Usage(
            self.calls - before.calls,
            self.tokens - before.tokens,
            self.cost - before.cost,
            self.unpriced,
            self.assumed - before.assumed,
            self.unsure - before.unsure,
        )

    @property
    def dollars(self) -> float | None:
        """What all calls cost; None where a price is unknown: unknown is not zero."""
        return None if self.unpriced else self.cost

    @property
    def doubt(self) -> str:
        """Which part of `cost` is assumed, to follow it in a sentence; empty where all is known."""
        if self.unpriced or self.assumed <= 0:
            return ""
        calls = f"{self.unsure:,} call{'' if self.unsure == 1 else 's'}"
        why = "a timeout, a lost connection, a stop, no usage told"
        return f", {self.assumed:.4g} of them assumed for {calls} whose cost is not known ({why})"


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens. `cached`: of prompt tokens that the provider's cache served, `written`: of those that
    were put into it; None is the price of all input. `reasoning`: of the reply's; None is the price of all output."""

    input: float
    output: float
    cached: float | None = None
    written: float | None = None
    reasoning: float | None = None

    def __post_init__(self) -> None:
        special = (rate for rate in (self.cached, self.written, self.reasoning) if rate is not None)
        for value in (self.input, self.output, *special):
            _check_amount("price", value, DEAREST, " in dollars per million tokens")

    def cost(
        self, prompt_tokens: int, completion_tokens: int, cached: int = 0, written: int = 0, reasoning: int = 0
    ) -> float:
        """Dollars. `cached` and `written` tokens are among the prompt's, `reasoning` among the completion's."""
        parts = (
            (self.input, None, prompt_tokens - cached - written),
            (self.input, self.cached, cached),
            (self.input, self.written, written),
            (self.output, None, completion_tokens - reasoning),
            (self.output, self.reasoning, reasoning),
        )
        return sum((usual if own is None else own) * tokens for usual, own, tokens in parts) / 1e6

    def most(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Dollars at the dearest rates."""
        prompt = max(self.input, self.cached or 0.0, self.written or 0.0)
        return (prompt * prompt_tokens + max(self.output, self.reasoning or 0.0) * completion_tokens) / 1e6

    @classmethod
    def parse(cls, prices: Mapping[str, Sequence[float]]) -> dict[str, Price]:
        """Model name -> (input, output), (input, output, cached) or all four, as a configuration file holds it.

        Raises:
            JudgeError: anything but two to four numbers from 0 to `DEAREST`.
        """
        parsed = {}
        for model, numbers in prices.items():
            if isinstance(numbers, str) or not isinstance(numbers, Sequence) or not 2 <= len(numbers) <= 4:
                raise JudgeError(
                    f"price of {model} is {numbers!r}: accepted is [input, output], [input, output, cached] or [input, "
                    "output, cached, written into the cache] in dollars per million tokens"
                )
            parsed[model] = cls(*numbers)
        return parsed


@dataclass(frozen=True)
class Budget:
    """The caps of one run; None is no cap. What counts against them stands in the ledger, so a resumed run goes on
    where it was interrupted, and several processes of one run share one budget."""

    calls: int | None = None
    tokens: int | None = None
    dollars: float | None = None

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "dollars"):
            value = getattr(self, name)
            if value is not None:
                _check_amount(f"budget {name}", value, MOST_DOLLARS if name == "dollars" else None)

    def excess(self, spent: Usage, call: Usage) -> str | None:
        """Says which cap `call` would pass after `spent`, None where it fits."""
        rows = (
            ("calls", self.calls, spent.calls, call.calls, "{:,}"),
            ("tokens", self.tokens, spent.tokens, call.tokens, "{:,}"),
            ("dollars", self.dollars, spent.cost, call.cost, "{:.6g}"),
        )
        for unit, cap, used, more, form in rows:
            # Rounded to a trillionth, the ledger's unit: ten times 0.1 dollars must fit into 1 dollar.
            if cap is not None and round(used + more - cap, 12) > 0:
                used_text, more_text, cap_text = (form.format(number) for number in (used, more, cap))
                doubt = spent.doubt if unit == "dollars" else ""
                return f"{used_text} of {cap_text} {unit} are used up{doubt}, and the next call could take {more_text}"
        return None


def exhausted(run: str, reason: str) -> BudgetExhausted:
    """`reason`: see `Budget.excess`. The account is named where the ledger has others."""
    return BudgetExhausted(reason if run == OWN else f"budget of run {run!r}: {reason}")


def reserved_tokens(request: LMRequest) -> tuple[int, int]:
    """The most prompt and completion tokens that a call can need: what is reserved before it is sent.

    A token of the prompt is one UTF-8 byte at least. Text takes about 4 bytes a token, JSON with ids 2.5, but random
    characters 1.4 and lists of digits 1: any tighter bound is passed by some trace.
    """
    texts = [message.content for message in request.messages]
    if request.schema is not None:
        texts.append(json.dumps(request.schema))
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    return size + TOKENS_PER_CALL, request.max_tokens


def unknown_price(models: Iterable[str]) -> JudgeError:
    """What is wrong with a budget in dollars for these models."""
    return JudgeError(
        f"the price of {', '.join(sorted(models))} is unknown, so a budget in dollars cannot be kept: give its price "
        "in dollars per million tokens (`prices` in a file, --price on the command line), or a budget in calls or "
        "tokens"
    )


def _check_amount(name: str, value: object, most: int | None = None, unit: str = "") -> None:
    largest = math.inf if most is None else most
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= largest and value != math.inf:
        return
    raise JudgeError(f"{name} is {value!r}: accepted is a number from 0{'' if most is None else f' to {most:,}'}{unit}")
