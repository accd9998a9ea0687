"""What limits of requests and tokens a minute do to an evaluation: the time that they take, and what they cannot let
through."""

from __future__ import annotations

from collections.abc import Callable

from judges.models.limits import Limits
from pipeline.cost import Cost
from pipeline.progress import duration


def tell_limits(cost: Cost, limits: Limits, say: Callable[[str], None]) -> None:
    """Says the least time that the limits allow for what is still to be paid, and warns where a call is larger than
    the limit. Simulated models have no limits; limits hold for each model."""
    if cost.simulated or not cost.calls:
        return
    prompt, reply = cost.prompt_tokens / cost.calls, cost.most_completion / cost.calls
    for limit, unit, needed in (
        (limits.rpm, "requests", cost.calls),
        (limits.tpm, "tokens", cost.prompt_tokens + cost.completion_tokens),
    ):
        if limit is not None and (least := needed / len(cost.paid) / limit * 60) >= 10:
            say(f"at {limit:,} {unit} a minute: at least {duration(least)}")
    if limits.tpm is not None and limits.tpm < prompt + reply:
        say(
            f"warning: one call takes about {round(prompt):,} tokens of its prompt and up to {round(reply):,} of its "
            f"reply: a provider that lets through {limits.tpm:,} a minute (--tpm) refuses such calls"
        )
