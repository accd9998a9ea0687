"""Which model a span called and how many tokens it took, as `Span` has them from every source; and what attributes of
OpenTelemetry's dialects say of that, of sessions, agents and tools."""

from __future__ import annotations

from collections.abc import Mapping

from labeled_traces.json_values import at_names
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


_ROOTS = {place.partition(".")[0] for some in (_COUNTS, _ABOUT) for places in some.values() for place in places}


def model_attributes(counts: Mapping[str, JSON], *models: JSON) -> dict[str, JSON]:
    """The attributes `llm.token_count` and `llm.model_name` of a call of a model; without what is not known.

    Args:
        counts: see `token_counts`.
        models: names under which the source may have the model, the best first; the first text counts.
    """
    tokens = token_counts(counts)
    model = next((name for name in models if isinstance(name, str) and name), None)
    return {**({"llm.token_count": tokens} if tokens else {}), **({"llm.model_name": model} if model else {})}


def token_counts(counts: Mapping[str, JSON]) -> dict[str, int]:
    """The counts (`prompt`, `completion`, `total`) that are whole numbers, also as text or as 12.0. Where all are 0
    nobody counted: no model is called with nothing."""
    found = {name: number for name, value in counts.items() if (number := _whole(value)) is not None}
    return found if any(found.values()) else {}


def usage(attributes: JSON) -> dict[str, JSON]:
    """What nested attributes say: those of `model_attributes`, `session.id`, and what tells agents, tools and their
    calls from others. A count that is 0 stays: who exports spans leaves out what it does not know."""
    if _ROOTS.isdisjoint(attributes):
        return {}
    counts = {name: count for name, places in _COUNTS.items() if (count := _count(attributes, places)) is not None}
    found = {"llm.token_count": counts or None, **{key: _text(attributes, places) for key, places in _ABOUT.items()}}
    return {key: value for key, value in found.items() if value is not None}


def _count(attributes: JSON, places: tuple[str, ...]) -> int | None:
    counts = (_whole(value) for value in at_names(attributes, places))
    return next((count for count in counts if count is not None), None)


def _whole(value: JSON) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 16:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < 1e15 and value == value // 1 else None


def _text(attributes: JSON, places: tuple[str, ...]) -> str | None:
    return next((value for value in at_names(attributes, places) if isinstance(value, str) and value), None)
