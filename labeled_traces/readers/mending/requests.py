"""Calls of a model below an agent: what was asked in them, and what they answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from labeled_traces.json_values import get
from labeled_traces.trace import JSON, Span, SpanKind

_FOR_CONTEXT = "For context:"
"""How Google's ADK begins what it tells an agent of other agents, as if a user said it."""


def model_calls(agent: Span, children: Callable[[str], Sequence[Span]]) -> list[Span]:
    """An agent's calls of a model, each before those below it; those of agents below it if it has none of its own.

    Args:
        children: the spans right below one, by its id.
    """
    return _model_calls(agent, children, deep=False) or _model_calls(agent, children, deep=True)


def _model_calls(agent: Span, children: Callable[[str], Sequence[Span]], deep: bool) -> list[Span]:
    found, seen = [], {agent.span_id}
    stack = [*reversed(children(agent.span_id))]
    while stack:
        span = stack.pop()
        if span.span_id in seen:
            continue
        seen.add(span.span_id)
        if span.kind is SpanKind.LLM:
            found.append(span)
        if deep or span.kind is not SpanKind.AGENT:
            stack += reversed(children(span.span_id))
    return found


def request_text(inputs: JSON) -> str | None:
    """What a user asked last: earlier turns of a conversation may stand before it."""
    if isinstance(inputs, str):
        return inputs
    texts = [message.get("content") for message in messages_in(inputs) if message.get("role") == "user"]
    said = [text for text in texts if isinstance(text, str) and text and not text.startswith(_FOR_CONTEXT)]
    return said[-1] if said else None


def reply_text(outputs: JSON) -> str | None:
    """What a model said last, None if it went on to call a tool."""
    if isinstance(outputs, str):
        return outputs
    messages = messages_in(outputs)
    if any(map(calls_in, messages)):
        return None
    texts = [message.get("content") for message in messages if message.get("role") == "assistant"]
    return next((text for text in reversed(texts) if isinstance(text, str) and text), None)


def messages_in(value: JSON) -> list[Mapping[str, JSON]]:
    """The messages of a span's inputs or outputs."""
    messages = get(value, "messages")
    return [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []


def calls_in(message: Mapping[str, JSON]) -> list[Mapping[str, JSON]]:
    """A message's calls of tools."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
