"""AgentErrorBench: failed runs in ALFWorld, GAIA and WebShop, each with the one step that people hold critical.

A run is a file `{messages: [{role, content}], metadata: {model, steps, won, environment, ...}}` that its trajectory id
names; its labels are `{trajectory_id, LLM, task_type, critical_failure_step, critical_failure_module, step_annotations:
[{step, <module>: {failure_type, reasoning}}]}`. A row of the published table holds both, the run as JSON in
`full_trajectory`. Steps count from 1 over the messages of the agent alone. `metadata` stays beside the trace, and
`metadata.won` and the labels are kept from it.

Every prompt of a run repeats the ones before it. What stands above, word for word over several lines, is left out of
it, and the text says so.

People named one step: other errors may be in the run, so it is clean of nothing (`partial`). A type of failure that is
missing leaves its module as the category.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import decoded, rows_of
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.labels.by_run import RunLabels
from labeled_traces.readers.labels.joining import no_span, refuse_unknown
from labeled_traces.readers.mending.repair import build_trace, mend_value
from labeled_traces.readers.report import LABEL, ReadOptions
from labeled_traces.readers.spans.chat import ROOT, chat_spans
from labeled_traces.task_group import task_group
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError

RATER = "AgentErrorBench"
LIST = "step_annotations"
REPEATED = "prompt that repeats what stands above in its run, left out of it"
_RUN = {"won", "success", "steps", "environment"}
_TASK = re.compile(
    r"(?:your task is(?: to)?|^task):\s*(.+?)\s*"
    r"(?:\n\s*(?:available tools|prior to this step|your (?:current|admissible)|current observation)|\Z)",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
"""The task in a prompt, up to what follows it."""
_LEAST_LINES, _LEAST_CHARACTERS = 3, 80
"""Of a repeated passage; a shorter one may well be new."""


def role(record: JSON) -> str | None:
    """`traces` or `labels` if this reader can read the record, else None."""
    if not isinstance(record, dict):
        return None
    if "full_trajectory" in record and "trajectory_id" in record:
        return "traces"
    if "trajectory_id" in record and "critical_failure_step" in record:
        return "labels"
    metadata, known = record.get("metadata"), isinstance(_messages(record), list) and "step_labels" not in record
    return "traces" if known and isinstance(metadata, dict) and _RUN & metadata.keys() else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Labels join by trajectory id, or by its model and number (`GPT-4o_007`). Records that cannot
    be read are left out.

    Raises:
        TraceError: labels that fit several runs, or label files without labels.
    """
    accepted = "labels of AgentErrorBench: accepted is {trajectory_id, critical_failure_step, step_annotations: [...]}"
    records = read_files(options.labels, options.report)
    labels = RunLabels.load(records, options, lambda one: role(one) == "labels", accepted)
    options.need_labels(bool(labels.by_run))
    for path in paths:
        for where, record in read_files([path], options.report):
            try:
                trace_id, run = _run(record, path, where)
                key = _key(trace_id, labels)
                row = _row(trace_id, run, labels.by_run.get(key) or _own(record, where), where, options)
            except TraceError as error:
                options.report.leave_out(error)
                continue
            if key in labels.by_run:
                labels.use(key, trace_id, where)
            yield where, row
    refuse_unknown(options, labels.unused(LIST))


def _messages(record: Mapping[str, JSON]) -> JSON:
    return record.get("messages", record.get("chat_history"))


def _run(record: JSON, path: Path, where: str) -> tuple[str, Mapping[str, JSON]]:
    if role(record) != "traces":
        raise TraceError(
            f"{where}: not a run of AgentErrorBench: accepted is {{messages: [...], metadata: {{won, steps, ...}}}}"
        )
    run = decoded(record["full_trajectory"]) if "full_trajectory" in record else record
    if not isinstance(run, dict):
        raise TraceError(f"{where}, full_trajectory: is {type(run).__name__}: accepted is {{messages: [...]}}")
    return str(record.get("trajectory_id") or path.stem).strip(), run


def _own(record: Mapping[str, JSON], where: str) -> tuple[str, Mapping[str, JSON]] | None:
    return (where, record) if record.get("critical_failure_step") is not None else None


def _key(trace_id: str, labels: RunLabels) -> str:
    """The trajectory id of a run's labels: its own, or the only one of its model and number."""
    if trace_id in labels.by_run or (short := _short(trace_id)) is None:
        return trace_id
    alike = [key for key in labels.by_run if _short(key) == short]
    return alike[0] if len(alike) == 1 else trace_id


def _short(trajectory_id: str) -> str | None:
    found = re.match(r"(.+?_\d+)(?=_|$)", trajectory_id)
    return found[1] if found else None


