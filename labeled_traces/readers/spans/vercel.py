"""What Vercel's AI SDK (`ai.*`) says of a span."""

from __future__ import annotations

from labeled_traces.json_values import decoded, decoded_scalar, first, get
from labeled_traces.readers.spans.message_parts import conversation, messages_of
from labeled_traces.trace import JSON, SpanKind

_CALLS = ("generateText", "streamText", "generateObject", "streamObject")


def vercel_kind(attributes: JSON) -> SpanKind:
    """`ai.generateText` runs the loop of an agent around its calls of a model (`.doGenerate`) and of tools."""
    _, _, operation = str(get(attributes, "ai", "operationId")).partition("ai.")
    name, _, inner = operation.partition(".")
    if name in _CALLS:
        return SpanKind.LLM if inner else SpanKind.AGENT
    return {"toolCall": SpanKind.TOOL, "embed": SpanKind.EMBEDDING, "embedMany": SpanKind.EMBEDDING}.get(
        name, SpanKind.UNKNOWN
    )


def vercel_contents(attributes: JSON, kind: SpanKind) -> tuple[JSON, JSON]:
    """Inputs and outputs in the form that `Span` describes; None where nothing was recorded."""
    own = get(attributes, "ai")
    if own is None:
        return None, None
    if kind is SpanKind.TOOL:
        return decoded(get(own, "toolCall", "args")), decoded(get(own, "toolCall", "result"))
    if kind is SpanKind.EMBEDDING:
        values = [decoded_scalar(value) for value in get(own, "values") or ()]
        return first(decoded_scalar(get(own, "value")), values or None), _vectors(own)
    prompt, response = get(own, "prompt"), get(own, "response")
    asked, tools = get(prompt, "messages"), get(prompt, "tools")
    outer = decoded(get(prompt, "") if isinstance(prompt, dict) else prompt)
    messages = messages_of(first(asked, get(outer, "messages"), get(outer, "prompt")), "user")
    if get(outer, "system"):
        messages.insert(0, {"role": "system", "content": outer["system"]})
    given = first(get(response, "text"), get(response, "object"))
    calls = decoded(get(response, "toolCalls"))
    parts = [{"type": "reasoning", "text": get(response, "reasoning")}] if get(response, "reasoning") else []
    answers: list[JSON] = []
    if given is not None or calls or parts:
        texts = [{"type": "text", "text": given}] if given else []
        named = [{**call, "type": "tool-call"} for call in calls or () if isinstance(call, dict)]
        answers = messages_of({"role": "assistant", "parts": [*parts, *texts, *named]}, "assistant")
    schemas = [decoded(tool) for tool in tools] if isinstance(tools, list) else []
    return conversation(messages, schemas), conversation(answers)


def _vectors(own: JSON) -> JSON:
    """How many vectors came out; their numbers tell a reader nothing."""
    vectors = first(get(own, "embeddings"), [value] if (value := get(own, "embedding")) is not None else None)
    sizes = {len(vector) for item in vectors or () if isinstance(vector := decoded(item), list)}
    return f"[{len(vectors)} x vector of {'/'.join(map(str, sorted(sizes)))} numbers]" if sizes else None
