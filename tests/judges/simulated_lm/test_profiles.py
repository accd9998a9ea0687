"""Profiles: numbers that can be rates, and a clear word for a name that is none of them."""

from __future__ import annotations

from dataclasses import fields

import pytest

from judges.lm import JudgeError
from judges.simulated_lm.profiles import PROFILES, profile_of


def test_a_model_name_finds_its_profile() -> None:
    assert profile_of("simulated/default") is PROFILES["default"]


@pytest.mark.parametrize("name", ["simulated/clever", "default", "openai/default", "simulated/"])
def test_an_unknown_profile_is_an_error_that_lists_the_known_ones(name: str) -> None:
    with pytest.raises(JudgeError, match=r"simulated/forgetful, simulated/overzealous, simulated/default") as caught:
        profile_of(name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("name", PROFILES)
def test_rates_are_probabilities(name: str) -> None:
    profile = PROFILES[name]
    assert sum(profile.alarm_severity) == pytest.approx(1)
    for field in fields(profile):
        if field.name.endswith(("_noise", "_error", "_calm", "_aim")) or field.name in ("aim", "leak", "echo", "slip"):
            assert 0 <= getattr(profile, field.name) <= 1, field.name
