"""Five kinds of task: their wording, reference plan, answer, and what counts as right."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from labeled_traces.simulated.plan import Step
from labeled_traces.simulated.tools import calculate
from labeled_traces.simulated.world import (
    BANKS,
    COUNTRIES,
    FIRST_YEAR,
    LAST_YEAR,
    METRICS,
    UNIT,
    Rows,
    Source,
    metric_of,
    series,
    top_banks,
)
from labeled_traces.trace import JSON, text_hash

KINDS = ("one_value", "compare", "growth", "series_chart", "top_k_chart")
LAST_YEAR_SHARE = 0.35
"""The share of tasks that ask for the newest year, where the database has its stale records and memory ends."""


@dataclass(frozen=True)
class Task:
    """`years` is one year, or first and last; `k` counts only for a chart of the top k banks."""

    kind: str
    entities: tuple[str, ...]
    years: tuple[int, ...]
    k: int = 0

    @property
    def task_id(self) -> str:
        return f"{self.kind}-{text_hash(self.text)[:8]}"

    @property
    def metric(self) -> str:
        return metric_of(self.entities[0]) if self.entities else "market_value"

    @property
    def text(self) -> str:
        what, year = METRICS[self.metric], self.years[0]
        match self.kind:
            case "one_value":
                return f"What was the {what} of {self.entities[0]} in {year}, in {UNIT}?"
            case "compare":
                first, second = self.entities
                return f"Which had the higher {what} in {year}, {first} or {second}, and by how much?"
            case "growth":
                return (
                    f"By how many percent did the {what} of {self.entities[0]} change from {year} to {self.years[1]}?"
                )
            case "series_chart":
                span = f"from {year} to {self.years[1]}"
                return f"Draw a line chart of the {what} of {self.entities[0]} {span} and list the values."
        return f"Draw a bar chart of the top {self.k} banks by {what} in {year} and list them with their values."

    def reference_plan(self) -> list[Step]:
        """`v1`, `v2` are fetched figures, `r` is computed, `c` is a chart: the answer reads them by these names."""

        def lookup(entity: str, year: int, output: str) -> Step:
            return Step("db_lookup", {"entity": entity, "metric": self.metric, "year": year}, output)

        year = self.years[0]
        match self.kind:
            case "one_value":
                return [lookup(self.entities[0], year, "v1")]
            case "compare":
                fetches = [lookup(entity, year, f"v{i}") for i, entity in enumerate(self.entities, 1)]
                return [*fetches, Step("calculator", {"expression": "v1 - v2"}, "r")]
            case "growth":
                fetches = [lookup(self.entities[0], y, f"v{i}") for i, y in enumerate(self.years, 1)]
                return [*fetches, Step("calculator", {"expression": "(v2 - v1) / v1 * 100"}, "r")]
            case "series_chart":
                title = f"{METRICS[self.metric]} of {self.entities[0]}, {year}-{self.years[1]}"
                span = {"start_year": year, "end_year": self.years[1]}
                fetch = Step("db_series", {"entity": self.entities[0], "metric": self.metric, **span}, "v1")
                return [fetch, Step("make_chart", {"kind": "line", "title": title, "points": "v1"}, "c")]
        title = f"Top {self.k} banks by {METRICS[self.metric]}, {year}"
        fetch = Step("db_top_k", {"year": year, "k": self.k}, "v1")
        return [fetch, Step("make_chart", {"kind": "bar", "title": title, "points": "v1"}, "c")]

    def true_values(self, source: Source) -> dict[str, JSON]:
        """What the reference plan produces over a version of the figures."""
        year = self.years[0]
        if self.kind == "series_chart":
            return {"v1": series(source, self.entities[0], *self.years), "c": "chart-1"}
        if self.kind == "top_k_chart":
            return {"v1": top_banks(source, year, self.k), "c": "chart-1"}
        values: dict[str, JSON] = {"v1": source(self.entities[0], year)}
        if self.kind == "compare":
            values["v2"] = source(self.entities[1], year)
            values["r"] = calculate(f"{values['v1']} - {values['v2']}")
        if self.kind == "growth":
            values["v2"] = source(self.entities[0], self.years[1])
            values["r"] = calculate(f"({values['v2']} - {values['v1']}) / {values['v1']} * 100")
        return values


def answer_text(task: Task, values: Mapping[str, JSON]) -> str | None:
    """The answer that the recorded values give; None where a value is missing or is no figure."""
    what, year = METRICS[task.metric], task.years[0]
    try:
        match task.kind:
            case "one_value":
                return f"The {what} of {task.entities[0]} in {year} was {values['v1']} {UNIT}."
            case "compare":
                winner = task.entities[0 if values["r"] >= 0 else 1]
                return f"{winner} had the higher {what} in {year}, by {abs(values['r'])} {UNIT}."
            case "growth":
                span = f"from {year} to {task.years[1]}"
                return f"The {what} of {task.entities[0]} changed by {values['r']} % {span}."
            case "series_chart":
                subject = f"the {what} of {task.entities[0]} from {year} to {task.years[1]}"
            case _:
                subject = f"the top {task.k} banks by {what} in {year}"
        return f"{values['c']} shows {subject}: {_listed(values['v1'])} {UNIT}."
    except (KeyError, TypeError, ValueError):
        return None


def partial_answer(task: Task, values: Mapping[str, JSON]) -> str | None:
    """An answer that states something found on the way but not what was asked; None for a task of one value."""
    what = METRICS[task.metric]
    match task.kind:
        case "one_value":
            return None
        case "compare":
            return f"The {what} of {task.entities[0]} in {task.years[0]} was {values['v1']} {UNIT}."
        case "growth":
            return f"The {what} of {task.entities[0]} in {task.years[1]} was {values['v2']} {UNIT}."
    return f"The chart is ready: {values['c']}."


def is_right(task: Task, values: Mapping[str, JSON], truth: Mapping[str, JSON]) -> bool:
    """A figure is right within 1 %, a growth rate within half a point, a comparison when it names the right bank."""
    match task.kind:
        case "one_value":
            return same_value(values["v1"], truth["v1"])
        case "compare":
            return bool((values["r"] >= 0) == (truth["r"] >= 0))
        case "growth":
            return bool(abs(values["r"] - truth["r"]) <= 0.5)
    return same_value(values["v1"], truth["v1"])


def same_value(value: JSON, truth: JSON) -> bool:
    """Figures within 1 %; rows with the same labels and such figures."""
    if isinstance(truth, list):
        return [row[0] for row in value] == [row[0] for row in truth] and all(
            same_value(row[1], true[1]) for row, true in zip(value, truth, strict=True)
        )
    return value == truth or (isinstance(truth, float) and bool(abs(value - truth) <= 0.01 * abs(truth)))


def _listed(rows: Rows) -> str:
    return ", ".join(f"{label} {value}" for label, value in rows)


_TEXTS = {
    "one_value": re.compile(r"What was the .+? of (?P<a>.+) in (?P<y>\d{4}), in .+\?"),
    "compare": re.compile(r"Which had the higher .+? in (?P<y>\d{4}), (?P<a>.+) or (?P<b>.+), and by how much\?"),
    "growth": re.compile(r"By how many percent did the .+? of (?P<a>.+) change from (?P<y>\d{4}) to (?P<z>\d{4})\?"),
    "series_chart": re.compile(
        r"Draw a line chart of the .+? of (?P<a>.+) from (?P<y>\d{4}) to (?P<z>\d{4}) and list the values\."
    ),
    "top_k_chart": re.compile(
        r"Draw a bar chart of the top (?P<k>\d{1,3}) banks by .+ in (?P<y>\d{4}) and list them with their values\."
    ),
}


def parse_task(text: str) -> Task | None:
    """The task that a text states; None where it is none of the five."""
    for kind, pattern in _TEXTS.items():
        found = pattern.fullmatch(text.strip())
        if found:
            parts = found.groupdict()
            entities = tuple(parts[key] for key in "ab" if key in parts)
            years = tuple(int(parts[key]) for key in "yz" if key in parts)
            return Task(kind, entities, years, int(parts.get("k", 0)))
    return None


def draw_task(rng: random.Random) -> Task:
    """A task of a kind drawn uniformly."""
    kind = rng.choice(KINDS)
    last = LAST_YEAR if rng.random() < LAST_YEAR_SHARE else rng.randrange(FIRST_YEAR, LAST_YEAR)
    match kind:
        case "one_value":
            return Task(kind, (rng.choice(rng.choice((BANKS, COUNTRIES))),), (last,))
        case "compare":
            return Task(kind, tuple(rng.sample(BANKS, 2)), (last,))
        case "growth":
            last = max(last, FIRST_YEAR + 1)
            entity = rng.choice(rng.choice((BANKS, COUNTRIES)))
            return Task(kind, (entity,), (rng.randrange(max(FIRST_YEAR, last - 3), last), last))
        case "series_chart":
            last = max(last, FIRST_YEAR + 2)
            return Task(kind, (rng.choice(COUNTRIES),), (rng.randrange(FIRST_YEAR, last - 1), last))
    return Task(kind, (), (last,), rng.randint(2, 5))
