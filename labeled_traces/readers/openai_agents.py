"""OpenAI Agents SDK: what its tracing exports, `{object: "trace"}` and `{object: "trace.span", span_data}`.

Items of several traces may stand in any order, one a line, in arrays or as the exporter posts them (`{data: [...]}`).
The SDK's own exporter writes of a call through the Responses API no more than its id: processors that keep `input` and
`response` beside it are read, without them the calls are there without words. A trace's `metadata` is the user's and
can hold the answer: it stays out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import decoded, first, get
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.files.span_store import SpanStore
from labeled_traces.readers.mending.agents import with_agents
from labeled_traces.readers.mending.repair import build_trace, mend_span, mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.fields import seconds
from labeled_traces.readers.spans.messages import llm_contents
from labeled_traces.readers.spans.openinference import plain_contents
from labeled_traces.readers.spans.usage import model_attributes
from labeled_traces.task_group import task_group
from labeled_traces.trace import JSON, Span, SpanKind, TraceError

_ACCEPTED = 'accepted are {object: "trace", id} and {object: "trace.span", id, trace_id, span_data}'
_AUDIO = ("speech", "speech_group", "transcription")


@dataclass
class _Items:
    """What is known of one trace: its own record, where its spans lie."""

    where: str
    trace: Mapping[str, JSON] = field(default_factory=dict)
    stored: list[int] = field(default_factory=list)


def role(record: JSON) -> str | None:
    """`traces` for traces and spans of the SDK, None for anything else."""
    kind = get(record, "object")
    known = kind == "trace.span" and isinstance(get(record, "span_data"), dict)
    return "traces" if known or (kind == "trace" and "id" in record and "workflow_name" in record) else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Records that cannot be read are left out.

    Raises:
        TraceError: labels, which this format does not have.
    """
    options.refuse_labels()
    traces: dict[str, _Items] = {}
    store = SpanStore()
    for where, record in read_files(paths, options.report):
        try:
            _add(record, traces, store, where)
        except TraceError as error:
            options.report.leave_out(error)
    for trace_id, items in traces.items():
        if not items.stored:
            options.report.leave_out(TraceError(f"{items.where}, trace {trace_id}: none of its spans is there"))
            continue
        yield items.where, _row(trace_id, items, list(store.get(items.stored)), options)


def _add(record: JSON, traces: dict[str, _Items], store: SpanStore, where: str) -> None:
    if role(record) is None:
        raise TraceError(f"{where}: no item of the OpenAI Agents SDK: {_ACCEPTED}")
    is_span = record["object"] == "trace.span"
    key = "trace_id" if is_span else "id"
    trace_id = str(record.get(key) or "").strip()
    if not trace_id:
        raise TraceError(f"{where}, {key}: is missing: accepted is any non-empty text")
    items = traces.setdefault(trace_id, _Items(where))
    if is_span:
        items.stored.append(store.put(where, record))
    else:
        items.trace = record


def _row(
    trace_id: str, items: _Items, records: Sequence[tuple[str, Mapping[str, JSON]]], options: ReadOptions
) -> LabeledTrace:
    spans = [_span(item, where, options) for where, item in records]
    tools = {span.span_id: item["span_data"] for span, (_, item) in zip(spans, records, strict=True)}
    root = Span(trace_id, None, str(items.trace.get("workflow_name") or "trace"), SpanKind.AGENT)
    told = (_with_tools(span, tools.get(span.span_id, {})) for span in with_agents(spans, root))
    filled = [mend_span(span, f"{items.where}, span {span.span_id}", options) for span in told]
    trace = build_trace(trace_id, filled, "none", items.where, options)
    options.report.strip("trace.metadata", 1 if items.trace.get("metadata") else 0)
    session = items.trace.get("group_id")
    about = {"source": "openai_agents", **({"session": session} if session else {})}
    return LabeledTrace(
        trace=trace,
        group=task_group(trace),
        clean="unknown",
        metadata=mend_value({**about, "name": root.name}, items.where, options),
    )


def _span(item: Mapping[str, JSON], where: str, options: ReadOptions) -> Span:
    span_id = str(item.get("id") or "")
    place = f"{where}, span {span_id or '(no id)'}"
    data = item["span_data"]
    if "model_config" in data:
        data = {**data, "model_config": options.report.mapping(data["model_config"], "model_config", place)}
    typed = str(data.get("type"))
    unread = [key for key in _HELD - _HELD_BY.get(typed, _HELD) if data.get(key)]
    options.report.add("content that a span of its type does not have, left out", f"{place}: {typed}", len(unread))
    name, kind, inputs, outputs = _READ.get(typed, _other)(data)
    if kind is SpanKind.TOOL:
        inputs, outputs = plain_contents(inputs, outputs, kind, place, options.report)
    error = item.get("error")
    parent = item.get("parent_id")
    span = Span(
        span_id=span_id,
        parent_id=None if parent is None else str(parent),
        name=name,
        kind=kind,
        start=seconds(item.get("started_at")),
        end=seconds(item.get("ended_at")),
        inputs=inputs,
        outputs=outputs,
        status="ERROR" if error else "UNSET",
        error=_error(error) if error else None,
        attributes=_usage(data) if kind is SpanKind.LLM else {},
    )
    return mend_span(span, place, options)


