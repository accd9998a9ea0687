"""All recorded runs that the readers are tried on: what was counted by hand in the raw files, and one run recorded
several times."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from judges.render import render
from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers import READERS, read, sniff
from labeled_traces.trace import Span, SpanKind, TraceError


class Counts(NamedTuple):
    """Counted in the raw file. `agents`: as the source names them, else the run itself. `tokens`: asked and answered,
    of all calls of a model. `errors`: failed steps, also those whose status says nothing."""

    format: str
    traces: int
    spans: int
    agents: int
    llm_calls: int
    tool_calls: int
    tokens: tuple[int, int]
    errors: int


def of(format: str, *counts: int, tokens: tuple[int, int] = (0, 0), errors: int = 0, traces: int = 1) -> Counts:
    spans, agents, llm_calls, tool_calls = counts
    return Counts(format, traces, spans, agents, llm_calls, tool_calls, tokens, errors)


NONE = (0, 0)
CAPTURED = {
    f"captured/{run}_{form}": of(format, *counts, tokens=tokens, errors=errors)
    for form, format in (
        ("otlp_json.json", "otlp"),
        ("otlp_protojson.json", "otlp"),
        ("readablespan.jsonl", "openinference"),
    )
    for run, counts, tokens, errors in (
        ("google_adk", (7, 1, 3, 2), (30, 15), 1),  # a tool that says `status: error`
        (
            "openinference_langgraph",
            (11, 1, 2, 3),
            NONE,
            3,
        ),  # the tool that raised, its node, the graph that died of it
        ("smolagents_openinference", (7, 1, 0, 3), NONE, 2),  # the tool and its step
    )
}
BY_HAND = {
    **CAPTURED,
    "captured/mlflow_langgraph_autolog.json": of("mlflow", 11, 1, 2, 3, errors=3),
    "captured/langsmith_runs_langgraph.json": of("langsmith", 11, 1, 2, 3, errors=3),
    # A tool's output is `error`, its status OK; another still runs.
    "captured/opencode_mlflow_SIMULATED.json": of("mlflow", 7, 1, 2, 4, tokens=(2700, 60), errors=1),
    # 3 events of the model, 2 calls of a tool (one says status: error), the session around them.
    "captured/adk_session.json": of("adk", 6, 1, 3, 2, tokens=(30, 15), errors=1),
    # A plan and 3 actions, each of which runs code once; the first time it fails.
    "captured/smolagents_memory_full_steps.json": of("smolagents", 8, 1, 4, 3, errors=1),
    # 5 agents; 6 events of a model; 2 handovers.
    "adk/sample.session.json": of("adk", 13, 5, 6, 2),
    "adk/successful_test.session.json": of("adk", 5, 1, 3, 1),
    # 4 turns, each with what was asked and an answer; 1 + 1 + 4 + 1 tools used; the session around them.
    "adk/order_query.test.json": of("adk", 16, 1, 4, 7),
    "langfuse/autogen-2025-06-06.trace.json": of("langfuse", 2, 1, 1, 0, tokens=(41, 3)),
    "langfuse/claude-agent-2025-12-22.trace.json": of("langfuse", 7, 1, 4, 2, tokens=(34, 232)),
    "langfuse/google-adk-2025-08-28.trace.json": of("langfuse", 5, 1, 2, 1, tokens=(67, 9)),
    "langfuse/langgraph-python-2025-08-22.trace.json": of("langfuse", 9, 1, 2, 1, tokens=(168, 66)),
    "langfuse/openai-agents-2025-09-30.trace.json": of("langfuse", 5, 2, 2, 1, tokens=(140, 44)),
    "langfuse/pydantic-ai-tools-2025-12-04.trace.json": of("langfuse", 12, 3, 4, 3, tokens=(1315, 209)),
    # The outer generation is the loop: what it says of tokens (57) is not what its only call took.
    "langfuse/vercel-aisdk-2025-11-17.trace.json": of("langfuse", 3, 1, 1, 1, tokens=(62, 85)),
    # 4 calls with the span around each, which repeats its tokens; an embedding and the span around it.
    "openinference/all-spans.json": of("openinference", 10, 4, 4, 0, tokens=(142, 297), traces=10),
    **{
        f"openinference/{name}_client_span_tool_calls.json": of("openinference", 1, 0, 1, 0, tokens=(97, 52))
        for name in ("openinference", "otel_genai", "otel_genai_deprecated")
    },
    "openinference/otel_genai_tool_execution_span.json": of("openinference", 1, 0, 0, 1),
    "trulens": of("trulens", 3, 1, 1, 0, tokens=(336, 93)),
    "trulens/record_root_span.json": of("trulens", 1, 1, 0, 0),
    "trulens/generation_span.json": of("trulens", 1, 0, 1, 0, tokens=(336, 93)),
    "trulens/retrieval_span.json": of("trulens", 1, 0, 0, 0),
    # 15 runs: 278 turns of the assistant with 168 calls, 125 of the user and 15 prompts; 7 results say `Error: ...`.
    "../agentrx_tau/failed_runs.json": of("agentrx", 15 + 278 + 168 + 125 + 15, 15, 278, 168, errors=7, traces=15),
    "../agentrx_tau/passed_runs.json": of("agentrx", 37 + 489 + 267 + 259 + 37, 37, 489, 267, errors=10, traces=37),
    "../agentrx_tau": of("agentrx", 601 + 1089, 52, 767, 435, errors=17, traces=52),
}
"""Sample -> what it holds."""

NO_TRACE = {
    **dict.fromkeys(
        (f"trulens/eval_{part}.json" for part in ("root_span", "span_1", "span_2")),
        r"holds no trace: what is there is kept from the judges \(ai\.observability\.eval\)",
    ),
    "trulens/template_record_root_span.json": r"not JSON \(.*line 14 column 42",
    "trulens/test_smoke.json": r"no known format in its first record \(keys: app, app_extra_json, .*\): accepted are",
    "../agentrx_tau/ground_truth.json": "holds labels, no traces",
}
"""Sample -> what is said of it."""


def spans_of(rows: list[LabeledTrace], kind: SpanKind) -> list[Span]:
    return [span for row in rows for span in row.trace.spans if span.kind is kind]


def counts(path: Path) -> Counts:
    rows = list(read(path)[0])
    models = spans_of(rows, SpanKind.LLM)
    used = [span.attributes.get("llm.token_count", {}) for span in models]
    return Counts(
        format=sniff(path),
        traces=len(rows),
        spans=sum(len(row.trace.spans) for row in rows),
        agents=len(spans_of(rows, SpanKind.AGENT)),
        llm_calls=len(models),
        tool_calls=len(spans_of(rows, SpanKind.TOOL)),
        tokens=(sum(one.get("prompt", 0) for one in used), sum(one.get("completion", 0) for one in used)),
        errors=sum(span.status == "ERROR" for row in rows for span in row.trace.spans),
    )


@pytest.fixture(scope="module")
def samples(shared_data: Path) -> Path:
    return shared_data / "formats"


@pytest.mark.parametrize("sample", BY_HAND)
def test_a_sample_holds_what_was_counted_by_hand(samples: Path, sample: str) -> None:
    assert counts((samples / sample).resolve()) == BY_HAND[sample]


@pytest.mark.parametrize("sample", NO_TRACE)
def test_a_file_without_a_trace_says_so(samples: Path, sample: str) -> None:
    with pytest.raises(TraceError, match=rf"{re.escape(Path(sample).name)}.*{NO_TRACE[sample]}"):
        read(samples / sample)


def test_every_sample_was_counted(samples: Path) -> None:
    folders = (samples, samples.parent / "agentrx_tau")
    files = {file.resolve() for folder in folders for file in folder.rglob("*.json*")}
    known = {(samples / name).resolve() for name in (*BY_HAND, *NO_TRACE)}
    assert {str(file.relative_to(samples.parent.resolve())) for file in files - known} == set()
    assert {path for path in known if path.is_file()} <= files


def test_all_samples_at_once_are_read_one_format_at_a_time(samples: Path) -> None:
    formats = {counted.format for name, counted in BY_HAND.items() if not name.startswith("..")}
    with pytest.raises(TraceError, match=r"accepted is one format at a time: .* or --format NAME") as error:
        read(samples)
    assert all(f".json is {name}" in str(error.value) for name in formats - {"openinference"})
    assert "readablespan.jsonl is openinference" in str(error.value)
    ids = {name: {row.trace_id for row in read(samples, name)[0]} for name in READERS if name in formats}
    ones = [name for name, counted in BY_HAND.items() if not name.startswith("..")]
    for format, found in ids.items():
        alone = (read(samples / name)[0] for name in ones if BY_HAND[name].format == format)
        assert found == {row.trace_id for data in alone for row in data}


def one(samples: Path, name: str) -> LabeledTrace:
    (row,) = read(samples / "captured" / name)[0]
    return row


def shown(row: LabeledTrace) -> str:
    """As a judge sees it, with spans numbered in their order: each recorder gives them ids of its own."""
    text = render(row.trace, 100_000).text
    for number, span in enumerate(row.trace.spans):
        text = text.replace(span.span_id, f"#{number}")
    return text


@pytest.mark.parametrize("run", ["google_adk", "openinference_langgraph", "smolagents_openinference"])
def test_one_run_in_three_exports_is_one_trace(samples: Path, run: str) -> None:
    names = [f"{run}_{form}" for form in ("readablespan.jsonl", "otlp_json.json", "otlp_protojson.json")]
    rows = [one(samples, name) for name in names]
    assert len({row.trace.content_hash for row in rows}) == 1
    assert len({(row.trace_id, row.group) for row in rows}) == 1
    assert len({render(row.trace, 100_000).text for row in rows}) == 1


def test_one_graph_by_three_recorders_differs_only_in_what_they_know_of_tools(samples: Path) -> None:
    """OpenInference, MLflow and LangSmith each recorded a run of the same LangGraph agent. The tools' descriptions are
    in OpenInference's spans alone."""
    openinference = shown(one(samples, "openinference_langgraph_otlp_json.json"))
    mlflow, langsmith = (
        shown(one(samples, name)) for name in ("mlflow_langgraph_autolog.json", "langsmith_runs_langgraph.json")
    )
    described = '[tools] [{"name": "search", "description": "Search the web."}, {"name": "calc", '
    described += '"description": "Evaluate."}]'
    assert openinference.count(described) == 1
    assert mlflow == langsmith
    assert openinference.replace(described, '[tools] ["search", "calc"]') == mlflow


