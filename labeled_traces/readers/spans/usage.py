"""What a span says of its model, tokens and session, whatever its attributes speak (all nested, see `nest`)."""

from __future__ import annotations

from labeled_traces.json_values import get
from labeled_traces.trace import JSON

_COUNTS = {
    "prompt": (
        *("llm.token_count.prompt", "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        *("ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens"),
        "ai.observability.cost.num_prompt_tokens",
    ),
    "completion": (
        *("llm.token_count.completion", "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        *("ai.usage.outputTokens", "ai.usage.completionTokens", "ai.observability.cost.num_completion_tokens"),
    ),
    "total": (
        *("llm.token_count.total", "gen_ai.usage.total_tokens", "llm.usage.total_tokens", "ai.usage.totalTokens"),
        "ai.observability.cost.num_tokens",
    ),
}
_MODELS = (
    *("llm.model_name", "embedding.model_name", "reranker.model_name", "gen_ai.response.model", "ai.response.model"),
    *("gen_ai.request.model", "ai.model.id", "ai.observability.cost.model"),
)
_SESSIONS = (
    *("session.id", "gen_ai.conversation.id", "gcp.vertex.agent.session_id", "langfuse.session.id"),
    *("traceloop.association.properties.session_id", "ai.telemetry.metadata.sessionId"),
)


_ABOUT = {
    "llm.model_name": _MODELS,
    "session.id": _SESSIONS,
    "agent.name": ("agent.name", "gen_ai.agent.name", "agent_name"),
    "agent.description": ("agent.description", "gen_ai.agent.description"),
    "tool.description": ("tool.description", "gen_ai.tool.description"),
    "tool_call.id": ("tool_call.id", "gen_ai.tool.call.id", "ai.toolCall.id", "tool.id"),
}


def usage(attributes: JSON) -> dict[str, JSON]:
    """The attributes `llm.token_count` (prompt, completion, total: what is known), `llm.model_name`, `session.id`, and
    what tells agents, tools and their calls from others."""
    counts = {name: count for name, places in _COUNTS.items() if (count := _count(attributes, places)) is not None}
    found = {"llm.token_count": counts or None, **{key: _text(attributes, places) for key, places in _ABOUT.items()}}
    return {key: value for key, value in found.items() if value is not None}


def _count(attributes: JSON, places: tuple[str, ...]) -> int | None:
    for place in places:
        value = get(attributes, *place.split("."))
        if isinstance(value, str) and value.isdecimal() and len(value) < 16:
            value = int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
            return int(value)
    return None


def _text(attributes: JSON, places: tuple[str, ...]) -> str | None:
    values = (get(attributes, *place.split(".")) for place in places)
    return next((value for value in values if isinstance(value, str) and value), None)
