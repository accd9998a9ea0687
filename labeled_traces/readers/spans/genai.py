"""What OpenTelemetry's GenAI conventions (`gen_ai.*`), current and deprecated, say of a span; and what Google's ADK
(`gcp.vertex.agent.*`), OpenLLMetry (`traceloop.*`) and Pydantic AI add to them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from labeled_traces.json_values import decoded, first, get, rows_of
from labeled_traces.readers.spans.message_parts import conversation, messages_of
from labeled_traces.trace import JSON, SpanKind

_KINDS = {
    **dict.fromkeys(("chat", "text_completion", "generate_content"), SpanKind.LLM),
    **dict.fromkeys(("invoke_agent", "create_agent"), SpanKind.AGENT),
    "invoke_workflow": SpanKind.CHAIN,
    "execute_tool": SpanKind.TOOL,
    "embeddings": SpanKind.EMBEDDING,
    "retrieval": SpanKind.RETRIEVER,
}
_ENTITIES = {"workflow": SpanKind.CHAIN, "task": SpanKind.CHAIN, "agent": SpanKind.AGENT, "tool": SpanKind.TOOL}
_OWN = frozenset(("gen_ai", "gcp", "traceloop", "tool_arguments", "tool_response"))
"""Without these attributes, and without a text as `input` or `output`, nothing is said here of a span's contents."""
_AGENT_NAME = re.compile(r"(?:agent_run \[(?P<adk>[^\]]*)\]|(?:invoke|create)_agent (?P<genai>.+))", re.DOTALL)
_MESSAGE_EVENT = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message")
_CHOICE = "gen_ai.choice"
_WHOLE_EVENTS = ("gen_ai.client.inference.operation.details", "gen_ai.content.prompt", "gen_ai.content.completion")


def genai_kind(attributes: JSON, name: str = "") -> SpanKind:
    """The kind that the operation's name says. ADK names none for its calls of a model and its older agents, nor do
    instrumentations from before there were names. `attributes` are nested."""
    own = get(attributes, "gen_ai")
    named = _KINDS.get(str(get(own, "operation", "name"))) or _ENTITIES.get(
        str(get(attributes, "traceloop", "span", "kind"))
    )
    if named is not None:
        return named
    if _AGENT_NAME.fullmatch(name):
        return SpanKind.AGENT
    if get(own, "tool", "name") is not None and first(get(own, "tool", "call"), get(own, "operation")) is not None:
        return SpanKind.TOOL
    asked = decoded(get(attributes, "gcp", "vertex", "agent", "llm_request")) or get(own, "request", "model")
    return SpanKind.LLM if asked and get(own, "agent", "name") is None else SpanKind.UNKNOWN


def genai_name(attributes: JSON, kind: SpanKind, name: str) -> str:
    """The name of the tool or of the agent, where the span's own name says more than that."""
    if kind is SpanKind.TOOL:
        named = get(attributes, "gen_ai", "tool", "name")
        return named if isinstance(named, str) and named else name
    match = _AGENT_NAME.fullmatch(name) if kind is SpanKind.AGENT else None
    return name if match is None else str(match["adk"] or match["genai"] or name)


def with_events(attributes: dict[str, JSON], events: JSON) -> dict[str, JSON]:
    """The attributes, completed by the messages that stand in events of the span, or in log records about it."""
    asked: list[JSON] = []
    given: list[JSON] = []
    own = dict(get(attributes, "gen_ai") or {})
    for event in events if isinstance(events, list) else []:
        name, said = str(get(event, "name") or get(event, "Name")), get(event, "attributes")
        if name in _WHOLE_EVENTS:
            own = {**(get(said, "gen_ai") or {}), **own}
        elif match := _MESSAGE_EVENT.fullmatch(name):
            asked.append(_event_message(event, match[1]))
        elif name == _CHOICE:
            given.append(_event_message(event, "assistant"))
    if asked:
        own.setdefault("input", {"messages": asked})
    if given:
        own.setdefault("output", {"messages": given})
    return {**attributes, "gen_ai": own} if own else attributes


