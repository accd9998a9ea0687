"""What the readers find in recorded spans; `test_samples` holds what was counted in them by hand."""

from __future__ import annotations

from pathlib import Path

from judges.render import render
from labeled_traces.readers import read
from labeled_traces.trace import Span, SpanKind


def spans_of(path: Path) -> list[Span]:
    return [span for row in read(path)[0] for span in row.trace.spans]


def test_one_call_in_three_dialects_is_one_call(shared_data: Path) -> None:
    names = [f"{name}_client_span_tool_calls.json" for name in ("openinference", "otel_genai", "otel_genai_deprecated")]
    calls = [spans_of(shared_data / "formats" / "openinference" / name)[0] for name in names]
    assert [call.attributes["llm.model_name"] for call in calls] == ["gpt-4-0613"] * 3
    said = [[(m["role"], m["content"], m.get("tool_calls")) for m in call.inputs["messages"]] for call in calls]
    assert said[0] == said[1] == said[2]
    assert [call.outputs for call in calls] == [calls[0].outputs] * 3


def test_google_adk_says_its_goal_answer_and_session(shared_data: Path) -> None:
    (row,), _ = read(shared_data / "formats" / "captured" / "google_adk_otlp_json.json")
    (agent,) = [span for span in row.trace.spans if span.kind is SpanKind.AGENT]
    assert (agent.name, agent.inputs) == ("weather_agent", "Weather in M\u00fcnchen? \U0001f327\ufe0f")
    assert agent.outputs == "It is rainy in M\u00fcnchen."
    assert row.metadata["session"] == "41024b4d-0824-472b-8dd4-51bfd92f5392"


def test_smolagents_without_calls_of_a_model_shows_its_tools(shared_data: Path) -> None:
    (row,), _ = read(shared_data / "formats" / "captured" / "smolagents_openinference_readablespan.jsonl")
    agent = row.trace.roots[0]
    assert agent.inputs["messages"] == [{"role": "user", "content": "How long is the equator? \U0001f30d"}]
    search, answer = agent.inputs["tools"]
    assert (search["name"], search["description"]) == ("web_search", "Search the web.")
    assert search["parameters"] == {"query": {"type": "string", "description": "the query"}}
    assert answer["name"] == "final_answer"
    assert "ActionStep" not in render(row.trace, 100_000).text


def test_trulens_keeps_the_answer_and_the_metrics_apart(shared_data: Path) -> None:
    (row,), report = read(shared_data / "formats" / "trulens")
    assert row.trace_id == "38285552113882235753580066402372722435"
    assert [(span.span_id, span.parent_id, str(span.kind)) for span in row.trace.spans] == [
        ("12203920175536650289", None, "AGENT"),
        ("5107167242136132510", "12203920175536650289", "RETRIEVER"),
        ("1753680176729768885", "12203920175536650289", "LLM"),
    ]
    root, search, answer = row.trace.spans
    assert root.inputs == "What is the best coffee?"
    assert root.outputs == answer.outputs
    assert search.inputs == {"query": "What is the best coffee?"}
    assert len(search.outputs) == 4
    assert row.reference == "Like attention but with more heads."
    assert sorted(said["score"] for said in row.metadata["evaluations"]) == [0.5, 0.75, 1]
    assert "more heads" not in render(row.trace, 100_000).text
    assert report.stripped == {"ai.observability.eval": 3, "ai.observability.record_root.ground_truth_output": 1}
