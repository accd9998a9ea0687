"""Results of tools that say only which call they answer get the name of the tool, which the call has."""

from __future__ import annotations

from dataclasses import replace

from labeled_traces.json_values import get
from labeled_traces.trace import JSON, Span, SpanKind


def with_tool_names(span: Span) -> Span:
    """The span of a model's call with names in its tool messages; the very same if none is to be had."""
    messages = get(span.inputs, "messages") if span.kind is SpanKind.LLM else None
    if not isinstance(messages, list) or not any(map(_is_nameless, messages)):
        return span
    calls = [call for message in messages for call in _listed(get(message, "tool_calls"))]
    names = {get(call, "id"): get(call, "name") for call in calls if isinstance(get(call, "id"), str)}
    named = [
        {**message, "name": name} if _is_nameless(message) and (name := names.get(message["tool_call_id"])) else message
        for message in messages
    ]
    return span if named == messages else replace(span, inputs={**span.inputs, "messages": named})


def _is_nameless(message: JSON) -> bool:
    return get(message, "role") == "tool" and not get(message, "name") and isinstance(get(message, "tool_call_id"), str)


def _listed(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