_Read = tuple[str, SpanKind, JSON, JSON]


def _agent(data: Mapping[str, JSON]) -> _Read:
    return str(data.get("name") or "agent"), SpanKind.AGENT, None, None


def _with_tools(span: Span, data: Mapping[str, JSON]) -> Span:
    """The agent with the names of its tools, and of the agents that it may hand over to, beside its goal."""
    had = {key: data[key] for key in ("tools", "handoffs") if span.kind is SpanKind.AGENT and data.get(key)}
    if not had:
        return span
    goal = {"messages": [{"role": "user", "content": span.inputs}]} if span.inputs else {}
    return replace(span, inputs={**goal, **had})


def _generation(data: Mapping[str, JSON]) -> _Read:
    config = data.get("model_config")
    inputs, outputs = llm_contents(data.get("input"), data.get("output"), get(config, "tools"))
    return str(data.get("name") or "generation"), SpanKind.LLM, inputs, outputs


def _response(data: Mapping[str, JSON]) -> _Read:
    response = decoded(first(data.get("response"), data.get("output")))
    answer = {**response, "object": "response"} if isinstance(get(response, "output"), list) else response
    inputs, outputs = llm_contents(data.get("input"), answer, data.get("tools"), data.get("instructions"))
    return "response", SpanKind.LLM, inputs, outputs


def _function(data: Mapping[str, JSON]) -> _Read:
    return str(data.get("name") or "function"), SpanKind.TOOL, data.get("input"), data.get("output")


def _handoff(data: Mapping[str, JSON]) -> _Read:
    to = {"to_agent": data.get("to_agent")}
    return "handoff", SpanKind.CHAIN, {"from_agent": data.get("from_agent")}, to


def _guardrail(data: Mapping[str, JSON]) -> _Read:
    given, triggered = data.get("input"), {"triggered": data.get("triggered")}
    return str(data.get("name") or "guardrail"), SpanKind.GUARDRAIL, given, triggered


def _mcp_tools(data: Mapping[str, JSON]) -> _Read:
    return "mcp_tools", SpanKind.CHAIN, {"server": data.get("server")}, {"tools": data.get("result")}


def _other(data: Mapping[str, JSON]) -> _Read:
    """A custom span, or one of a kind that came later. The SDK's own, for a run and its turns, say nothing more."""
    kind, name = str(data.get("type") or ""), str(data.get("name") or data.get("type") or "span")
    if kind == "custom":
        held = data.get("data")
        return name, SpanKind.CHAIN, None if get(held, "sdk_span_type") else held, None
    if kind in _AUDIO:
        return name, SpanKind.CHAIN, *(_without_audio(data.get(key)) for key in ("input", "output"))
    known = {"type", "name", "input", "output"}
    rest = {key: value for key, value in data.items() if key not in known and value is not None}
    given = data.get("input")
    inputs = {**({} if given is None else {"input": given}), **rest} if rest else given
    return name, SpanKind.UNKNOWN, inputs, data.get("output")


_READ: dict[str, Callable[[Mapping[str, JSON]], _Read]] = {
    **{"agent": _agent, "generation": _generation, "response": _response, "function": _function},
    **{"handoff": _handoff, "guardrail": _guardrail, "mcp_tools": _mcp_tools},
}

_HELD = {"input", "output", "tools", "handoffs", "instructions", "response", "model_config", "result", "data"}
"""Where a span's data says what went in and out."""
_HELD_BY: dict[str, set[str]] = {
    "agent": {"tools", "handoffs"},
    "generation": {"input", "output", "model_config"},
    "response": {"input", "output", "response", "tools", "instructions"},
    "function": {"input", "output"},
    "handoff": set(),
    "guardrail": {"input"},
    "mcp_tools": {"result"},
    "custom": {"data"},
    **{key: {"input", "output", "model_config"} for key in _AUDIO},
}
"""Which of these are read, by type; of any other type all are."""


def _without_audio(value: JSON) -> JSON:
    if not isinstance(value, dict) or not isinstance(value.get("data"), str):
        return value
    return {**value, "data": f"[audio, {len(value['data'])} characters of base64]"} if value["data"] else None


def _error(error: JSON) -> str:
    message, data = get(error, "message"), get(error, "data")
    if message is None:
        return str(error)
    return f"{message}: {data}" if data else str(message)


def _usage(data: Mapping[str, JSON]) -> dict[str, JSON]:
    response = get(data, "response")
    usage = first(data.get("usage"), get(response, "usage"))
    own = {
        "prompt": ("input_tokens", "prompt_tokens"),
        "completion": ("output_tokens", "completion_tokens"),
        "total": ("total_tokens", "total"),
    }
    counts = {name: first(*(get(usage, key) for key in keys)) for name, keys in own.items()}
    return model_attributes(counts, data.get("model"), get(response, "model"))
