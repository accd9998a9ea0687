"""The simulated data agent: runs tasks, plants faults and writes their exact labels."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel
from labeled_traces.simulated.executor import Execution, plant
from labeled_traces.simulated.faults import FaultRates
from labeled_traces.simulated.plan import plan_text
from labeled_traces.simulated.planner import PLANNER_RULES, PlanFault, write_plan
from labeled_traces.simulated.recorder import Recorder, message
from labeled_traces.simulated.tasks import Task, answer_text, draw_task, is_right, partial_answer, same_value
from labeled_traces.simulated.tools import TOOLS, Toolbox
from labeled_traces.simulated.world import World, build_world
from labeled_traces.trace import JSON, SpanKind

ANSWER_RULES = "Answer what the task asks, completely, and from the recorded values alone."
_EVASIONS = (
    "The database is a good place to look up such figures, and it is kept for every year.",
    "Thank you for the question; the steps of the plan were carried out.",
    "Banks and countries can be compared in many ways, and each has its merits.",
)


def simulate(n: int, seed: int, rates: FaultRates | None = None, world_seed: int = 0) -> list[LabeledTrace]:
    """`n` runs of the agent with the labels of the faults that were planted (rater `truth`), and no scores.

    The same arguments give the same rows; row i does not depend on n. Rows of one task have the same `group`.
    `reference` is the right answer. `metadata`: `task` (its kind), `outcome` (`right` or `wrong`, by the truth), `luck`
    (right although a figure on the way was wrong).
    """
    world = build_world(world_seed)
    toolbox = Toolbox(world)
    rates = FaultRates() if rates is None else rates
    return [_run(seed, number, rates, world, toolbox) for number in range(n)]


def _run(seed: int, number: int, rates: FaultRates, world: World, toolbox: Toolbox) -> LabeledTrace:
    rng = random.Random(f"run:{seed}:{number}")
    recorder = Recorder(seed, number, random.Random(f"clock:{seed}:{number}"))
    task = draw_task(rng)
    rates = rates.of_run(careless=rng.random() < 0.5)
    root = recorder.begin(SpanKind.AGENT, "data_agent", None, task.text)

    planner = recorder.llm("planner", root, PLANNER_RULES, f"Task: {task.text}", list(TOOLS))
    plan, plan_faults = write_plan(task, rates, rng)
    ended = rng.random() >= rates.missing_end_plan
    text = plan_text([planned.step for planned in plan], ended)
    recorder.end(planner, {"messages": [message("assistant", text)]})

    execution = Execution(world, toolbox, rates, rng, recorder)
    execution.run(root, plan)

    user = f"Task: {task.text}\nRecorded: {json.dumps(execution.values, ensure_ascii=False)}"
    final = recorder.llm("final_answer", root, ANSWER_RULES, user)
    slip = rng.random() < rates.off_target_answer
    answer, answer_labels = _answer(task, execution.values, final, slip, rng)
    recorder.end(final, {"messages": [message("assistant", answer)]})
    recorder.end(root, answer)

    lines = text.split("\n")
    plan_labels = [_plan_label(fault, planner, lines, execution.web_forms, rng) for fault in plan_faults]
    if not ended:
        plan_labels.append(plant("no_end_plan", planner, lines[-1], rng))
    truth = task.true_values(world.truth)
    return LabeledTrace(
        trace=recorder.trace(),
        errors=(*plan_labels, *execution.labels, *answer_labels),
        group=task.task_id,
        reference=answer_text(task, truth),
        metadata=_metadata(task, execution.values, truth, slip),
    )


def _plan_label(
    fault: PlanFault, planner: str, lines: Sequence[str], web_forms: Mapping[int, str], rng: random.Random
) -> ErrorLabel:
    variant = fault.variant
    if variant == "web":  # how much it matters shows when the step is executed; it may have been skipped
        form = web_forms.get(fault.at + 1)
        variant = f"web_{form}" if form in ("rounded", "undated") else "web_harmless"
    return plant(variant, planner, lines[fault.at], rng, **fault.values)


def _answer(
    task: Task, values: Mapping[str, JSON], span_id: str, slip: bool, rng: random.Random
) -> tuple[str, list[ErrorLabel]]:
    if not slip:
        answer = answer_text(task, values)
        assert answer is not None
        return answer, []
    partial = partial_answer(task, values) if rng.random() < 0.4 else None
    answer, variant = (partial, "partial_answer") if partial else (rng.choice(_EVASIONS), "no_answer")
    return answer, [plant(variant, span_id, answer, rng, asked=task.text)]


def _metadata(task: Task, values: Mapping[str, JSON], truth: Mapping[str, JSON], slip: bool) -> dict[str, JSON]:
    right = not slip and is_right(task, values, truth)
    luck = right and not all(same_value(values[name], figure) for name, figure in truth.items() if name != "r")
    return {"task": task.kind, "outcome": "right" if right else "wrong", "luck": luck}
