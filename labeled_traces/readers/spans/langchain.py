"""What LangChain and LangGraph record around the calls of a model, in the form that `Span` describes.

Every node of a graph is given the whole state and says what it changes, every tool is given a call and says a message;
each of these is written in one of the ways in which LangChain writes messages (a dump, a constructor, a pair of role
and text). As messages they can be told from what the model's own spans show, so the rendering leaves out what repeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labeled_traces.json_values import decoded, get
from labeled_traces.trace import JSON, Span, SpanKind

_ROLES = {
    **dict.fromkeys(("human", "user", "HumanMessage", "HumanMessageChunk"), "user"),
    **dict.fromkeys(("ai", "assistant", "AIMessage", "AIMessageChunk"), "assistant"),
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage"), "tool"),
}
_STATES = (SpanKind.CHAIN, SpanKind.UNKNOWN, SpanKind.AGENT)
_COMMAND = {"graph", "update", "resume", "goto"}


def plain_span(span: Span) -> Span:
    """The span with LangChain's messages as messages; the very same if it has none."""
    if span.kind is SpanKind.TOOL:
        message = read_message(span.outputs)
        if message is None or message["role"] != "tool":
            return span
        failed = get(span.outputs, "status") == "error" or get(span.outputs, "data", "status") == "error"
        return replace(span, outputs=decoded(message["content"]), status="ERROR" if failed else span.status)
    if span.kind not in _STATES:
        return span
    inputs, outputs = _state(span.inputs), _state(span.outputs)
    if inputs is span.inputs and outputs is span.outputs:
        return span
    if span.kind is SpanKind.AGENT:
        inputs, outputs = _only_text(inputs, "user"), _only_text(_last(outputs), "assistant")
    return replace(span, inputs=inputs, outputs=outputs)


def read_message(value: JSON) -> dict[str, JSON] | None:
    """One message of LangChain's as `Span` has it; None if it is none."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], str):
        return {"role": _ROLES[value[0]], "content": value[1]} if value[0] in _ROLES else None
    if not isinstance(value, dict):
        return None
    kind, body = value.get("type"), value
    if kind == "constructor" and isinstance(value.get("kwargs"), dict) and isinstance(value.get("id"), list):
        kind, body = str(value["id"][-1:] and value["id"][-1]), value["kwargs"]
    elif isinstance(value.get("data"), dict):
        body = value["data"]
    elif "role" in value and kind is None:
        kind = value["role"]
    if not isinstance(kind, str) or kind not in _ROLES or "content" not in body:
        return None
    message: dict[str, JSON] = {"role": _ROLES[kind], "content": body["content"]}
    calls = body.get("tool_calls")
    if isinstance(calls, list) and calls:
        message["tool_calls"] = [_call(call) for call in calls]
    for key in ("tool_call_id", "name"):
        if isinstance(body.get(key), str):
            message[key] = body[key]
    return message


def _call(call: JSON) -> dict[str, JSON]:
    if not isinstance(call, dict):
        return {"id": None, "name": "", "arguments": call}
    function = call.get("function")
    held: Mapping[str, JSON] = function if isinstance(function, dict) else call
    arguments = held.get("args", held.get("arguments"))
    return {"id": call.get("id"), "name": str(held.get("name") or ""), "arguments": decoded(arguments)}


def _state(value: JSON) -> JSON:
    """A state, what a node changes of it, or calls that it hands out, with `messages`; else the very same value."""
    if isinstance(value, list):
        return _list(value)
    if not isinstance(value, dict):
        return value
    if value.keys() <= _COMMAND and "update" in value:
        changed = _state(value["update"])
        if changed is value["update"] and changed is not None:
            return value
        to = value.get("goto")
        found = changed if isinstance(changed, dict) else {}
        return {**found, "goto": to} if to else found or None
    messages = _messages(value.get("messages"))
    return value if messages is None else {**value, "messages": messages}


def _list(items: list[JSON]) -> JSON:
    if items and all(isinstance(item, dict) and {"name", "args"} <= item.keys() for item in items):
        return {"messages": [{"role": "assistant", "content": None, "tool_calls": [_call(item) for item in items]}]}
    messages = _messages(items)
    if messages is not None:
        return {"messages": messages}
    if len(items) == 1 and isinstance(items[0], dict):
        changed = _state(items[0])
        return items if changed is items[0] else changed
    return items


def _messages(value: JSON) -> list[JSON] | None:
    """A list of messages, or one that stands alone; None if it is neither."""
    alone = read_message(value)
    if alone is not None:
        return [alone]
    if not isinstance(value, list) or not value:
        return None
    messages = [read_message(item) for item in value]
    return None if None in messages else list(messages)


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
