"""How the executor gets an argument or a figure wrong: pure functions, each with the variant of the fault."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from labeled_traces.simulated.plan import Step, query_text
from labeled_traces.simulated.world import BANKS, COUNTRIES, YEARS
from labeled_traces.trace import JSON


def wrong_arguments(step: Step, values: Mapping[str, JSON], rng: random.Random) -> tuple[str, dict[str, JSON]]:
    """(variant, arguments): either such as the schema rejects, or such as go through and mean something else."""
    right = step.resolve(values)
    assert right is not None
    wrong = _other_meaning(step, values, right, rng)
    if wrong != right and rng.random() < 0.8:
        return "wrong_form" if step.tool == "make_chart" else "wrong_figure", wrong
    match step.tool:
        case "db_lookup":
            return "rejected", {**right, "year": str(right["year"])}
        case "db_series":
            return "rejected", {**right, "end_year": str(right["end_year"])}
        case "db_top_k":
            return "rejected", {**right, "k": str(right["k"])}
        case "web_search":
            return "rejected", {"q": right["query"]}
    return "rejected", dict(step.arguments)  # calculator and make_chart: a name where its value is due


def _other_meaning(
    step: Step, values: Mapping[str, JSON], right: dict[str, JSON], rng: random.Random
) -> dict[str, JSON]:
    def other(options: Sequence[JSON], taken: JSON) -> JSON:
        return rng.choice([option for option in options if option != taken])

    match step.tool:
        case "db_lookup":
            if rng.random() < 0.5:
                return {**right, "year": other(YEARS, right["year"])}
            peers = BANKS if right["entity"] in BANKS else COUNTRIES
            return {**right, "entity": other(peers, right["entity"])}
        case "db_series":
            return {**right, "start_year": right["start_year"] + 1}
        case "db_top_k":
            return {**right, "k": right["k"] + 1}
        case "web_search":
            assert step.fact is not None
            metric, entity, year = step.fact
            return {"query": query_text(str(metric), str(entity), other(YEARS, year))}
        case "calculator":
            swapped = re.sub("v[12]", lambda name: {"v1": "v2", "v2": "v1"}[name[0]], str(step.arguments["expression"]))
            return replace(step, arguments={"expression": swapped}).resolve(values) or right
    return {**right, "kind": "bar" if right["kind"] == "line" else "line"}


def misread_figure(figure: float, rng: random.Random) -> tuple[str, float]:
    """(variant, figure): rounded, or with two neighbouring digits swapped."""
    if figure != round(figure) and rng.random() < 0.2:
        return "rounded", float(round(figure))
    digits = str(figure)
    places = [i for i, character in enumerate(digits) if character.isdigit()]
    for i, j in pairwise(places):
        if digits[i] != digits[j]:
            return "misread", float(digits[:i] + digits[j] + digits[i + 1 : j] + digits[i] + digits[j + 1 :])
    return "misread", figure + 10.0
