"""The fictional figures: their versions differ as stated, and a seed gives the same figures again."""

from __future__ import annotations

import pytest

from labeled_traces.simulated.world import (
    BANKS,
    COUNTRIES,
    LAST_YEAR,
    MEMORY_CUTOFF,
    YEARS,
    World,
    build_world,
    series,
    top_banks,
)

RECORDS = [(entity, year) for entity in (*BANKS, *COUNTRIES) for year in YEARS]


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [build_world(seed) for seed in range(60)]


def test_a_seed_gives_the_same_world_and_another_seed_another() -> None:
    assert build_world(3) == build_world(3)
    assert build_world(3) != build_world(4)


def test_there_are_eight_banks_five_countries_and_five_years() -> None:
    assert (len(BANKS), len(COUNTRIES), list(YEARS)) == (8, 5, [2020, 2021, 2022, 2023, 2024])


def test_the_database_is_the_truth_but_for_two_stale_records(worlds: list[World]) -> None:
    for world in worlds:
        differing = {record for record in RECORDS if world.database(*record) != world.truth(*record)}
        assert differing == world.stale
        assert len(differing) == 2
        assert all(world.database(entity, year) == world.truth(entity, year - 1) for entity, year in differing)


def test_last_years_figure_is_never_within_the_tolerance_of_an_answer(worlds: list[World]) -> None:
    for world in worlds:
        for entity, year in RECORDS:
            assert abs(world.truth(entity, year - 1) / world.truth(entity, year) - 1) > 0.02


def test_no_figure_is_round(worlds: list[World]) -> None:
    assert all(figure != round(figure) for world in worlds for figure in world.true_figures.values())


def test_the_web_is_40_percent_exact_45_rounded_and_15_undated(worlds: list[World]) -> None:
    forms = [world.web_forms[record] for world in worlds for record in RECORDS]
    shares = {form: forms.count(form) / len(forms) for form in ("exact", "rounded", "undated")}
    assert shares == pytest.approx({"exact": 0.40, "rounded": 0.45, "undated": 0.15}, abs=0.03)


def test_the_web_says_what_its_form_promises(worlds: list[World]) -> None:
    world = worlds[0]
    for entity, year in RECORDS:
        page = world.web(entity, year)
        match world.web_forms[entity, year]:
            case "exact":
                assert f"in {year} was {world.truth(entity, year)} USD bn." in page
            case "rounded":
                assert f"in {year} was about {round(world.truth(entity, year))} USD bn." in page
            case _:
                assert page.startswith("The latest known ")
                assert page.endswith(f"is {world.truth(entity, year - 1)} USD bn.")


def test_memory_is_right_about_65_percent_before_its_cutoff_and_a_year_late_after_it(worlds: list[World]) -> None:
    known = [(world, *record) for world in worlds for record in RECORDS if record[1] <= MEMORY_CUTOFF]
    right = sum(world.memory(entity, year) == world.truth(entity, year) for world, entity, year in known)
    assert right / len(known) == pytest.approx(0.65, abs=0.03)
    for world in worlds:
        for entity in (*BANKS, *COUNTRIES):
            assert world.memory(entity, LAST_YEAR) == world.truth(entity, LAST_YEAR - 1)


def test_series_and_ranking_read_one_version(worlds: list[World]) -> None:
    world = worlds[1]
    assert series(world.truth, "Velmar", 2021, 2022) == [
        ["2021", world.truth("Velmar", 2021)],
        ["2022", world.truth("Velmar", 2022)],
    ]
    ranking = top_banks(world.truth, 2022, 3)
    assert [row[1] for row in ranking] == sorted((world.truth(bank, 2022) for bank in BANKS), reverse=True)[:3]
