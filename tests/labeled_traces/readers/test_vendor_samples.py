"""Recorded runs of observability products and agent frameworks: what was counted by hand in the raw files."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from judges.render import render
from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers import read, sniff
from labeled_traces.trace import SpanKind


class Counts(NamedTuple):
    """Counted in the raw file. `agents`: as the source names them, else the run itself. `tokens`: asked, answered, in
    all; None where none are recorded. `errors`: failed steps, also those whose status says nothing."""

    spans: int
    agents: int
    llm_calls: int
    tool_calls: int
    tokens: tuple[int, int, int] | None
    errors: int


BY_HAND = {
    "langfuse/autogen-2025-06-06.trace.json": Counts(2, 1, 1, 0, (41, 3, 44), 0),
    "langfuse/claude-agent-2025-12-22.trace.json": Counts(7, 1, 4, 2, (34, 232, 266), 0),
    "langfuse/google-adk-2025-08-28.trace.json": Counts(5, 1, 2, 1, (67, 9, 76), 0),
    "langfuse/langgraph-python-2025-08-22.trace.json": Counts(9, 1, 2, 1, (168, 66, 234), 0),
    "langfuse/openai-agents-2025-09-30.trace.json": Counts(5, 2, 2, 1, (140, 44, 184), 0),
    "langfuse/pydantic-ai-tools-2025-12-04.trace.json": Counts(12, 3, 4, 3, (1315, 209, 1524), 0),
    # The outer generation is the loop: what it says of tokens (57) is not what its only call took.
    "langfuse/vercel-aisdk-2025-11-17.trace.json": Counts(3, 1, 1, 1, (62, 85, 147), 0),
    # The tool that raised, the node around it, and the graph that died of it.
    "captured/langsmith_runs_langgraph.json": Counts(11, 1, 2, 3, None, 3),
    # 3 events of the model, 2 calls of a tool (one says status: error), the session around them.
    "captured/adk_session.json": Counts(6, 1, 3, 2, (30, 15, 45), 1),
    # 5 agents; 6 events of a model; 2 handovers.
    "adk/sample.session.json": Counts(13, 5, 6, 2, None, 0),
    "adk/successful_test.session.json": Counts(5, 1, 3, 1, None, 0),
    # 4 turns, each with what was asked and an answer; 1 + 1 + 4 + 1 tools used; the session around them.
    "adk/order_query.test.json": Counts(16, 1, 4, 7, None, 0),
    # A plan and 3 actions, each of which runs code once; the first time it fails.
    "captured/smolagents_memory_full_steps.json": Counts(8, 1, 4, 3, None, 1),
}
"""Sample -> what it holds."""

FORMATS = [
    ("langfuse/", "langfuse"),
    ("langsmith", "langsmith"),
    ("adk_session", "adk"),
    ("adk/", "adk"),
    ("smol", "smolagents"),
]
"""Part of a sample's name, its format."""

