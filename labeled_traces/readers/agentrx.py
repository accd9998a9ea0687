"""AgentRx: tau-bench chat runs with people's step labels.

A run is `{task_id, trial, reward, traj: [chat messages], info, ...}`; only `traj` becomes a trace, since `info` and
`reward` hold the answer. Message i (from 0, the system message included) is the span `step-i` below the root span
`run`. Labels (`{trajectory_id, failures: [...]}`) count steps from 1: `step_number` n is span `step-(n-1)`.

AgentRx gives no impact: the root cause counts as high, every other failure as medium. This is our own reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.readers.attributes import decoded
from labeled_traces.readers.joining import Unknown, no_span, refuse_unknown
from labeled_traces.readers.records import read_files
from labeled_traces.readers.repair import build_trace, mend_value
from labeled_traces.readers.report import LABEL, ReadOptions
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError

ROOT = "run"


def role(record: JSON) -> str | None:
    """`traces` or `labels` if this reader can read the record, else None."""
    if isinstance(record, dict) and "trajectory_id" in record and "failures" in record:
        return "labels"
    return "traces" if isinstance(record, dict) and "traj" in record else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Labels join failed runs by task id, or any run by trace id (`tau-<task>-<trial>`).

    Raises:
        TraceError: labels that fit several runs, or label files without labels. Records that cannot be read are
            left out.
    """
    labels = _load_labels(options)
    used: dict[str, str] = {}
    for where, record in read_files(paths, options.report):
        try:
            row, key = _row(record, labels, where, options)
        except TraceError as error:
            options.report.leave_out(error)
            continue
        if key is not None:
            if key in used:
                raise TraceError(
                    f"{where}: labels of {key!r} fit {used[key]!r} and {row.trace_id!r}: name the run in trajectory_id"
                )
            used[key] = row.trace_id
        yield where, row
    unused = ((key, *labels[key]) for key in labels if key not in used)
    refuse_unknown(options, (Unknown(where, key, len(found["failures"])) for key, where, found in unused))


def _load_labels(options: ReadOptions) -> dict[str, tuple[str, Mapping[str, JSON]]]:
    labels: dict[str, tuple[str, Mapping[str, JSON]]] = {}
    for where, record in read_files(options.labels, options.report):
        if role(record) != "labels" or not isinstance(record["failures"], list):
            accepted = "accepted is {trajectory_id, failures: [...]}"
            options.report.leave_out(TraceError(f"{where}: no AgentRx labels: {accepted}"))
            continue
        key = str(record["trajectory_id"]).strip()
        if key in labels and labels[key][1] != record:
            raise TraceError(f"trajectory {key!r} has labels at {labels[key][0]} and other ones at {where}")
        labels[key] = where, record
    if options.labels and not labels:
        raise options.report.nothing_read() or TraceError(f"{options.labels[0]}: holds no labels")
    return labels


def _row(
    record: Mapping[str, JSON],
    labels: Mapping[str, tuple[str, Mapping[str, JSON]]],
    where: str,
    options: ReadOptions,
) -> tuple[LabeledTrace, str | None]:
    """The row, and the trajectory_id of the labels that it took."""
    if role(record) != "traces":
        raise TraceError(f"{where}: not a tau-bench run: accepted is {{task_id, trial, reward, traj: [...]}}")
    names = [record.get("task_id"), record.get("trial")]
    task, trial = ("" if name is None else mend_value(str(name).strip(), where, options) for name in names)
    if not task:
        raise TraceError(f"{where}, task_id: is missing: accepted is a number or a text")
    trace_id = f"tau-{task}-{trial}".removesuffix("-")
    trace = build_trace(trace_id, _spans(record["traj"], where, options), "none", where, options)
    reward = record.get("reward")
    passed = isinstance(reward, int | float) and reward >= 1
    key = trace_id if trace_id in labels else task if task in labels and not passed else None
    errors: tuple[ErrorLabel, ...] = ()
    lost = False
    metadata: dict[str, JSON] = {"source": "agentrx", "reward": reward}
    if key is not None:
        place, found = labels[key]
        errors = _errors(found, trace, place, options)
        lost = len(errors) < len(found["failures"])
        metadata["failure_summary"] = str(found.get("failure_summary") or "")
    elif not passed:
        options.report.add("failed run without labels", f"{where}, {trace_id}")
    row = LabeledTrace(
        trace=trace,
        errors=errors,
        group=f"tau-{task}",
        clean="checked" if key is not None and not lost else "presumed" if passed else "unknown",
        reference=mend_value(_reference(record), f"{where}, reference", options),
        metadata=mend_value(metadata, where, options),
    )
    return row, key


