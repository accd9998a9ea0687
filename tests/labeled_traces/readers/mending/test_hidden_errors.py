from __future__ import annotations

import pytest

from labeled_traces.readers.mending.hidden_errors import KIND, with_hidden_error
from labeled_traces.readers.mending.repair import build_trace
from labeled_traces.readers.report import ReadOptions
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import JSON, Span, SpanKind

_CALL = {"role": "tool", "name": "search"}


@pytest.mark.parametrize(
    "output",
    [
        {"status": "error", "error_message": "Unknown city"},  # Google's ADK
        {"content": [{"type": "text", "text": "no such file"}], "isError": True},  # MCP
        {"type": "tool", "content": "HTTP 429", "status": "error"},  # LangChain
        '{"type": "constructor", "kwargs": {"content": "x", "status": "error"}}',  # the same as LangChain stores it
        {"messages": [{**_CALL, "content": "Error: user not found"}]},
        {"error": "file not found", "status": "error"},  # OpenCode
        {"error": {"code": 404}},
        {"result": {"error": "rate limited"}},
        "Error: non-pending order cannot be modified",
        "ValueError: invalid literal for int()",
        "requests.exceptions.ConnectionError: refused",
        'Traceback (most recent call last):\n  File "x.py"',
        "Error executing tool search: timeout",
        [{"type": "text", "text": "Error: boom"}],
        '{"error": "inside a JSON text"}',
    ],
)
def test_an_output_that_is_an_error_makes_a_failed_span(output: JSON) -> None:
    assert with_hidden_error(Span("s", None, "search", SpanKind.TOOL, outputs=output, status="OK")).status == "ERROR"


@pytest.mark.parametrize(
    "output",
    [
        None,
        "",
        "No error was found: all tests passed.",
        "Errors: 0",
        "The Error: a novel",
        {"error": None, "rows": [1]},
        {"error": "", "rows": [1]},
        {"error": False},
        {"error": 0.02},
        {"status": "ok", "errors": 0},
        {"exit_code": 1, "stdout": ""},
        {"isError": False, "content": [{"type": "text", "text": "fine"}]},
        [{"error": "one of them failed"}, {"rows": 3}],
        {"log": "Error: in what the tool read"},
        {"title": "How to read Error: messages"},
        7,
    ],
)
def test_an_output_that_speaks_of_errors_makes_none(output: JSON) -> None:
    span = Span("s", None, "search", SpanKind.TOOL, outputs=output, status="OK")
    assert with_hidden_error(span) is span


def test_only_tools_hide_errors_and_each_is_counted() -> None:
    failed: JSON = {"error": "boom"}
    spans = [
        Span("a", None, "agent", SpanKind.AGENT, inputs="go", outputs=failed),
        Span("b", "a", "model", SpanKind.LLM, outputs=failed),
        Span("c", "a", "search", SpanKind.TOOL, outputs=failed),
        Span("d", "a", "search", SpanKind.TOOL, outputs=failed, status="ERROR"),
    ]
    options = ReadOptions(load_taxonomy("trail"))
    trace = build_trace("t", spans, "none", "here", options)
    assert [span.status for span in trace.spans] == ["UNSET", "UNSET", "ERROR", "ERROR"]
    assert options.report.counts[KIND] == 1
    assert options.report.examples[KIND] == ["here, span c"]


def test_a_nesting_without_end_is_no_error() -> None:
    value: JSON = {"error": "deep down"}
    for _ in range(5_000):
        value = {"result": value}
    assert with_hidden_error(Span("s", None, "t", SpanKind.TOOL, outputs=value)).status == "UNSET"
