"""What is asked of the ledger, one step of one call each, and what a step can come to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from judges.ledger.budget import Budget, Usage
from judges.lm import BudgetExhausted, LMReply, LMRequest


class Reservation(Enum):
    GRANTED = "granted"
    WAIT = "wait"


class End(Enum):
    """How a call ended without a reply: it may be billed, or it is not, or it was not even sent."""

    BILLED = "billed"
    UNBILLED = "unbilled"
    UNSENT = "unsent"


# Plain classes: a frozen one takes a microsecond more to make, and each call needs two.
@dataclass(slots=True)
class Find:
    key: str


@dataclass(slots=True)
class Reserve:
    """A call that takes `most` at the most. `keep`: the request is stored as well."""

    key: str
    request: LMRequest
    run: str
    most: Usage
    budget: Budget
    keep: bool = False


@dataclass(slots=True)
class Complete:
    key: str
    run: str
    reply: LMReply
    paid: Usage


@dataclass(slots=True)
class Answer:
    """A reply to a call that was made elsewhere: it is paid, so it is charged whatever the budget. GRANTED where it
    was filed: where there is no reply yet, and nobody is making the call."""

    key: str
    request: LMRequest
    run: str
    reply: LMReply
    paid: Usage
    keep: bool = False


@dataclass(slots=True)
class Drop:
    key: str
    end: End


Step: TypeAlias = Find | Reserve | Complete | Answer | Drop
Result: TypeAlias = LMReply | Reservation | BudgetExhausted | None
