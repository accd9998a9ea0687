"""Errors that a framework hid in what a tool gave back: the span's status says nothing or OK, its output says `error`.

An output says so in one of the ways that frameworks and tools have for it: a mapping with an error in it, a status or a
flag of failure (MCP's `isError`, LangChain's `status`), or a text that begins as an error or a stack trace does. A word
somewhere in a text is none, nor is an exit code: `grep` returns 1 where it finds nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace

from labeled_traces.json_values import decoded
from labeled_traces.trace import JSON, Span, SpanKind

KIND = "error inside the output of a span that did not fail, now of status ERROR"
_TOOLS = (SpanKind.TOOL, SpanKind.RETRIEVER)
_ERROR_KEYS = ("error", "error_message", "errorMessage", "exception")
_FLAGS = ("isError", "is_error")
_FAILED = ("error", "failed", "failure")
_INSIDE = ("content", "result", "output", "response", "messages", "text", "value", "kwargs", "update")
"""Where an output stands in the envelope that a framework put around it."""
_TEXT = re.compile(
    r"\s*(?:Tool )?(?:<error>|Traceback \(most recent call last\)|Error (?:executing|invoking|calling) tool\b"
    r"|\[?(?:[A-Za-z_][\w.]*)?(?:Error|Exception|ERROR)\]?\s*:)"
)
_DEEPEST = 6


def with_hidden_error(span: Span) -> Span:
    """The span with status ERROR if it is a tool's and its output is an error; else the very same."""
    if span.kind not in _TOOLS or span.status == "ERROR" or not _is_error(span.outputs):
        return span
    return replace(span, status="ERROR")


def _is_error(value: JSON, depth: int = 0) -> bool:
    """Whether an output is an error as a whole. One that failed among several results is no failure of the tool."""
    value = decoded(value)
    if isinstance(value, str):
        return _TEXT.match(value) is not None
    if depth == _DEEPEST:
        return False
    if isinstance(value, list):
        return len(value) == 1 and _is_error(value[0], depth + 1)
    if not isinstance(value, dict):
        return False
    return (
        any(value.get(key) is True for key in _FLAGS)
        or any(isinstance(value.get(key), str | dict) and bool(value[key]) for key in _ERROR_KEYS)
        or str(value.get("status")).lower() in _FAILED
        or any(_is_error(value[key], depth + 1) for key in _INSIDE if key in value)
    )
