"""The simulated executor: follows a plan step by step, with faults of its own."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from labeled_traces.label import ErrorLabel
from labeled_traces.simulated.faults import FAULTS, VARIANTS, FaultRates
from labeled_traces.simulated.plan import Step, call_text, fact_words, parse_query
from labeled_traces.simulated.planner import PlannedStep
from labeled_traces.simulated.recorder import Recorder, message
from labeled_traces.simulated.slips import misread_figure, wrong_arguments
from labeled_traces.simulated.tools import Toolbox, ToolResult, value_of
from labeled_traces.simulated.wording import VOICES, describe, quote
from labeled_traces.simulated.world import MEMORY_CUTOFF, World
from labeled_traces.trace import JSON

EXECUTOR_RULES = f"""\
You are the executor of a data agent. Do the step you are given as it is planned: make its call once, with its \
arguments, and record what the tool returned, unchanged, as `Recorded name = value`.
If the step uses a name that no step produced, say so and fetch it first. A call that violates a tool's schema is \
rejected.
Every figure must come from a tool; the model's own memory ends in {MEMORY_CUTOFF} and is no source."""

_THOUGHTS = ("I call", "The plan says what to do next: I call", "Next in the plan, I call")
_CLAIMS = ("I already know this value, so no call is needed.", "I know this figure already and skip the call.")
_AGAIN = ("To be sure, I make the same call again:", "Once more, to check:")
TRUTH = "truth"
"""The rater of the planted labels."""


def plant(variant: str, span_id: str, evidence: str, rng: random.Random, **values: JSON) -> ErrorLabel:
    """The exact label of a fault, in the words of one of three people."""
    kind, impact = VARIANTS[variant]
    description = describe(variant, rng.randint(1, VOICES), **values)
    return ErrorLabel(span_id, FAULTS[kind], kind, impact, description, quote(evidence), TRUTH)


