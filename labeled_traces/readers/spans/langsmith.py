"""Runs of LangSmith as spans."""

from __future__ import annotations

import re
from collections.abc import Mapping

from labeled_traces.json_values import decoded, first, get
from labeled_traces.readers.mending.repair import mend_span
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.fields import seconds
from labeled_traces.readers.spans.messages import llm_contents
from labeled_traces.readers.spans.openinference import plain_contents
from labeled_traces.readers.spans.usage import model_attributes, token_counts
from labeled_traces.trace import JSON, Span, SpanKind

_KINDS = {
    **dict.fromkeys(("chain", "parser", "prompt"), SpanKind.CHAIN),
    **{"llm": SpanKind.LLM, "tool": SpanKind.TOOL, "retriever": SpanKind.RETRIEVER, "embedding": SpanKind.EMBEDDING},
}


def ids_by_path(run: Mapping[str, JSON]) -> tuple[str, str]:
    """Ids of the root and of the parent by the run's path, `<time>Z<id>.<time>Z<id>`; empty where it has none."""
    path = [part.rpartition("Z")[2] for part in str(run.get("dotted_order") or "").split(".")]
    return path[0], path[-2] if len(path) > 1 else ""


def read_run(run: Mapping[str, JSON], above: JSON, where: str, options: ReadOptions) -> Span:
    """One run. `above`: the id of the run that it stands in, which counts where it names no parent itself."""
    span_id = str(run.get("id") or "")
    place = f"{where}, run {span_id or '(no id)'}"
    extra = options.report.mapping(run.get("extra"), "extra", place)
    name, kind = str(run.get("name") or ""), _KINDS.get(str(run["run_type"]).lower(), SpanKind.UNKNOWN)
    inputs, outputs = decoded(run.get("inputs")), decoded(run.get("outputs"))
    called = options.report.mapping(get(extra, "invocation_params"), "invocation_params", place)
    if kind is SpanKind.UNKNOWN:
        options.report.add("run of an unknown type", f"{place}: {run['run_type']!r}")
    if kind is SpanKind.LLM:
        inputs, outputs = llm_contents(inputs, outputs, get(called, "tools"))
    elif kind is SpanKind.TOOL:
        inputs, outputs = _tool_contents(inputs, outputs, place, options)
    else:
        inputs, outputs = _plain(inputs), _plain(outputs)
    if kind is SpanKind.CHAIN and _is_agent(name, get(extra, "metadata")):
        kind = SpanKind.AGENT
    parent = first(run.get("parent_run_id"), above, ids_by_path(run)[1] or None)
    failed = bool(run.get("error")) or run.get("status") == "error"
    span = Span(
        span_id=span_id,
        parent_id=None if parent is None else str(parent),
        name=name,
        kind=kind,
        start=seconds(run.get("start_time")),
        end=seconds(run.get("end_time")),
        inputs=inputs,
        outputs=outputs or None,
        status="ERROR" if failed else "UNSET",
        error=_error(run.get("error")) if failed else None,
        attributes=_usage(run, extra, decoded(run.get("outputs"))) if kind is SpanKind.LLM else {},
    )
    return mend_span(span, place, options)


def _tool_contents(inputs: JSON, outputs: JSON, place: str, options: ReadOptions) -> tuple[JSON, JSON]:
    """Arguments by name, and a result without LangChain's message around it."""
    asked = inputs["input"] if isinstance(inputs, dict) and inputs.keys() == {"input"} else inputs
    given = decoded(outputs["output"]) if isinstance(outputs, dict) and outputs.keys() == {"output"} else outputs
    given = get(given, "kwargs") if get(given, "type") == "constructor" else given
    if isinstance(given, dict) and "content" in given and "tool_call_id" in given:
        failed = given.get("status") == "error"
        given = {"status": "error", "content": given["content"]} if failed else decoded(given["content"])
    found, result = plain_contents(asked, given, SpanKind.TOOL, place, options.report)
    return (found if isinstance(found, dict) else inputs), result


def _plain(value: JSON) -> JSON:
    """What a node of a graph was given or changes, without an envelope of one item or one key around it."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(value, dict) and value.keys() in ({"output"}, {"input"}):
        return _plain(next(iter(value.values())))
    return value


def _is_agent(name: str, metadata: JSON) -> bool:
    return name in ("AgentExecutor", "LangGraph") or (bool(name) and get(metadata, "lc_agent_name") == name)


def _error(value: JSON) -> str:
    """What went wrong as other recorders say it, `ValueError: no such city`, without the stack. LangSmith writes the
    exception's repr and right behind it the stack, which ends with that line, or with notes below it."""
    text = str(value or "unknown error").strip()
    said, _, stack = text.partition("Traceback (most recent call last)")
    kind = re.match(r"(\w+)\(", said.strip())
    lines = [line.strip() for line in stack.splitlines() if line.strip()]
    ends = (line for line in reversed(lines) if kind and re.match(rf"(\w+\.)*{kind[1]}(: |$)", line))
    return next(ends, "") or said.strip() or (lines[-1] if lines else text)


def _usage(run: Mapping[str, JSON], extra: JSON, outputs: JSON) -> dict[str, JSON]:
    """Tokens and model: by the server, by the message's own account, or by the provider's."""
    own = {"prompt": "prompt_tokens", "completion": "completion_tokens", "total": "total_tokens"}
    counted = {"prompt": "input_tokens", "completion": "output_tokens", "total": "total_tokens"}
    generations = get(outputs, "generations")
    generation = generations[0] if isinstance(generations, list) and generations else None
    message = get(generation[0] if isinstance(generation, list) and generation else generation, "message")
    metadata, called = get(extra, "metadata"), get(extra, "invocation_params")
    sources = [
        (run, own),
        *((get(holder, "usage_metadata"), counted) for holder in (get(message, "kwargs"), message, outputs, metadata)),
        (get(outputs, "llm_output", "token_usage"), own),
        (get(outputs, "usage"), own),
    ]
    found = ({name: get(used, key) for name, key in keys.items()} for used, keys in sources)
    counts = next(filter(None, map(token_counts, found)), {})
    return model_attributes(counts, get(metadata, "ls_model_name"), get(called, "model"), get(called, "model_name"))
