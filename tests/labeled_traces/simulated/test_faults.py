"""Fault kinds, variants and rates fit together."""

from __future__ import annotations

from dataclasses import fields

import pytest

from labeled_traces.label import DIMENSIONS
from labeled_traces.simulated.faults import FAULTS, NO_FAULTS, VARIANTS, FaultRates


def test_every_kind_has_a_rate_a_variant_and_known_dimensions() -> None:
    assert {f.name for f in fields(FaultRates)} == {*FAULTS, "spread"}
    assert {kind for kind, _ in VARIANTS.values()} == set(FAULTS)
    assert {name for names in FAULTS.values() for name in names} == set(DIMENSIONS)


def test_scaled_multiplies_probabilities_up_to_one_and_keeps_the_spread() -> None:
    rates = FaultRates(bad_plan=0.1, wrong_tool=0.7, spread=0.2).scaled(2)
    assert (rates.bad_plan, rates.wrong_tool, rates.spread) == (0.2, 1.0, 0.2)


def test_careless_and_careful_runs_have_the_stated_rates_on_average() -> None:
    rates = FaultRates(skipped_step=0.2, spread=0.5)
    assert rates.of_run(careless=True).skipped_step == pytest.approx(0.3)
    assert rates.of_run(careless=False).skipped_step == pytest.approx(0.1)


def test_no_faults_means_none() -> None:
    assert all(getattr(NO_FAULTS, kind) == 0 for kind in FAULTS)
