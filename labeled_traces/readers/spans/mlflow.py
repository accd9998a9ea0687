"""One span of MLflow's, whoever wrote it.

A span that came through MLflow's OTLP endpoint keeps its own attributes beside MLflow's translation, which knows less:
it is read by its own, and by the translation where they say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from labeled_traces.json_values import decoded, decoded_scalar, get, rows_of
from labeled_traces.readers.mending.original import ORIGINAL
from labeled_traces.readers.mending.repair import canonical_id, mend_span
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.fields import seconds, span_kind, status
from labeled_traces.readers.spans.message_parts import conversation, no_conversation
from labeled_traces.readers.spans.messages import chat_messages
from labeled_traces.readers.spans.openinference import nest
from labeled_traces.readers.spans.otel import error_text, events_of
from labeled_traces.readers.spans.otel import read_spans as read_otel_spans
from labeled_traces.readers.spans.usage import model_attributes
from labeled_traces.trace import JSON, Span, SpanKind

_KINDS = {"CHAT_MODEL": SpanKind.LLM, "WORKFLOW": SpanKind.CHAIN, "TASK": SpanKind.CHAIN, "PARSER": SpanKind.CHAIN}
"""MLflow's span types that OpenInference calls something else."""
_FOREIGN = ("openinference.", "gen_ai.", "gcp.vertex.agent.", "llm.", "ai.", "input.", "output.", "traceloop.")
_TOKENS = {"prompt": "input_tokens", "completion": "output_tokens", "total": "total_tokens"}


def read_spans(items: Sequence[Mapping[str, JSON]], where: str, options: ReadOptions) -> list[Span]:
    """The spans as they came; a graph of LangGraph's is an agent."""
    spans = [_span(item, where, options) for item in items]
    about = [decoded_scalar(get(item, "attributes", "metadata")) for item in items]
    graphs = {span.parent_id for span, said in zip(spans, about, strict=True) if _is_node(span, said)}
    pairs = zip(spans, about, strict=True)
    return [_as_agent(span, said) if span.span_id in graphs else span for span, said in pairs]


def _is_node(span: Span, said: JSON) -> bool:
    return span.kind is SpanKind.CHAIN and get(said, "langgraph_node") == span.name


def _as_agent(span: Span, said: JSON) -> Span:
    if span.kind is not SpanKind.CHAIN:
        return span
    name = get(said, "lc_agent_name")
    named = {"agent.name": name} if isinstance(name, str) else {}
    return replace(span, kind=SpanKind.AGENT, attributes={**span.attributes, **named})


def _span(item: Mapping[str, JSON], where: str, options: ReadOptions) -> Span:
    span_id, parent_id = hex_id(item.get("span_id")), hex_id(item.get("parent_span_id"))
    place = f"{where}, span {span_id or '(no id)'}"
    given = decoded(item.get("attributes"))
    raw = given if isinstance(given, dict) else {}
    if raw is not given and given is not None:
        options.report.add("attributes that are no mapping", place)
    attributes = {key: decoded_scalar(value) for key, value in raw.items()}
    item = {**item, "events": events_of(item.get("events"), place, options)} if item.get("events") else item
    span = _of_mlflow(item, span_id, parent_id, attributes)
    if any(key.startswith(_FOREIGN) for key in raw):
        span = _of_others(item, raw, span, where, options)
    return mend_span(span, place, options)


