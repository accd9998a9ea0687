"""What OpenTelemetry's GenAI conventions (`gen_ai.*`) and Google's ADK (`gcp.vertex.agent.*`) record of a span."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from labeled_traces.readers.attributes import decoded, first, get, read_message
from labeled_traces.trace import JSON, SpanKind

_KINDS = {
    **dict.fromkeys(("chat", "text_completion", "generate_content"), SpanKind.LLM),
    **dict.fromkeys(("invoke_agent", "create_agent"), SpanKind.AGENT),
    "execute_tool": SpanKind.TOOL,
    "embeddings": SpanKind.EMBEDDING,
}
_ROLES = {"model": "assistant", "human": "user", "ai": "assistant"}


def genai_kind(attributes: JSON) -> SpanKind:
    """The kind that the operation's name says; ADK names none for its calls of a model. `attributes` are nested."""
    named = _KINDS.get(str(get(attributes, "gen_ai", "operation", "name")))
    if named is None and decoded(get(attributes, "gcp", "vertex", "agent", "llm_request")):
        return SpanKind.LLM
    return named or SpanKind.UNKNOWN


def genai_contents(attributes: JSON, kind: SpanKind) -> tuple[JSON, JSON]:
    """Inputs and outputs in the form that `Span` describes; None where nothing was recorded."""
    own, adk = get(attributes, "gen_ai"), get(attributes, "gcp", "vertex", "agent")
    if kind is SpanKind.TOOL:
        asked = first(get(own, "tool", "call", "arguments"), get(adk, "tool_call_args"), _value(attributes, "input"))
        given = first(get(own, "tool", "call", "result"), get(adk, "tool_response"), _value(attributes, "output"))
        return decoded(asked), decoded(given)
    request, response = decoded(get(adk, "llm_request")), decoded(get(adk, "llm_response"))
    asked = get(own, "input", "messages") or get(request, "contents") or get(own, "prompt")
    given = get(own, "output", "messages") or get(response, "content") or get(own, "completion")
    system = decoded(get(own, "system_instructions") or get(request, "config", "system_instruction"))
    tools = decoded(get(own, "tool", "definitions")) or _adk_tools(get(request, "config", "tools"))
    messages, answers = _messages(asked, "user"), _messages(given, "assistant")
    if system:
        messages = [*_messages({"role": "system", "parts": system}, "system"), *messages]
    inputs = {"messages": messages, **({"tools": tools} if tools else {})} if messages else None
    return inputs, {"messages": answers} if answers else None


def _value(attributes: JSON, side: str) -> JSON:
    value = get(attributes, side)
    return value if isinstance(value, str) else None


def _messages(value: JSON, role: str) -> list[JSON]:
    """Messages out of a list, one message, or a text."""
    value = decoded(value)
    items = value if isinstance(value, list) else [] if value in (None, "") else [value]
    raw = (item if isinstance(item, dict) else {"content": item} for item in items)
    return [message for item in raw for message in _split(item, role)]


def _split(raw: Mapping[str, JSON], role: str) -> Iterator[JSON]:
    """A message as `read_message` reads it. Of one with `parts` the results of tools and what a model thought before it
    answered are messages of their own."""
    name = str(raw.get("role") or role)
    name = _ROLES.get(name, name)
    parts = raw.get("parts")
    if parts is None:
        yield read_message({**raw, "role": name, "content": raw.get("content", raw.get("text"))})
        return
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[JSON] = []
    results: list[JSON] = []
    for part in parts if isinstance(parts, list) else [parts]:
        call = first(get(part, "function_call"), get(part, "functionCall"))
        result = first(get(part, "function_response"), get(part, "functionResponse"))
        if call is not None or get(part, "type") == "tool_call":
            call = first(call, part)
            arguments = call.get("arguments", call.get("args")) if isinstance(call, dict) else call
            calls.append({"id": get(call, "id"), "name": get(call, "name"), "arguments": decoded(arguments)})
        elif result is not None or get(part, "type") == "tool_call_response":
            given = first(get(first(result, part), "response"), get(part, "result"))
            results.append(read_message({"role": "tool", "content": _text(given)}))
        else:
            thought = get(part, "type") in ("reasoning", "thinking") or get(part, "thought") is True
            text = _text(first(get(part, "text"), get(part, "content"), part))
            (thoughts if thought else texts).append(text)
    yield from results
    if any(thoughts):
        yield read_message({"role": name, "content": "\n".join(["[reasoning]", *filter(None, thoughts)])})
    content = "\n".join(filter(None, texts)) or None
    if content is not None or calls or not (results or any(thoughts)):
        yield read_message({"role": name, "content": content, "tool_calls": calls})


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _adk_tools(value: JSON) -> list[JSON]:
    """Each declared function as a tool of its own."""
    groups = value if isinstance(value, list) else []
    found = [get(group, "function_declarations") or get(group, "functionDeclarations") for group in groups]
    return [tool for tools in found if isinstance(tools, list) for tool in tools]
