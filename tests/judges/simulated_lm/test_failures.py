"""What the simulated model knows of failures: its own rubric lines must be worth something to it."""

from __future__ import annotations

import pytest

from judges.simulated_lm.failures import FAILURES, described, kinds_of
from labeled_traces.simulated.faults import FAULTS


def test_every_kind_of_the_simulated_world_is_known() -> None:
    assert set(FAILURES) == set(FAULTS)


@pytest.mark.parametrize("kind", FAILURES)
def test_a_kinds_own_rubric_line_describes_it_fully_and_no_kind_of_another_dimension(kind: str) -> None:
    bullet = FAILURES[kind].bullet
    assert bullet.startswith("- ")
    assert described(kind, bullet) == 1
    others = {other for other in FAILURES if not set(FAULTS[other]) & set(FAULTS[kind])}
    assert all(described(other, bullet) < 1 for other in others)


@pytest.mark.parametrize("kind", FAILURES)
def test_wordings_name_the_facts(kind: str) -> None:
    assert all(wording.count("{facts}") == 1 for wording in FAILURES[kind].wordings)


def test_nothing_is_described_by_an_empty_or_unrelated_text() -> None:
    assert [described(kind, "") for kind in FAILURES] == [0] * len(FAILURES)
    assert described("repeated_call", "Judge how polite the agent is.") == 0


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("missing_end_plan", "missing_end_plan"),
        ("wrong_argument", "wrong_argument"),
        ("Tool Selection Errors", "wrong_tool"),
        ("Tool Output Misinterpretation", "misread_output"),
        ("Resource Abuse", "repeated_call"),
        ("Formatting Errors", "missing_end_plan"),
    ],
)
def test_categories_of_any_label_set_are_understood_by_their_words(category: str, kind: str) -> None:
    assert kind in kinds_of(category)


@pytest.mark.parametrize("kind", FAULTS)
def test_a_kinds_name_means_that_kind_alone(kind: str) -> None:
    assert kinds_of(kind) == (kind,)


def test_an_unknown_category_means_no_kind() -> None:
    assert kinds_of("Quux") == ()
