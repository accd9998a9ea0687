"""What LangChain and LangGraph record around the calls of a model, in the form that `Span` describes.

Every node of a graph is given the whole state and says what it changes, every tool is given a call and says a message;
each of these is written in one of the ways in which LangChain writes messages (a dump, a constructor, a pair of role
and text). As messages they can be told from what the model's own spans show, so the rendering leaves out what repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labeled_traces.json_values import decoded, get
from labeled_traces.readers.spans.message_parts import split_message
from labeled_traces.readers.spans.messages import KNOWN_ROLES, chat_message
from labeled_traces.readers.spans.openinference import call_of, read_message
from labeled_traces.trace import JSON, Span, SpanKind

_STATES = (SpanKind.CHAIN, SpanKind.UNKNOWN, SpanKind.AGENT)
_COMMAND = {"graph", "update", "resume", "goto"}


def plain_span(span: Span) -> Span:
    """The span with LangChain's messages as messages; the very same if it has none."""
    if span.kind is SpanKind.TOOL:
        raw = chat_message(span.outputs)
        message = _message(raw)
        if message is None or message[-1]["role"] != "tool":
            return span
        failed = get(raw, "status") == "error"
        return replace(span, outputs=decoded(message[-1]["content"]), status="ERROR" if failed else span.status)
    if span.kind not in _STATES:
        return span
    inputs, outputs = plain_state(span.inputs), plain_state(span.outputs)
    if inputs is span.inputs and outputs is span.outputs:
        return span
    if span.kind is SpanKind.AGENT:
        inputs, outputs = _only_text(inputs, "user"), _only_text(_last(outputs), "assistant")
    return replace(span, inputs=inputs, outputs=outputs)


def _message(raw: Mapping[str, JSON] | None) -> list[JSON] | None:
    """What a message says; None if it is none, or of nobody who is known: a state may hold mappings of its own."""
    return list(split_message(raw, "user")) if str(get(raw, "role")).lower() in KNOWN_ROLES and raw else None


def plain_state(value: JSON) -> JSON:
    """A state, what a node changes of it, or calls that it hands out, with `messages`; else the very same value."""
    if isinstance(value, list):
        return _list(value)
    if not isinstance(value, dict):
        return value
    if value.get("type") == "tool_call" and "name" in value:  # what LangGraph hands to a node of tools
        return _list([{"args": None, **value}])
    if {"update", "goto"} <= value.keys() <= _COMMAND:
        changed = plain_state(value["update"])
        if not isinstance(changed, dict | None):
            return value
        to = value.get("goto")
        return {**(changed or {}), "goto": to} if to else changed or None
    messages = _messages(value.get("messages"))
    return value if messages is None else {**value, "messages": messages}


def _list(items: list[JSON]) -> JSON:
    if items and all(isinstance(item, dict) and {"name", "args"} <= item.keys() for item in items):
        return {"messages": [read_message({"role": "assistant", "tool_calls": [call_of(item) for item in items]})]}
    messages = _messages(items)
    if messages is not None:
        return {"messages": messages}
    if len(items) == 1 and isinstance(items[0], dict):
        changed = plain_state(items[0])
        return items if changed is items[0] else changed
    return items


def _messages(value: JSON) -> list[JSON] | None:
    """A list of messages, or one that stands alone; None if it is neither."""
    alone = _message(chat_message(value))
    if alone is not None:
        return alone
    if not isinstance(value, list) or not value:
        return None
    found: list[JSON] = []
    for item in value:
        messages = _message(chat_message(item))
        if messages is None:
            return None
        found += messages
    return found


def _last(state: JSON) -> JSON:
    """Of the state at an agent's end only its answer: the rest was said on the way there."""
    messages = get(state, "messages")
    if not isinstance(messages, list) or len(messages) < 2 or not _is_said(messages[-1], "assistant"):
        return state
    return {**state, "messages": messages[-1:]}


def _only_text(state: JSON, role: str) -> JSON:
    """The text of a state that is nothing but one message of this role."""
    messages = get(state, "messages")
    if isinstance(messages, list) and len(messages) == len(state) == 1 and _is_said(messages[0], role):
        return messages[0]["content"]
    return state


def _is_said(message: JSON, role: str) -> bool:
    return get(message, "role") == role and "tool_calls" not in message and bool(get(message, "content"))
