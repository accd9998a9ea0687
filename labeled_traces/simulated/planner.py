"""The simulated planner: the reference plan, or one with a fault in it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from labeled_traces.simulated.faults import FaultRates
from labeled_traces.simulated.plan import Step, fact_words, query_text
from labeled_traces.simulated.tasks import Task
from labeled_traces.simulated.world import FIRST_YEAR, LAST_YEAR, MEMORY_CUTOFF, YEARS
from labeled_traces.trace import JSON

PLANNER_RULES = f"""\
You are the planner of a data agent. An executor will follow your plan step by step with the tools below.
The database holds the exact market value of every bank and the exact GDP of every country for each year from \
{FIRST_YEAR} to {LAST_YEAR}. Web pages may be rounded, undated or old: search them only for what the database does \
not hold.
Every figure must come from a tool; the model's own memory ends in {MEMORY_CUTOFF} and is no source.
Write one tool call a line as `N. tool(argument=value, ...) -> name`. Cover all that the task needs, use only names \
that an earlier step produces, fetch nothing twice, and end the plan with <end_plan>."""


@dataclass(frozen=True)
class PlannedStep:
    """`missing`: the fetch that the plan lacks and the executor has to add. `redundant`: the plan did not need it.
    The executor makes no fault of its own at either."""

    step: Step
    missing: Step | None = None
    redundant: bool = False

    @property
    def plain(self) -> bool:
        return self.missing is None and not self.redundant


@dataclass(frozen=True)
class PlanFault:
    """`at` is the plan's step (counted from 0) in which the fault stands; `values` go into its description."""

    variant: str
    at: int
    values: Mapping[str, JSON]


def write_plan(task: Task, rates: FaultRates, rng: random.Random) -> tuple[list[PlannedStep], list[PlanFault]]:
    """The plan and its faults, but for a missing `<end_plan>`."""
    plan = [PlannedStep(step) for step in task.reference_plan()]
    faults: list[PlanFault] = []
    if rng.random() < rates.bad_plan:
        plan, fault = _spoil(task, plan, rng)
        faults.append(fault)
    for at, planned in enumerate(plan):
        if planned.plain and planned.step.tool == "db_lookup" and rng.random() < rates.wrong_tool:
            a = planned.step.arguments
            query = query_text(a["metric"], a["entity"], a["year"])
            plan[at] = PlannedStep(Step("web_search", {"query": query}, planned.step.output))
            faults.append(PlanFault("web", at, {"step": at + 1, "got": fact_words(planned.step.fact)}))
    return plan, faults


def _spoil(task: Task, plan: list[PlannedStep], rng: random.Random) -> tuple[list[PlannedStep], PlanFault]:
    fetches = [at for at, planned in enumerate(plan) if planned.step.is_fetch]
    at = rng.choice(fetches)
    step = plan[at].step
    weights = {"uncovered": 6, "undefined": 2, "redundant": 1}
    if len(plan) == 1:  # nothing uses the figure, so no name can be undefined
        del weights["undefined"]
    match rng.choices(list(weights), list(weights.values()))[0]:
        case "uncovered":
            wrong = _other_fact(task, step, rng)
            values = {"step": at + 1, "got": fact_words(wrong.fact), "need": fact_words(step.fact)}
            return [*plan[:at], PlannedStep(wrong), *plan[at + 1 :]], PlanFault("uncovered", at, values)
        case "undefined":
            rest = [*plan[:at], *plan[at + 1 :]]
            user = next(i for i, planned in enumerate(rest) if step.output in planned.step.needs)
            rest[user] = PlannedStep(rest[user].step, missing=step)
            values = {"step": user + 1, "name": step.output, "need": fact_words(step.fact)}
            return rest, PlanFault("undefined", user, values)
    extra = len(fetches)
    again = PlannedStep(replace(step, output=f"v{extra + 1}"), redundant=True)
    values = {"step": extra + 1, "first": at + 1, "got": fact_words(step.fact)}
    return [*plan[:extra], again, *plan[extra:]], PlanFault("redundant", extra, values)


def _other_fact(task: Task, step: Step, rng: random.Random) -> Step:
    """The same fetch about something that the task does not need."""
    arguments = dict(step.arguments)
    if step.tool == "db_series":
        arguments["start_year"] += 1
    elif step.tool == "db_top_k" and rng.random() < 0.5:
        arguments["k"] -= 1
    else:
        arguments["year"] = rng.choice([year for year in YEARS if year not in task.years])
    return replace(step, arguments=arguments)