@dataclass
class Execution:
    """One run of a plan. `values` is what the executor recorded by name, `web_forms` what each searched step got."""

    world: World
    toolbox: Toolbox
    rates: FaultRates
    rng: random.Random
    recorder: Recorder
    values: dict[str, JSON] = field(default_factory=dict)
    web_forms: dict[int, str] = field(default_factory=dict)
    labels: list[ErrorLabel] = field(default_factory=list)

    def run(self, parent_id: str, plan: list[PlannedStep]) -> None:
        for number, planned in enumerate(plan, 1):
            known = ", ".join(f"{name} = {_json(value)}" for name, value in self.values.items()) or "nothing"
            user = f"Step {number} of {len(plan)}: {planned.step}\nRecorded so far: {known}"
            span_id = self.recorder.llm("executor", parent_id, EXECUTOR_RULES, user)
            messages = self._step(span_id, number, planned)
            messages[0] = {**messages[0], "content": f"Step {number}: {messages[0]['content']}"}
            self.recorder.end(span_id, {"messages": messages})

    def _step(self, span_id: str, number: int, planned: PlannedStep) -> list[dict[str, JSON]]:
        """The executor's messages; tool spans are recorded on the way."""
        step = planned.step
        if planned.missing is not None:
            return [*self._fetch_first(span_id, planned.missing), *self._plain_call(span_id, step)]
        if planned.redundant:
            return self._plain_call(span_id, step)
        if step.tool in ("db_lookup", "web_search") and self._chance(self.rates.skipped_step):
            return self._skip(span_id, number, step)
        right, opening = self._resolve(step), self._thought()
        arguments, messages = right, []
        if self._chance(self.rates.wrong_argument):
            variant, wrong = wrong_arguments(step, self.values, self.rng)
            call, due = call_text(step.tool, wrong), call_text(step.tool, right)
            self._plant(variant, span_id, call, step=number, tool=step.tool, call=call, planned=due)
            if variant == "rejected":
                messages.append(self._call(span_id, opening, step.tool, wrong)[0])
                opening = "The schema rejected the call, I correct it:"
            else:
                arguments = wrong
        called, result = self._call(span_id, opening, step.tool, arguments)
        messages.append(called)
        if step.tool == "web_search" and (found := parse_query(arguments["query"])):
            self.web_forms[number] = self.world.web_forms[found]
        if self._chance(self.rates.repeated_call):
            messages += self._repeat(span_id, number, step.tool, arguments)
        value = value_of(step.tool, result.output)
        if step.tool != "make_chart" and self._chance(self.rates.misread_output):
            value = self._misread(span_id, number, step, value)
        return [*messages, self._record(step.output, value)]

    def _plain_call(self, span_id: str, step: Step) -> list[dict[str, JSON]]:
        called, result = self._call(span_id, self._thought(), step.tool, self._resolve(step))
        return [called, self._record(step.output, value_of(step.tool, result.output))]

    def _fetch_first(self, span_id: str, missing: Step) -> list[dict[str, JSON]]:
        opening = f"No step produced {missing.output}, so I fetch it first:"
        called, result = self._call(span_id, opening, missing.tool, missing.arguments)
        return [called, self._record(missing.output, value_of(missing.tool, result.output))]

    def _skip(self, span_id: str, number: int, step: Step) -> list[dict[str, JSON]]:
        assert step.fact is not None
        _, entity, year = step.fact
        value = self.world.memory(str(entity), int(year))
        claim = self.rng.choice(_CLAIMS)
        variant = "skipped_after_cutoff" if int(year) > MEMORY_CUTOFF else "skipped_before_cutoff"
        values = {"step": number, "got": fact_words(step.fact), "name": step.output, "value": value}
        self._plant(variant, span_id, claim, **values)
        return [message("assistant", claim), self._record(step.output, value)]

    def _repeat(self, span_id: str, number: int, tool: str, arguments: Mapping[str, JSON]) -> list[dict[str, JSON]]:
        times = self.rng.choice((2, 2, 2, 3, 4))
        call = call_text(tool, arguments)
        variant = "repeat" if times == 2 else "loop"
        self._plant(variant, span_id, call, step=number, tool=tool, times=times)
        return [self._call(span_id, self.rng.choice(_AGAIN), tool, arguments)[0] for _ in range(times - 1)]

    def _misread(self, span_id: str, number: int, step: Step, value: JSON) -> JSON:
        if isinstance(value, list):
            row = self.rng.randrange(len(value))
            returned = value[row][1]
            variant, figure = misread_figure(returned, self.rng)
            recorded: JSON = [*value[:row], [value[row][0], figure], *value[row + 1 :]]
        else:
            returned = value
            variant, figure = misread_figure(returned, self.rng)
            recorded = figure
        values = {"step": number, "tool": step.tool, "returned": returned, "value": figure, "name": step.output}
        self._plant(variant, span_id, _recorded(step.output, recorded), **values)
        return recorded

    def _call(
        self, span_id: str, opening: str, tool: str, arguments: Mapping[str, JSON]
    ) -> tuple[dict[str, JSON], ToolResult]:
        result = self.toolbox.call(tool, arguments)
        self.recorder.tool(span_id, tool, dict(arguments), result)
        return message("assistant", f"{opening} {call_text(tool, arguments)}", (tool, dict(arguments))), result

    def _record(self, name: str, value: JSON) -> dict[str, JSON]:
        self.values[name] = value
        return message("assistant", _recorded(name, value))

    def _plant(self, variant: str, span_id: str, evidence: str, **values: JSON) -> None:
        self.labels.append(plant(variant, span_id, evidence, self.rng, **values))

    def _resolve(self, step: Step) -> dict[str, JSON]:
        arguments = step.resolve(self.values)
        assert arguments is not None, f"{step} uses a name that has no value"
        return arguments

    def _thought(self) -> str:
        return self.rng.choice(_THOUGHTS)

    def _chance(self, probability: float) -> bool:
        return self.rng.random() < probability


def _recorded(name: str, value: JSON) -> str:
    return f"Recorded {name} = {_json(value)}"


def _json(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)
