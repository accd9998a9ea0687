from __future__ import annotations

import pytest

from judges.judgment import HOLISTIC, Finding, Judgment, Outcome
from labeled_traces.label import DIMENSIONS, Impact


def test_the_outcomes_are_a_closed_list() -> None:
    assert [str(outcome) for outcome in Outcome] == [
        "scored",
        "not_applicable",
        "refused",
        "truncated",
        "unparseable",
        "too_long",
        "timeout",
        "provider_error",
        "not_run",
    ]


@pytest.mark.parametrize("outcome", Outcome)
def test_only_a_verdict_is_usable(outcome: Outcome) -> None:
    judgment = Judgment("t", "tool_calling", "abc", 0, outcome)
    assert judgment.usable == (outcome in (Outcome.SCORED, Outcome.NOT_APPLICABLE))
    assert (judgment.score, judgment.findings, judgment.cost) == (None, (), None)


def test_equal_findings_are_one_in_a_set() -> None:
    one, same = (Finding("tool_calling", ("s1",), "e", severity=Impact.HIGH) for _ in range(2))
    assert len({one, same, Finding("tool_calling", ("s2",), "e", severity=Impact.HIGH)}) == 2


def test_the_holistic_judge_is_no_dimension() -> None:
    assert HOLISTIC not in DIMENSIONS
