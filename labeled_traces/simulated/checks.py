"""Deterministic rubric checks: they read nothing but the trace and find exactly the planted faults."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

from labeled_traces.label import Impact
from labeled_traces.simulated.faults import FAULTS, VARIANTS
from labeled_traces.simulated.plan import END_PLAN, Step, call_text, fact_words
from labeled_traces.simulated.reading import Call, Run, StepRun, read_run
from labeled_traces.simulated.tasks import answer_text
from labeled_traces.simulated.tools import value_of
from labeled_traces.simulated.wording import describe, quote
from labeled_traces.trace import JSON, Trace


@dataclass(frozen=True)
class Problem:
    """One problem in a trace. `kind` is a key of `FAULTS`; `span_id` is the root cause, `symptom_id` where it shows."""

    kind: str
    dimensions: tuple[str, ...]
    span_id: str
    symptom_id: str
    impact: Impact
    description: str
    evidence: str


def find_problems(trace: Trace) -> list[Problem]:
    """Every problem of a trace of the simulated agent: those of the plan, of each step, of the answer.

    Reads ids, names, kinds, parents, order, message texts, tool arguments and results, status and error; never
    `metadata`. A damaged trace hides problems; it never raises. A trace of another agent has none.
    """
    run = read_run(trace)
    if run is None:
        return []
    problems = [*_check_end_plan(run), *_check_coverage(run), *_check_tools(run)]
    values: dict[str, JSON] = {}
    for number, step in sorted(run.steps.items()):
        values |= step.recorded
        planned = (run.plan or {}).get(number)
        problems += _check_repeats(step)
        if planned is not None:
            problems += [*_check_skipped(run, step, planned), *_check_arguments(step, planned, values)]
            problems += _check_reading(run, step, planned)
    return problems + list(_check_answer(run, values))


def _problem(variant: str, span_id: str, symptom_id: str, evidence: str, **values: JSON) -> Problem:
    kind, impact = VARIANTS[variant]
    description = describe(variant, 0, **values)
    return Problem(kind, FAULTS[kind], span_id, symptom_id, impact, description, quote(evidence))


def _check_end_plan(run: Run) -> Iterator[Problem]:
    if run.plan is not None and run.plan_end != END_PLAN:
        symptom = run.steps[1].span_id if 1 in run.steps else run.planner_id
        yield _problem("no_end_plan", run.planner_id, symptom, run.plan_end)


def _check_coverage(run: Run) -> Iterator[Problem]:
    """Plan quality: every required figure is fetched, once, and every name is produced before it is used."""
    if run.plan is None or run.task is None:
        return
    needed = [step.fact for step in run.task.reference_plan() if step.is_fetch]
    planned = {step.fact for step in run.plan.values()}
    missing = [fact for fact in needed if fact not in planned]
    fetched: dict[Hashable, int] = {}
    produced: set[str] = set()
    for number, step in sorted(run.plan.items()):
        undefined = [name for name in step.needs if name not in produced]
        produced.add(step.output)
        need = fact_words(missing[0]) if missing else ""
        if undefined and missing:
            yield _plan_problem("undefined", run, number, step, name=undefined[0], need=need)
        elif step.fact in fetched:
            yield _plan_problem("redundant", run, number, step, first=fetched[step.fact])
        elif step.fact and step.fact not in needed and missing:
            yield _plan_problem("uncovered", run, number, step, need=need)
        if step.fact:
            fetched.setdefault(step.fact, number)


def _check_tools(run: Run) -> Iterator[Problem]:
    """Tool selection: no web search for a figure that the database holds exactly."""
    for number, step in sorted((run.plan or {}).items()):
        if step.tool == "web_search" and step.fact is not None:
            result = _accepted(run.steps.get(number), step)
            page = str(result[-1].output) if result else ""
            form = "undated" if "latest known" in page else "rounded" if " about " in page else "harmless"
            yield _plan_problem(f"web_{form}", run, number, step)


def _plan_problem(variant: str, run: Run, number: int, step: Step, **values: JSON) -> Problem:
    """Caused by the planner, visible where the step is executed."""
    symptom = run.steps[number].span_id if number in run.steps else run.planner_id
    told = {"step": number, "got": fact_words(step.fact), **values}
    return _problem(variant, run.planner_id, symptom, f"{number}. {step}", **told)


def _check_repeats(step: StepRun) -> Iterator[Problem]:
    """Execution efficiency: no accepted call is made again for the same step."""
    calls = [call for call in step.calls if not call.rejected and isinstance(call.arguments, dict)]
    texts = [call_text(call.tool, call.arguments) for call in calls]
    for text, times in Counter(texts).items():
        if times > 1:
            last = max(i for i, other in enumerate(texts) if other == text)
            variant = "repeat" if times == 2 else "loop"
            call = calls[last]
            yield _problem(variant, step.span_id, call.span_id, text, step=step.number, tool=call.tool, times=times)


def _check_skipped(run: Run, step: StepRun, planned: Step) -> Iterator[Problem]:
    """Plan adherence and logical consistency: a planned fetch is made, and its value comes from a tool."""
    if planned.fact and step.silent and planned.output in step.recorded:
        late = run.cutoff is not None and any(isinstance(x, int) and x > run.cutoff for x in planned.fact)
        variant = "skipped_after_cutoff" if late else "skipped_before_cutoff"
        claim = step.text.split("\n")[0].removeprefix(f"Step {step.number}: ")
        values = {"got": fact_words(planned.fact), "name": planned.output, "value": step.recorded[planned.output]}
        symptom = _where_used(run, step, planned.output)
        yield _problem(variant, step.span_id, symptom, claim, step=step.number, **values)


def _check_arguments(step: StepRun, planned: Step, values: Mapping[str, JSON]) -> Iterator[Problem]:
    """Tool calling: the schema accepts the call, and its arguments are those of the step."""
    right = planned.resolve(values)
    for call in step.calls:
        if call.tool != planned.tool or not isinstance(call.arguments, dict):
            continue
        text = call_text(call.tool, call.arguments)
        due = call_text(call.tool, right) if right else ""
        if call.rejected:
            variant = "rejected"
        elif right is None or call.arguments == right:
            continue
        else:
            variant = "wrong_form" if call.tool == "make_chart" else "wrong_figure"
        told = {"step": step.number, "tool": call.tool, "call": text, "planned": due}
        yield _problem(variant, step.span_id, call.span_id, text, **told)
        return  # further calls of the step repeat or correct this one


def _check_reading(run: Run, step: StepRun, planned: Step) -> Iterator[Problem]:
    """Logical consistency and tool calling: what is recorded is what the tool returned."""
    accepted = _accepted(step, planned)
    if not accepted or planned.tool == "make_chart" or planned.output not in step.recorded:
        return
    recorded = step.recorded[planned.output]
    difference = _difference(value_of(planned.tool, accepted[-1].output), recorded)
    if difference is not None:
        returned, value = difference
        variant = "rounded" if abs(returned) < 1e9 and value == round(returned) else "misread"
        told = {"step": step.number, "tool": planned.tool, "returned": returned, "value": value, "name": planned.output}
        line = f"Recorded {planned.output} = {json.dumps(recorded, ensure_ascii=False)}"
        yield _problem(variant, step.span_id, _where_used(run, step, planned.output), line, **told)


def _check_answer(run: Run, values: Mapping[str, JSON]) -> Iterator[Problem]:
    """Goal fulfillment without a reference: the answer says what was asked and agrees with the recorded values."""
    expected = answer_text(run.task, values) if run.task else None
    if expected is None or run.final_id is None or run.answer in ("", expected):
        return
    stated = any(str(value) in run.answer for value in values.values() if not isinstance(value, list))
    variant = "partial_answer" if stated else "no_answer"
    asked = run.task.text if run.task else ""
    yield _problem(variant, run.final_id, run.root_id, run.answer, asked=asked)


def _accepted(step: StepRun | None, planned: Step) -> list[Call]:
    """The calls of a step's own tool that were executed."""
    return [call for call in step.calls if call.tool == planned.tool and not call.rejected] if step else []


def _where_used(run: Run, step: StepRun, name: str) -> str:
    """The next step that uses a recorded value, else the final answer."""
    for number, later in sorted((run.plan or {}).items()):
        if number > step.number and name in later.needs and number in run.steps:
            return run.steps[number].span_id
    return run.final_id or step.span_id


def _difference(returned: JSON, recorded: JSON) -> tuple[float, float] | None:
    """The first figure that was recorded other than returned; None where all agree or cannot be compared."""
    if isinstance(returned, int | float) and isinstance(recorded, int | float):
        return (returned, recorded) if returned != recorded else None
    if isinstance(returned, list) and isinstance(recorded, list):
        for row, other in zip(returned, recorded, strict=False):
            if row != other and isinstance(row, list) and isinstance(other, list):
                return _difference(row[-1], other[-1]) if row and other else None
    return None