def _row(
    trace_id: str,
    run: Mapping[str, JSON],
    label: tuple[str, Mapping[str, JSON]] | None,
    where: str,
    options: ReadOptions,
) -> LabeledTrace:
    given = run.get("metadata")
    metadata: Mapping[str, JSON] = given if isinstance(given, dict) else {}
    spans = chat_spans(_new_text(_messages(run), where, options), "messages", where, options)
    trace = build_trace(trace_id, _with_goal(spans, metadata), "none", where, options)
    for name in ("won", "success"):
        options.report.strip(f"metadata.{name}", name in metadata)
    kept = mend_value({"source": "agent_error_bench", **metadata}, where, options)
    group = task_group(trace)
    if label is None:
        options.report.without_labels("failed run without labels", trace_id, f"{where}, {trace_id}")
        return LabeledTrace(trace, group=group, clean="unknown", metadata=kept)
    won = metadata.get("won", metadata.get("success")) is True
    return LabeledTrace(
        trace=trace,
        errors=_errors(*label, trace, options),
        scores=() if won else (ScoreLabel("goal_fulfillment", 0, RATER),),
        group=group,
        clean="partial",
        metadata={**kept, "task_type": mend_value(label[1].get("task_type"), where, options)},
    )


def _with_goal(spans: Sequence[Span], metadata: Mapping[str, JSON]) -> list[Span]:
    """The task alone as the root's input, out of the prompt that states it; and the model, on its spans."""
    asked = spans[0].inputs
    stated = _TASK.search(asked) if isinstance(asked, str) else None
    goal = metadata.get("task") or (stated[1] if stated else asked)
    model = {"llm.model_name": metadata["model"]} if isinstance(metadata.get("model"), str) else {}
    return [
        replace(span, inputs=goal)
        if span.span_id == ROOT
        else replace(span, attributes=model)
        if span.kind is SpanKind.LLM
        else span
        for span in spans
    ]


def _new_text(messages: JSON, where: str, options: ReadOptions) -> JSON:
    """The messages; those that are not the agent's without the passages that stand above."""
    if not isinstance(messages, list):
        return messages
    shown: set[tuple[str, ...]] = set()
    kept = []
    for index, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str):
            kept.append(message)
            continue
        lines = content.split("\n")
        repeated = _repeated(lines, shown)
        if message.get("role") != "assistant":
            new = "\n".join(_without(lines, repeated))
            options.report.add(REPEATED, f"{where}, messages[{index}]", new != content)
            message = {**message, "content": new}
        kept.append(message)
    return kept


def _repeated(lines: Sequence[str], shown: set[tuple[str, ...]]) -> set[int]:
    """Which lines are part of some lines in a row that stand above; `shown` holds those, and gets these."""
    found: set[int] = set()
    for start in range(len(lines) - _LEAST_LINES + 1):
        passage = tuple(line.strip() for line in lines[start : start + _LEAST_LINES])
        if passage in shown:
            found.update(range(start, start + _LEAST_LINES))
        shown.add(passage)
    return found


def _without(lines: Sequence[str], repeated: set[int]) -> Iterator[str]:
    for above, group in groupby(enumerate(lines), key=lambda one: one[0] in repeated):
        passage = [line for _, line in group]
        if above and sum(map(len, passage)) >= _LEAST_CHARACTERS:
            yield f"[... {len(passage)} lines that stand above ...]"
        else:
            yield from passage


def _errors(where: str, record: Mapping[str, JSON], trace: Trace, options: ReadOptions) -> tuple[ErrorLabel, ...]:
    """The critical step first. Annotations of it add their type and reason to it, and are no second label."""
    critical, module = record.get("critical_failure_step"), str(record.get("critical_failure_module") or "").strip()
    found: dict[tuple[str, str], ErrorLabel] = {}
    for number, annotation in enumerate(rows_of(record.get(LIST)), 1):
        place = f"{where}, annotation {number}"
        modules = [key for key in annotation if key != "step"] if isinstance(annotation, dict) else []
        if not modules:
            accepted = "accepted is {step, <module>: {failure_type, reasoning}}"
            options.report.leave_out(TraceError(f"{place}: names no module: {accepted}"), LABEL)
        for name in modules:
            detail = annotation[name]
            if detail is None:  # a column that other rows of a table have
                continue
            if not isinstance(detail, dict):
                detail = {"failure_type": detail}
            elif not {"failure_type", "reasoning"} & detail.keys():
                detail = {"reasoning": json.dumps(detail, ensure_ascii=False)}
            step = annotation.get("step", critical)
            is_critical = str(step).strip() == str(critical).strip()
            error = _error(step, name, detail, is_critical, trace, (place, options))
            found.setdefault((str(step), error.category), error)
    if not any(error.impact is Impact.HIGH for error in found.values()):
        error = _error(critical, module, {}, True, trace, (where, options))
        found = {("", ""): error, **found}
    return tuple(found.values())


def _error(
    step: JSON,
    module: str,
    detail: Mapping[str, JSON],
    is_critical: bool,
    trace: Trace,
    at: tuple[str, ReadOptions],
) -> ErrorLabel:
    place, options = at
    own = [span.span_id for span in trace.spans if span.kind is SpanKind.LLM]
    number = str(step).strip()
    inside = number.isdecimal() and len(number) < 10 and 1 <= int(number) <= len(own)
    if not inside:
        no_span(options, place, trace.trace_id, f"step {number} of {len(own)}")
    said = mend_value(str(detail.get("failure_type") or module).strip(), place, options)
    category = options.category(said, place)
    return ErrorLabel(
        span_id=own[int(number) - 1] if inside else None,
        dimensions=options.taxonomy.dimensions_of(category),
        category=category,
        impact=Impact.HIGH if is_critical else Impact.MEDIUM,
        description=mend_value(str(detail.get("reasoning") or "").strip(), f"{place}, reasoning", options),
        rater=RATER,
    )