def _of_mlflow(item: Mapping[str, JSON], span_id: str, parent_id: str, attributes: Mapping[str, JSON]) -> Span:
    named = str(attributes.get("mlflow.spanType") or "")
    kind = _KINDS.get(named.upper()) or span_kind(named)
    if kind is SpanKind.UNKNOWN and attributes.get("mlflow.chat.tools"):
        kind = SpanKind.LLM
    inputs, outputs = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    name = str(item.get("name") or "")
    if kind is SpanKind.LLM:
        called = attributes.get("invocation_params")
        inputs = _asked(inputs, attributes.get("mlflow.chat.tools") or get(called, "tools"))
        outputs = _answered(outputs)
    elif kind is SpanKind.AGENT:
        inputs, outputs = _only(inputs, "prompt"), _only(outputs, "response")
    elif kind is SpanKind.TOOL:
        name = str(attributes.get("tool_name") or name)
        if outputs is None and attributes.get("status") in ("running", "pending"):
            outputs = {"status": attributes["status"]}
    code = status(get(item, "status", "code"))
    said = get(item, "status", "message")
    described = nest({"events": item.get("events"), "status.message": said}) if said or item.get("events") else {}
    return Span(
        span_id=span_id,
        parent_id=parent_id or None,
        name=name,
        kind=kind,
        start=seconds(item.get("start_time_unix_nano")),
        end=seconds(item.get("end_time_unix_nano")),
        inputs=inputs,
        outputs=outputs,
        status=code,
        error=error_text(described, code),
        attributes=_kept(attributes, kind),
    )


def _of_others(
    item: Mapping[str, JSON], raw: Mapping[str, JSON], known: Span, where: str, options: ReadOptions
) -> Span:
    """The span by the attributes that it came with."""
    record = {
        "span_id": hex_id(item.get("span_id")),
        "name": known.name,
        "attributes": {key: _sent(value) for key, value in raw.items() if not key.startswith("mlflow.")},
        "events": item.get("events"),
    }
    (span,) = read_otel_spans(record, where, options)
    return replace(
        known,
        name=span.name,
        kind=known.kind if span.kind is SpanKind.UNKNOWN else span.kind,
        inputs=known.inputs if span.inputs is None else span.inputs,
        outputs=known.outputs if span.outputs is None else span.outputs,
        attributes={**known.attributes, **span.attributes},
    )


def hex_id(value: JSON) -> str:
    """16 hex digits stay, though base64 could be written so as well: eight bytes in base64 are 12 characters."""
    text = value.strip() if isinstance(value, str) else ""
    return text.lower() if re.fullmatch(r"(?i)[0-9a-f]{16}", text) else canonical_id(text, "base64")


def _sent(value: JSON) -> JSON:
    """An attribute as its sender wrote it: of a text that is JSON already MLflow makes no JSON."""
    read = decoded_scalar(value)
    return read if isinstance(read, str) else value


def _kept(attributes: Mapping[str, JSON], kind: SpanKind) -> dict[str, JSON]:
    """What is kept beside inputs and outputs: of a model's call which model it was and how many tokens it took."""
    kept = {ORIGINAL: attributes[ORIGINAL]} if ORIGINAL in attributes else {}
    if kind is not SpanKind.LLM:
        return kept
    used = attributes.get("mlflow.chat.tokenUsage")
    counts = {name: get(used, key) for name, key in _TOKENS.items()}
    called = [attributes.get(key) for key in ("mlflow.spanInputs", "invocation_params")]
    return {
        **kept,
        **model_attributes(counts, attributes.get("mlflow.llm.model"), *(get(one, "model") for one in called)),
    }


def _only(value: JSON, key: str) -> JSON:
    """The text of a mapping that holds nothing else to tell."""
    if isinstance(value, dict) and isinstance(value.get(key), str):
        rest = {name: other for name, other in value.items() if name != key}
        return value[key] if rest in ({}, {"status": "completed"}) else value
    return value


def _asked(inputs: JSON, tools: JSON) -> JSON:
    asked = inputs
    if isinstance(inputs, dict):
        asked = next((inputs[key] for key in ("messages", "input") if inputs.get(key)), None)
    messages = [{"role": "user", "content": asked}] if isinstance(asked, str) and asked is not inputs else None
    messages = messages or chat_messages(asked)
    if not messages:
        return no_conversation(inputs, tools)
    system = get(inputs, "system") or get(inputs, "instructions")
    if system:
        messages = [{"role": "system", "content": system}, *messages]
    return conversation(messages, rows_of(tools or get(inputs, "tools")))


def _answered(outputs: JSON) -> JSON:
    return conversation(chat_messages(outputs, "assistant") or ()) or outputs
