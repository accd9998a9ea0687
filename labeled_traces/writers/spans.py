"""What both forms write alike: texts that can be written, times, messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from fractions import Fraction

from labeled_traces.readers.mending.original import without_original
from labeled_traces.readers.mending.repair import mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.taxonomy import Taxonomy
from labeled_traces.trace import JSON, Span, Trace

NANOSECONDS = 10**9


def written_spans(trace: Trace) -> Iterator[tuple[Span, int, int]]:
    """(span, start, end): with texts that any reader takes and times in nanoseconds, in the trace's order.

    A start that is not known is that of the span before it, an end that is not known is the start.
    """
    options = ReadOptions(Taxonomy("none", {}, {}))
    start = min((span.start for span in trace.spans if span.start is not None), default=0.0)
    for span in trace.spans:
        plain = without_original(span)
        texts = {one.name: getattr(plain, one.name) for one in fields(Span) if one.name not in _NO_TEXT}
        start = start if span.start is None else span.start
        end = start if span.end is None else span.end
        yield replace(plain, **mend_value(texts, "", options)), _nano(start), _nano(max(start, end))


_NO_TEXT = ("span_id", "parent_id", "kind", "start", "end")


def _nano(seconds: float) -> int:
    """Without the rounding of a product of floats, which would move times by some hundred nanoseconds."""
    return max(0, round(Fraction(seconds) * NANOSECONDS))


def conversation_of(value: JSON) -> list[Mapping[str, JSON]] | None:
    """The messages of an LLM span's inputs or outputs, None where it has none."""
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list) or not messages:
        return None
    return messages if all(isinstance(m, dict) and isinstance(m.get("role"), str) for m in messages) else None


def calls_of(message: Mapping[str, JSON]) -> list[tuple[JSON, str, str]]:
    """(id, name, arguments as JSON text) of a message's calls of tools."""
    calls = message.get("tool_calls")
    found = []
    for call in calls if isinstance(calls, list) else []:
        called = call.get("function", call) if isinstance(call, dict) else {}
        called = called if isinstance(called, dict) else {}
        arguments = called.get("arguments")
        text = arguments if isinstance(arguments, str) else json_text(arguments)
        found.append((call.get("id") if isinstance(call, dict) else None, str(called.get("name") or ""), text))
    return found


def json_text(value: JSON) -> str:
    """A value as JSON text. Raises: TypeError, ValueError, a value that JSON does not have (NaN, a set ...)."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
