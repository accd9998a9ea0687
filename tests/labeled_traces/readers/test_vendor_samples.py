"""Recorded runs of observability products and agent frameworks: what a judge must see of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from judges.render import render
from labeled_traces.readers import read

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


@pytest.mark.parametrize("sample", SHOWN)
def test_a_judge_sees_what_happened(shared_data: Path, sample: str) -> None:
    rows, _ = read(shared_data / "formats" / sample)
    text = "\n".join(render(row.trace, 100_000).text for row in rows)
    for wanted in SHOWN[sample]:
        assert wanted in text
    if sample in ONCE:
        assert text.count(ONCE[sample]) == 1