def _reference(record: Mapping[str, JSON]) -> str | None:
    info = record.get("info")
    task = info.get("task") if isinstance(info, dict) else None
    outputs = task.get("outputs") if isinstance(task, dict) else None
    return "\n".join(str(output) for output in _list(outputs)) or None


def _spans(messages: JSON, where: str, options: ReadOptions) -> list[Span]:
    """The conversation as a tree: a root, every message below it, a tool's result below the message that called it."""
    if not isinstance(messages, list) or not messages:
        raise TraceError(f"{where}, traj: is {type(messages).__name__} or empty: accepted is a list of chat messages")
    spans: list[Span] = []
    calls: dict[str, tuple[str, Mapping[str, JSON]]] = {}
    for index, raw in enumerate(messages):
        place = f"{where}, traj[{index}]"
        if not isinstance(raw, dict) or not isinstance(raw.get("role"), str):
            raise TraceError(f"{place}: accepted is a chat message with a role")
        message = mend_value(raw, place, options)
        span_id = f"step-{index}"
        if message["role"] == "assistant":
            spans.append(_assistant(span_id, message, calls, place, options))
        elif message["role"] == "tool":
            spans.append(_tool(span_id, message, calls, place, options))
        else:
            spans.append(Span(span_id, ROOT, message["role"], SpanKind.CHAIN, inputs=_content(message)))
    asked = next((span.inputs for span in spans if span.name == "user"), None)
    said = (span.outputs["messages"][0]["content"] for span in reversed(spans) if span.kind is SpanKind.LLM)
    answer = next((content for content in said if content), None)
    return [Span(ROOT, None, "agent", SpanKind.AGENT, inputs=asked, outputs=answer), *spans]


def _assistant(
    span_id: str,
    message: Mapping[str, JSON],
    calls: dict[str, tuple[str, Mapping[str, JSON]]],
    place: str,
    options: ReadOptions,
) -> Span:
    answer: dict[str, JSON] = {"role": "assistant", "content": _content(message)}
    asked = []
    for call in _list(message.get("tool_calls")):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            arguments = mend_value(decoded(function.get("arguments")), f"{place}, arguments", options)
            asked.append({"id": call.get("id"), "name": str(function.get("name") or ""), "arguments": arguments})
            calls[str(call.get("id"))] = span_id, asked[-1]
    if asked:
        answer["tool_calls"] = asked
    return Span(span_id, ROOT, "assistant", SpanKind.LLM, outputs={"messages": [answer]})


def _tool(
    span_id: str,
    message: Mapping[str, JSON],
    calls: Mapping[str, tuple[str, Mapping[str, JSON]]],
    place: str,
    options: ReadOptions,
) -> Span:
    parent, call = calls.get(str(message.get("tool_call_id")), (ROOT, {}))
    if not call:
        options.report.add("tool result without its call", place)
    name = str(message.get("name") or call.get("name") or "tool")
    return Span(span_id, parent, name, SpanKind.TOOL, inputs=call.get("arguments"), outputs=_content(message))


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _content(message: Mapping[str, JSON]) -> JSON:
    """The text of a message, also where it is a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", part)) if isinstance(part, dict) else str(part) for part in content)
    return content


def _errors(record: Mapping[str, JSON], trace: Trace, where: str, options: ReadOptions) -> tuple[ErrorLabel, ...]:
    root = record.get("root_cause")
    root_id = root.get("failure_id") if isinstance(root, dict) else None
    errors = []
    for number, raw in enumerate(record["failures"], 1):
        place = f"{where}, failure {number}"
        if not isinstance(raw, dict):
            accepted = "accepted is {step_number, failure_category, ...}"
            options.report.leave_out(TraceError(f"{place}: is {type(raw).__name__}: {accepted}"), LABEL)
            continue
        failure = mend_value(raw, place, options)
        category = options.category(str(failure.get("failure_category") or "").strip(), place)
        step = str(failure.get("step_number")).strip()
        span_id = f"step-{int(step) - 1}" if step.isdecimal() and len(step) < 10 else ""
        if span_id not in trace.by_id:
            no_span(options, place, trace.trace_id, f"step_number {step}")
        texts = (str(failure[key]) for key in ("step_reason", "category_reason") if failure.get(key))
        is_root = root_id is not None and failure.get("failure_id") == root_id
        errors.append(
            ErrorLabel(
                span_id=span_id if span_id in trace.by_id else None,
                dimensions=options.taxonomy.dimensions_of(category, str(failure.get("failed_agent"))),
                category=category,
                impact=Impact.HIGH if is_root else Impact.MEDIUM,
                description="\n".join(texts),
            )
        )
    if not any(error.impact is Impact.HIGH for error in errors):
        options.report.add("root cause that is none of the failures", where)
    return tuple(errors)
