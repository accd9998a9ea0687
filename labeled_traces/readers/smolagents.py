"""smolagents: the steps of an agent's memory, as `agent.memory.get_full_steps()` gives them.

A file, or a line of JSON Lines, that is an array of steps is one run; so is a file with a step a line, and a record
`{"steps": [...]}`. A run is named after its file. A planning step and an action are each a call of a model, an action's
tool calls stand below it; what went wrong in an action is the error of its tool, or of the call where it called none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import first, get, rows_of
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.mending.agents import with_agents
from labeled_traces.readers.mending.repair import build_trace, mend_span
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.fields import seconds
from labeled_traces.readers.spans.messages import llm_contents
from labeled_traces.readers.spans.openinference import call_of
from labeled_traces.readers.spans.usage import model_attributes
from labeled_traces.task_group import task_group
from labeled_traces.trace import JSON, Span, SpanKind, TraceError

ROOT = "run"
_TOKENS = {"prompt": "input_tokens", "completion": "output_tokens", "total": "total_tokens"}
_ACCEPTED = "accepted are steps {task}, {plan}, {step_number} or {steps: [...]}"


def role(record: JSON) -> str | None:
    """`traces` for a step, or for a record of steps; None for anything else."""
    if not isinstance(record, dict):
        return None
    steps = record.get("steps")
    if isinstance(steps, list) and steps and all(map(_is_step, steps)):
        return "traces"
    return "traces" if _is_step(record) else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Records that cannot be read are left out.

    Raises:
        TraceError: labels, which this format does not have.
    """
    options.refuse_labels()
    for path in paths:
        runs: dict[str, list[JSON]] = {}
        for where, record in read_files([path], options.report):
            if role(record) is None:
                options.report.leave_out(TraceError(f"{where}: no step of smolagents: {_ACCEPTED}"))
                continue
            whole = "steps" in record
            place, inside, _ = where.rpartition(", record ")
            key = where if whole else place if inside else str(path)
            runs.setdefault(key, []).extend(_steps(record))
        for number, (where, steps) in enumerate(runs.items(), 1):
            trace_id = path.stem if len(runs) == 1 else f"{path.stem}-{number}"
            yield where, _row(trace_id, steps, where, options)


def _is_step(record: JSON) -> bool:
    kinds = ({"step_number", "timing"}, {"plan", "model_output_message"}, {"task", "task_images"})
    if not isinstance(record, dict):
        return False
    return record.keys() == {"system_prompt"} or any(keys <= record.keys() for keys in kinds)


def _steps(record: Mapping[str, JSON]) -> list[JSON]:
    prompt = record.get("system_prompt")
    if "steps" not in record:
        return [record]
    return [*([{"system_prompt": first(get(prompt, "system_prompt"), prompt)}] if prompt else []), *record["steps"]]


def _row(trace_id: str, steps: Sequence[Mapping[str, JSON]], where: str, options: ReadOptions) -> LabeledTrace:
    prompt = next((step["system_prompt"] for step in steps if step.get("system_prompt")), None)
    tasks = [str(step["task"]) for step in steps if step.get("task")]
    answer = next((step.get("action_output") for step in reversed(steps) if step.get("is_final_answer")), None)
    root = Span(ROOT, None, "agent", SpanKind.AGENT, inputs="\n".join(tasks) or None, outputs=answer)
    spans = [root]
    for number, step in enumerate(steps):
        spans += _spans(step, f"step-{number}", prompt)
    mended = [mend_span(span, f"{where}, {span.span_id}", options) for span in spans]
    trace = build_trace(trace_id, with_agents(mended, root), "none", where, options)
    return LabeledTrace(trace, group=task_group(trace), clean="unknown", metadata={"source": "smolagents"})


def _spans(step: Mapping[str, JSON], span_id: str, prompt: JSON) -> Iterator[Span]:
    planning, action = "plan" in step, "step_number" in step
    if not planning and not action:
        return
    timing, error = step.get("timing"), step.get("error")
    start, end = seconds(get(timing, "start_time")), seconds(get(timing, "end_time"))
    asked, given = step.get("model_input_messages"), step.get("model_output_message")
    said = first(given, step.get("model_output"), step.get("plan"))
    inputs, outputs = llm_contents(asked, said, None, None if asked else prompt)
    if not asked and prompt:
        inputs = {"messages": [{"role": "system", "content": str(prompt)}]}
    used = first(step.get("token_usage"), get(given, "token_usage"))
    counts = {name: get(used, key) for name, key in _TOKENS.items()}
    calls = [call_of(call) for call in rows_of(step.get("tool_calls"))]
    observed = first(step.get("observations"), step.get("action_output"))
    failed = _error(error) if error else None
    yield Span(
        span_id=span_id,
        parent_id=ROOT,
        name="Planning step" if planning else f"Step {step['step_number']}",
        kind=SpanKind.LLM,
        start=start,
        end=end,
        inputs=inputs,
        outputs=outputs,
        status="ERROR" if failed and not calls else "UNSET",
        error=None if calls else failed,
        attributes=model_attributes(counts),
    )
    if observed is not None and not calls and not planning and not step.get("is_final_answer"):
        yield Span(f"{span_id}-observed", span_id, "observations", SpanKind.CHAIN, outputs=observed)
    for number, call in enumerate(calls):
        arguments = call["arguments"]
        last = number == len(calls) - 1  # what was observed is that of all calls together
        yield Span(
            span_id=f"{span_id}-{call['id'] or number}",
            parent_id=span_id,
            name=call["name"] or "tool",
            kind=SpanKind.TOOL,
            start=start,
            end=end,
            inputs={"code": arguments} if isinstance(arguments, str) else arguments,
            outputs=observed if last else None,
            status="ERROR" if failed and last else "UNSET",
            error=failed if last else None,
        )


def _error(error: JSON) -> str:
    parts = (get(error, "type"), get(error, "message"))
    return ": ".join(str(part) for part in parts if part) or str(error)
