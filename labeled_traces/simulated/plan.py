"""The language of plans: `N. tool(argument=value, ...) -> name`, one tool call a line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from labeled_traces.simulated.world import METRICS, metric_of
from labeled_traces.trace import JSON

END_PLAN = "<end_plan>"
FETCHES = ("db_lookup", "db_series", "db_top_k", "web_search")

Fact: TypeAlias = tuple[str | int, ...]
"""What a fetch is about: (metric, entity, year), (metric, entity, first year, last year) or ("top", year, k)."""

_STEP = re.compile(r"(\d{1,3})\. (\w+)\((.*)\) -> (\w+)")
_ARGUMENT = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?)(?:, |$)')
_NAME = re.compile(r"\bv\d\b")
_QUERY = re.compile(r"(market value|GDP) of (.+) in (\d{4})")


@dataclass(frozen=True)
class Step:
    """One planned tool call and the name of what it produces. Arguments are numbers or strings; in the `expression` of
    calculator and the `points` of make_chart, `v1`, `v2` ... stand for what earlier steps produced."""

    tool: str
    arguments: Mapping[str, JSON]
    output: str

    def __str__(self) -> str:
        return f"{call_text(self.tool, self.arguments)} -> {self.output}"

    @property
    def is_fetch(self) -> bool:
        return self.tool in FETCHES

    @property
    def needs(self) -> tuple[str, ...]:
        """The names that the step uses."""
        text = self.arguments.get("expression", self.arguments.get("points", ""))
        return tuple(dict.fromkeys(_NAME.findall(str(text))))

    @property
    def fact(self) -> Fact | None:
        """What a fetch is about; None for other steps and for a query that is not about one figure."""
        a = self.arguments
        try:
            match self.tool:
                case "db_lookup":
                    return (a["metric"], a["entity"], a["year"])
                case "db_series":
                    return (a["metric"], a["entity"], a["start_year"], a["end_year"])
                case "db_top_k":
                    return ("top", a["year"], a["k"])
                case "web_search":
                    found = parse_query(a["query"])
                    return found and (metric_of(found[0]), *found)
        except KeyError:
            pass
        return None

    def resolve(self, values: Mapping[str, JSON]) -> dict[str, JSON] | None:
        """The arguments with values in the place of names; None where a value is not known."""
        if any(name not in values for name in self.needs):
            return None
        arguments = dict(self.arguments)
        if "expression" in arguments:
            arguments["expression"] = _NAME.sub(lambda found: str(values[found[0]]), str(arguments["expression"]))
        if "points" in arguments and self.needs:
            arguments["points"] = values[self.needs[0]]
        return arguments


def call_text(tool: str, arguments: Mapping[str, JSON]) -> str:
    return f"{tool}({', '.join(f'{name}={json.dumps(value)}' for name, value in arguments.items())})"


def plan_text(steps: Sequence[Step], end: bool = True) -> str:
    lines = [f"{number}. {step}" for number, step in enumerate(steps, 1)]
    return "\n".join([*lines, END_PLAN] if end else lines)


def parse_plan(text: str) -> dict[int, Step]:
    """Step number -> step; lines that are no step are left out."""
    steps: dict[int, Step] = {}
    for line in text.split("\n"):
        found = _STEP.fullmatch(line.strip())
        arguments = found and _parse_arguments(found[3])
        if found and arguments is not None:
            steps[int(found[1])] = Step(found[2], arguments, found[4])
    return steps


def _parse_arguments(text: str) -> dict[str, JSON] | None:
    arguments: dict[str, JSON] = {}
    at = 0
    while at < len(text):
        found = _ARGUMENT.match(text, at)
        if not found:
            return None
        try:
            arguments[found[1]] = json.loads(found[2])
        except ValueError:
            return None
        at = found.end()
    return arguments


def query_text(metric: str, entity: str, year: int) -> str:
    return f"{METRICS[metric]} of {entity} in {year}"


def parse_query(query: str) -> tuple[str, int] | None:
    """(entity, year) of a search for one figure."""
    found = _QUERY.fullmatch(str(query))
    return (found[2], int(found[3])) if found else None


def fact_words(fact: Fact | None) -> str:
    """The fact as a person would name it."""
    match fact:
        case ("top", year, k):
            return f"the top {k} banks in {year}"
        case (str(metric), entity, year):
            return f"the {METRICS.get(metric, metric)} of {entity} in {year}"
        case (str(metric), entity, start, end):
            return f"the {METRICS.get(metric, metric)} of {entity} from {start} to {end}"
    return "nothing"
