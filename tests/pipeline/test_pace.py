from __future__ import annotations

import pytest

from judges.models.limits import Limits
from pipeline.cost import Cost
from pipeline.pace import tell_limits

COST = Cost(
    calls=480, prompt_tokens=480_000, completion_tokens=48_000, most_completion=480 * 500, paid=frozenset({"openai/x"})
)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(rpm=60), ["at 60 requests a minute: at least 8 min"]),
        (Limits(tpm=8_800), ["at 8,800 tokens a minute: at least 60 min"]),
        (Limits(rpm=100_000), []),
        (Limits(), []),
        (
            Limits(tpm=1_200),
            [
                "at 1,200 tokens a minute: at least 7 h 20 min",
                "warning: one call takes about 1,000 tokens of its prompt and up to 500 of its reply: a provider that "
                "lets through 1,200 a minute (--tpm) refuses such calls",
            ],
        ),
    ],
)
def test_what_limits_mean_is_said(limits: Limits, said: list[str]) -> None:
    lines: list[str] = []
    tell_limits(COST, limits, lines.append)
    assert lines == said


def test_what_is_simulated_or_kept_takes_no_time() -> None:
    lines: list[str] = []
    for cost in (Cost(calls=100), Cost(kept=100, paid=frozenset({"openai/x"}))):
        tell_limits(cost, Limits(1, 1), lines.append)
    assert lines == []