def test_a_session_of_adk_knows_no_prompt_and_no_tools(samples: Path) -> None:
    """The spans hold each request to the model; the session holds what was said and done. The rest is the same."""
    spans, session = shown(one(samples, "google_adk_otlp_json.json")), shown(one(samples, "adk_session.json"))
    same = [line for line in session.splitlines() if not line.startswith("@span")]
    rest = spans.splitlines()
    for line in same:
        rest.remove(line)
    more = [line for line in rest if not line.startswith("@span")]
    assert more[0].startswith('> [tools] [{"description": "Get weather.", "name": "get_weather", "parameters": ')
    assert more[1:] == [
        *("> [system] Answer weather questions.", "> ", '> You are an agent. Your internal name is "weather_agent".'),
        '> [tool "get_weather"] {"status": "success", "report": "rain — 7°C"}',
        '> [tool "get_weather"] {"status": "error", "error_message": "Unknown city"}',
    ]
    heads = [
        [re.sub(r"#\d+|call_llm|weather_agent", "_", line) for line in text.splitlines() if "@span" in line]
        for text in (spans, session)
    ]
    assert heads[0] == heads[1]


def test_the_spans_of_smolagents_know_no_call_of_a_model_and_its_memory_no_tool(samples: Path) -> None:
    """A model that is defined after the instrumentation leaves no spans, and neither does the plan; the memory holds
    both, with the prompts, and the code that calls the tools instead of their calls."""
    spans, memory = (
        one(samples, name) for name in ("smolagents_openinference_otlp_json.json", "smolagents_memory_full_steps.json")
    )
    assert not spans_of([spans], SpanKind.LLM)
    assert [span.name for span in spans_of([spans], SpanKind.TOOL)] == ["web_search", "web_search", "final_answer"]
    assert {span.name for span in spans_of([memory], SpanKind.TOOL)} == {"python_interpreter"}
    texts = shown(spans), shown(memory)
    for said in ("How long is the equator? 🌍", "HTTP 404 Not Found", "Equatorial radius 6378.1 km", "40074.750358"):
        assert [said in text for text in texts] == [True, True]
    for said in ("1. Search radius.", "You are an expert assistant", "final_answer(2*3.14159*6378.1)"):
        assert [said in text for text in texts] == [False, True]
    assert [str(row.trace.roots[0].outputs) for row in (spans, memory)] == ["40074.750358"] * 2
