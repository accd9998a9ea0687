"""Observations of Langfuse as spans.

What an observation did is seen in its type, and where that says no more than `SPAN` in what its instrumentation
recorded: its attributes stand in its metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labeled_traces.json_values import NOTHING, decoded, either, first, get
from labeled_traces.readers.mending.answer_hints import note_answers
from labeled_traces.readers.mending.repair import mend_span
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.fields import seconds, span_kind
from labeled_traces.readers.spans.genai import genai_contents
from labeled_traces.readers.spans.messages import chat_messages, llm_contents
from labeled_traces.readers.spans.openinference import nest, plain_contents
from labeled_traces.readers.spans.usage import model_attributes
from labeled_traces.trace import JSON, Span, SpanKind

_KINDS = {"GENERATION": SpanKind.LLM, "SPAN": SpanKind.CHAIN, "EVENT": SpanKind.CHAIN}


def read_span(item: Mapping[str, JSON], where: str, options: ReadOptions) -> Span:
    """One observation; its id and its parent's as they stand there."""
    span_id = str(item.get("id") or "")
    place = f"{where}, observation {span_id or '(no id)'}"
    metadata = decoded(item.get("metadata"))
    note_answers(metadata, options.report)
    recorded = get(metadata, "attributes")
    attributes = nest(recorded) if isinstance(recorded, dict) else {}
    name = str(item.get("name") or "")
    inputs, outputs = (decoded(item.get(key)) for key in ("input", "output"))
    kind = _kind(item, attributes, outputs)
    if kind is SpanKind.UNKNOWN:
        options.report.add("observation of an unknown type", f"{place}: {item.get('type')!r}")
    if kind is SpanKind.LLM:
        inputs, outputs = llm_contents(*_without_schemas(inputs, outputs, _tools(item, metadata, recorded)))
    else:
        inputs, outputs = plain_contents(inputs, outputs, kind, place, options.report)
        if kind is SpanKind.TOOL:
            inputs, outputs = _tool_contents(inputs, outputs, attributes)
            name = str(get(attributes, "gen_ai", "tool", "name") or get(attributes, "tool", "name") or name)
        else:
            inputs, outputs = _of_adk(inputs, "new_message"), _of_adk(outputs, "content")
            if kind is SpanKind.AGENT and outputs in NOTHING:
                outputs = decoded(attributes.get("final_result"))  # Pydantic AI
    level, said = str(item.get("level") or ""), either(item, "statusMessage")
    failed = level == "ERROR"
    parent = either(item, "parentObservationId")
    span = Span(
        span_id=span_id,
        parent_id=None if parent is None else str(parent),
        name=name,
        kind=kind,
        start=seconds(either(item, "startTime")),
        end=seconds(either(item, "endTime")),
        inputs=inputs,
        outputs=outputs,
        status="ERROR" if failed else "UNSET",
        error=str(said or "unknown error") if failed else None,
        attributes={**_usage(item), **({"status_message": said} if said and not failed else {})},
    )
    return mend_span(span, place, options)


def _kind(item: Mapping[str, JSON], attributes: JSON, outputs: JSON) -> SpanKind:
    """Old SDKs know spans and generations alone: what such a span did is seen in what it recorded."""
    name = str(item.get("type") or "").upper()
    kind = _KINDS.get(name) or span_kind(name)
    if name == "SPAN":
        if get(outputs, "type") == "tool" and "tool_call_id" in outputs:  # a ToolMessage of LangChain
            return SpanKind.TOOL
        if get(attributes, "gen_ai", "tool", "name"):
            return SpanKind.TOOL
        if get(attributes, "gen_ai", "agent", "name"):
            return SpanKind.AGENT
    return kind


def agents_for_loops(spans: list[Span]) -> list[Span]:
    """A generation around others is no call of a model: with tools below it an agent's loop (Vercel's AI SDK)."""
    below: dict[str | None, set[SpanKind]] = {}
    for span in spans:
        below.setdefault(span.parent_id, set()).add(span.kind)

    def outer(span: Span) -> Span:
        inside = below.get(span.span_id, set())
        if span.kind is not SpanKind.LLM or SpanKind.LLM not in inside:
            return span
        kind = SpanKind.AGENT if SpanKind.TOOL in inside else SpanKind.CHAIN
        return replace(span, kind=kind, attributes={})

    return [outer(span) for span in spans]


def _tool_contents(inputs: JSON, outputs: JSON, attributes: JSON) -> tuple[JSON, JSON]:
    asked, given = genai_contents(attributes, SpanKind.TOOL)  # ADK: the observation itself says nothing
    inputs = asked if inputs in NOTHING and asked is not None else inputs
    outputs = given if outputs in NOTHING and given is not None else outputs
    if get(outputs, "type") == "tool" and "content" in outputs:
        outputs = decoded(outputs["content"])
    return inputs, outputs


def _of_adk(value: JSON, key: str) -> JSON:
    """The message in what ADK hands to and gets from an invocation."""
    return {"messages": chat_messages(value[key])} if get(value, key, "parts") else value


def _tools(item: Mapping[str, JSON], metadata: JSON, recorded: JSON) -> JSON:
    """The tools that a model had, wherever its instrumentation recorded them."""
    request = decoded(get(recorded, "model_request_parameters"))  # Pydantic AI
    named = [*(get(request, "function_tools") or []), *(get(request, "output_tools") or [])]
    schemas = decoded(either(item, "toolDefinitions"))
    listed = [get(recorded, "gen_ai.tool.definitions"), get(recorded, "ai.prompt.tools"), get(metadata, "tools")]
    given = [list(schemas.values())] if isinstance(schemas, dict) else [schemas]
    return next((tools for tools in map(decoded, (*given, *listed)) if isinstance(tools, list) and tools), named)


def _without_schemas(inputs: JSON, outputs: JSON, tools: JSON) -> tuple[JSON, JSON, JSON]:
    """Langfuse's callback for LangChain puts the tools that a model had behind its messages, as messages of a tool."""
    rows = inputs if isinstance(inputs, list) else []
    schemas = [get(row, "content") for row in rows if get(row, "content", "function", "name") and "role" in row]
    if not schemas:
        return inputs, outputs, tools
    return [row for row in rows if get(row, "content") not in schemas], outputs, tools or schemas


def _usage(item: Mapping[str, JSON]) -> dict[str, JSON]:
    """Tokens and model. Old records have `usage`, or counts of their own; 0 of all is unknown."""
    if str(item.get("type")).upper() != "GENERATION":
        return {}
    usage = decoded(first(item.get("usageDetails"), item.get("usage_details"), item.get("usage")))
    own = {"prompt": ("input", "promptTokens"), "completion": ("output", "completionTokens"), "total": ("total", "")}
    counts = {name: first(*(get(usage, key) for key in keys)) for name, keys in own.items()}
    return model_attributes(counts, item.get("model"), either(item, "providedModelName"))
