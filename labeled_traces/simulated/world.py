"""The fictional figures, in four versions: truth, database, web and the model's memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

BANKS = (
    "Norhaven Bank",
    "Calder Trust",
    "Brightwater Bank",
    "Ironvale Bank",
    "Lumen Savings",
    "Marrow Street Bank",
    "Quillon Bank",
    "Ashgrove Trust",
)
COUNTRIES = ("Velmar", "Ostrania", "Karsund", "Tirelle", "Quenland")
FIRST_YEAR, LAST_YEAR = 2020, 2024
YEARS = range(FIRST_YEAR, LAST_YEAR + 1)
MEMORY_CUTOFF = 2023
UNIT = "USD bn"
METRICS = {"market_value": "market value", "gdp": "GDP"}
"""Metric as the tools name it -> in words. Banks have a market value, countries a GDP."""

Source: TypeAlias = Callable[[str, int], float]
"""(entity, year) -> its figure in USD bn."""
Rows: TypeAlias = list[list[str | float]]
"""[[label, figure], ...]: a series by year or a ranking by name."""


def metric_of(entity: str) -> str:
    return "market_value" if entity in BANKS else "gdp"


@dataclass(frozen=True)
class World:
    """Four versions of the same figures; each table is keyed by (entity, year).

    Database: the truth, but for two stale records that hold the year before. Web: 40 % exact, 45 % rounded, 15 % the
    year before. Memory: until its cutoff about 65 % right, after it the year before.
    """

    true_figures: Mapping[tuple[str, int], float]
    stale: frozenset[tuple[str, int]]
    web_forms: Mapping[tuple[str, int], str]
    memories: Mapping[tuple[str, int], float]

    def truth(self, entity: str, year: int) -> float:
        return self.true_figures[entity, year]

    def database(self, entity: str, year: int) -> float:
        return self.true_figures[entity, year - ((entity, year) in self.stale)]

    def memory(self, entity: str, year: int) -> float:
        return self.memories[entity, year]

    def web(self, entity: str, year: int) -> str:
        """What a page says: an exact figure, a rounded one ("about"), or an undated one of the year before."""
        fact = f"market value of {entity}" if entity in BANKS else f"GDP of {entity}"
        match self.web_forms[entity, year]:
            case "exact":
                return f"The {fact} in {year} was {self.truth(entity, year)} {UNIT}."
            case "rounded":
                return f"The {fact} in {year} was about {round(self.truth(entity, year))} {UNIT}."
            case _:
                return f"The latest known {fact} is {self.truth(entity, year - 1)} {UNIT}."


def build_world(seed: int) -> World:
    """The same seed gives the same figures. Neighbouring years differ by at least 2.5 %, no figure is round."""
    rng = random.Random(f"world:{seed}")
    figures: dict[tuple[str, int], float] = {}
    for entity in (*BANKS, *COUNTRIES):
        figure = rng.uniform(70, 320) if entity in BANKS else rng.uniform(200, 900)
        for year in (FIRST_YEAR - 1, *YEARS):
            figures[entity, year] = _one_decimal(figure)
            falls = entity in BANKS and rng.random() < 0.3
            figure *= 1 + (-1 if falls else 1) * rng.uniform(0.03, 0.08)
    records = [(entity, year) for entity in (*BANKS, *COUNTRIES) for year in YEARS]
    leaders = sorted(BANKS, key=lambda bank: -figures[bank, LAST_YEAR])[:3]
    return World(
        true_figures=figures,
        stale=frozenset({(rng.choice(leaders), LAST_YEAR), (rng.choice(COUNTRIES), LAST_YEAR)}),
        web_forms={r: rng.choices(("exact", "rounded", "undated"), (40, 45, 15))[0] for r in records},
        memories={(e, y): _remember(figures, e, y, rng) for e, y in records},
    )


def series(source: Source, entity: str, start: int, end: int) -> Rows:
    return [[str(year), source(entity, year)] for year in range(start, end + 1)]


def top_banks(source: Source, year: int, k: int) -> Rows:
    ranking = sorted(BANKS, key=lambda bank: (-source(bank, year), bank))
    return [[bank, source(bank, year)] for bank in ranking[:k]]


def _remember(figures: Mapping[tuple[str, int], float], entity: str, year: int, rng: random.Random) -> float:
    if year > MEMORY_CUTOFF:
        return figures[entity, year - 1]
    if rng.random() < 0.65:
        return figures[entity, year]
    return _one_decimal(figures[entity, year] * (1 + rng.choice((-1, 1)) * rng.uniform(0.03, 0.12)))


def _one_decimal(figure: float) -> float:
    """Rounded to one decimal that is never 0, so that a rounded figure always differs from the exact one."""
    rounded = round(figure, 1)
    return rounded if rounded % 1 else round(rounded + 0.1, 1)