SHOWN = {
    "langfuse/autogen-2025-06-06.trace.json": ("Say 'Hello World!'", "You are a helpful AI assistant."),
    "langfuse/claude-agent-2025-12-22.trace.json": (
        *("What's the weather like in Berlin and New York?", "You are a friendly travel assistant"),
        *('mcp__weather__get_weather({"city": "Berlin"})', "Weather in New York: Sunny, 75°F"),
    ),
    "langfuse/google-adk-2025-08-28.trace.json": (
        *("[user] hi", "Always greet using the say_hello tool.", '[tools] [{"name": "say_hello"'),
        *("say_hello({})", '{"greeting": "Hello Langfuse 👋"}'),
    ),
    "langfuse/langgraph-python-2025-08-22.trace.json": (
        *("[user] Search the web for 'example' and summarize.", "Be helpful!", "Dummy web search tool."),
        *('Web-Search({"query": "example"})', '> {"query": "example"}', "primarily leads to the website"),
    ),
    "langfuse/openai-agents-2025-09-30.trace.json": (
        *("What's the weather in Tokyo?", "You are a helpful agent.", '"required": ["city"]'),
        *('get_weather({"city": "Tokyo"})', "The weather in Tokyo is sunny."),
    ),
    "langfuse/pydantic-ai-tools-2025-12-04.trace.json": (
        *("You are a creative joke writer.", "You are a joke critic.", "Get a pun-style joke suggestion"),
        *('get_pun_suggestion({"topic": "programming"})', "Pun idea: Play on words", "It has too many bugs!"),
    ),
    "langfuse/vercel-aisdk-2025-11-17.trace.json": (
        *("What is the weather like today in San Francisco?", "Get the weather in a location"),
        *('getWeather({"location": "San Francisco"})', '"temperature": 64'),
    ),
    "captured/adk_session.json": (
        *("Weather in München? 🌧️", 'get_weather({"city": "boom"})', "Unknown city", "It is rainy in München."),
    ),
    "adk/sample.session.json": (
        "factors that affect floods",
        "research_plan_agent",
        '"target_agent_name"',
        "## Flooding in",
    ),
    "adk/successful_test.session.json": (
        "Call tools",
        '"data_three"',
        "update data_one to be RRRR",
        "OK. I've updated",
    ),
    "adk/order_query.test.json": ("Send an email to user user_a", '{"order_id": "4"}', "has placed one order"),
    "captured/smolagents_memory_full_steps.json": (
        *("How long is the equator? 🌍", "You are an expert assistant", "1. Search radius.", "HTTP 404 Not Found"),
        *("r = web_search(query=", "Equatorial radius 6378.1 km", "40074.750358"),
    ),
    "captured/langsmith_runs_langgraph.json": (
        *("[user] How long is the equator? 🌍", "You are a careful agent.", '[tools] ["search", "calc"]'),
        *("Plan: 1) search 2) compute 3) answer", 'search({"query": "fail"})', "HTTP 429 rate limited", "40030.13978"),
    ),
}
"""Sample -> what a judge must see: goal, roles, tools with schemas, calls, results."""

ONCE = {
    "langfuse/google-adk-2025-08-28.trace.json": "Always greet using",
    "langfuse/langgraph-python-2025-08-22.trace.json": "Dummy web search tool",
    "langfuse/openai-agents-2025-09-30.trace.json": "You are a helpful agent.",
    "captured/langsmith_runs_langgraph.json": "Plan: 1)",
}
"""Sample -> what it repeats and a judge must see once."""


def counts(rows: list[LabeledTrace]) -> Counts:
    spans = [span for row in rows for span in row.trace.spans]
    kinds = [span.kind for span in spans]
    used = [span.attributes["llm.token_count"] for span in spans if "llm.token_count" in span.attributes]
    tokens = tuple(sum(each.get(key, 0) for each in used) for key in ("prompt", "completion", "total"))
    return Counts(
        spans=len(spans),
        agents=kinds.count(SpanKind.AGENT),
        llm_calls=kinds.count(SpanKind.LLM),
        tool_calls=kinds.count(SpanKind.TOOL),
        tokens=(tokens[0], tokens[1], tokens[2]) if used else None,
        errors=sum(span.status == "ERROR" for span in spans),
    )


@pytest.mark.parametrize("sample", BY_HAND)
def test_a_sample_holds_what_was_counted_by_hand(shared_data: Path, sample: str) -> None:
    rows, _ = read(shared_data / "formats" / sample)
    assert counts(list(rows)) == BY_HAND[sample]


@pytest.mark.parametrize("sample", BY_HAND)
def test_a_judge_sees_what_happened(shared_data: Path, sample: str) -> None:
    rows, _ = read(shared_data / "formats" / sample)
    text = "\n".join(render(row.trace, 100_000).text for row in rows)
    for wanted in SHOWN[sample]:
        assert wanted in text
    if sample in ONCE:
        assert text.count(ONCE[sample]) == 1


@pytest.mark.parametrize("sample", BY_HAND)
def test_the_format_of_a_sample_is_known_by_its_first_record(shared_data: Path, sample: str) -> None:
    assert sniff(shared_data / "formats" / sample) == next(name for part, name in FORMATS if part in sample)
