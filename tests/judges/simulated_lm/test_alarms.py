"""Themes of false alarms: what is complained of, and the clause that ends it, must belong together."""

from __future__ import annotations

import re

import pytest

from judges.simulated_lm.alarms import THEMES, Theme, not_errors, theme_of
from labeled_traces.label import DIMENSIONS

CASES = [(dimension, theme) for dimension, themes in THEMES.items() for theme in themes]


def test_every_dimension_has_themes_whose_shares_add_up() -> None:
    assert set(THEMES) == set(DIMENSIONS)
    assert all(sum(theme.share for theme in themes) == pytest.approx(1) for themes in THEMES.values())


@pytest.mark.parametrize(("dimension", "theme"), CASES)
def test_complaints_are_recognised_as_their_theme(dimension: str, theme: Theme) -> None:
    assert all(theme_of(dimension, wording) is theme for wording in theme.wordings)


@pytest.mark.parametrize(("dimension", "theme"), CASES)
def test_a_clause_denies_its_own_theme_alone(dimension: str, theme: Theme) -> None:
    assert not_errors(theme.clause) == theme.clause
    denied = [other for other in THEMES[dimension] if re.search(other.cue, theme.clause, re.IGNORECASE)]
    assert denied == [theme]


def test_denials_are_the_lines_that_say_what_is_no_error() -> None:
    text = "Report a loop.\n- Not an error: one retry.\nDo not report style.\nA short answer is an error."
    assert not_errors(text) == "- Not an error: one retry.\nDo not report style."


def test_a_complaint_of_no_theme_has_none() -> None:
    assert theme_of("plan_quality", "The sky is blue.") is None
    assert theme_of("holistic", "There is no fallback.") is None