def _event_message(event: JSON, role: str) -> dict[str, JSON]:
    """The message of an event, which stands in its body, as JSON in one attribute, or in attributes of its own."""
    said = get(event, "attributes")
    body = first(decoded(get(event, "body")), decoded(get(said, "gen_ai", "event", "content")), said)
    message = decoded(first(get(body, "message"), body))
    if not isinstance(message, dict):
        return {"role": role, "content": message}
    kept = {key: message[key] for key in ("content", "parts", "name") if key in message}
    kept = {key: decoded(value) for key, value in kept.items()}
    calls = decoded(first(message.get("tool_calls"), get(body, "tool_calls")))
    return {
        **kept,
        "role": message.get("role") or role,
        "tool_calls": calls,
        "tool_call_id": message.get("id") if role == "tool" else None,
    }


def genai_contents(attributes: JSON, kind: SpanKind) -> tuple[JSON, JSON]:
    """Inputs and outputs in the form that `Span` describes; None where nothing was recorded."""
    if _OWN.isdisjoint(attributes) and not any(isinstance(attributes.get(side), str) for side in ("input", "output")):
        return None, None
    own, adk = get(attributes, "gen_ai"), get(attributes, "gcp", "vertex", "agent")
    entity = get(attributes, "traceloop", "entity")
    if kind is SpanKind.TOOL:
        asked = (get(own, "tool", "call", "arguments"), get(adk, "tool_call_args"), get(attributes, "tool_arguments"))
        given = (get(own, "tool", "call", "result"), get(adk, "tool_response"), get(attributes, "tool_response"))
        return (
            decoded(first(*asked, _text(attributes, "input"), _arguments(get(entity, "input")))),
            decoded(first(*given, _text(attributes, "output"), get(entity, "output"))),
        )
    if kind is SpanKind.RETRIEVER:
        return get(own, "retrieval", "query", "text"), decoded(get(own, "retrieval", "documents"))
    request, response = decoded(get(adk, "llm_request")), decoded(get(adk, "llm_response"))
    asked = get(own, "input", "messages") or get(request, "contents") or get(own, "prompt")
    given = get(own, "output", "messages") or get(response, "content") or get(own, "completion")
    system = decoded(get(own, "system_instructions") or get(request, "config", "system_instruction"))
    messages, answers = messages_of(asked, "user"), messages_of(given, "assistant")
    if system:
        messages = [*messages_of({"role": "system", "parts": system}, "system"), *messages]
    tools = list(_tools(attributes, request))
    return (
        first(conversation(messages, tools), decoded(get(entity, "input")), _text(attributes, "input")),
        first(conversation(answers), decoded(get(entity, "output")), _text(attributes, "output")),
    )


def _tools(attributes: JSON, request: JSON) -> Iterator[JSON]:
    """The schemas of the tools that a model or an agent was given."""
    places = (
        get(attributes, "gen_ai", "tool", "definitions"),
        get(attributes, "gen_ai", "request", "tools"),
        get(attributes, "llm", "request", "functions"),
        get(decoded(get(attributes, "model_request_parameters")), "function_tools"),
        get(request, "config", "tools"),
    )
    for tool in next(filter(None, map(rows_of, places)), []):
        declared = first(get(tool, "function_declarations"), get(tool, "functionDeclarations"))
        yield from declared if isinstance(declared, list) else [decoded(tool)]


def _arguments(value: JSON) -> JSON:
    """OpenLLMetry's input of a tool: its arguments stand in an envelope."""
    value = decoded(value)
    return first(get(value, "kwargs") or None, get(value, "inputs"), value)


def _text(attributes: JSON, side: str) -> JSON:
    value = get(attributes, side)
    return value if isinstance(value, str) else None
