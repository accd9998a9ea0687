"""A row as one line of OTLP/JSON (`{"resourceSpans": [...]}`), with the attributes of OpenInference.

OTLP has no place for labels: they are kept beside the trace, see `readers/mending/original.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.mending.original import ORIGINAL
from labeled_traces.trace import JSON, Span, SpanKind
from labeled_traces.writers.ids import HexIds
from labeled_traces.writers.spans import calls_of, conversation_of, json_text, written_spans

_SERVICE = "gpa-judges"
_INTERNAL = 1
_CODES = {"OK": 1, "ERROR": 2}


def record(row: LabeledTrace, ids: HexIds, kept: Mapping[str, str], labels: bool) -> dict[str, JSON]:
    """The trace as an `ExportTraceServiceRequest`. `kept`: as for MLflow; without `labels` what the caller keeps has
    none, and there is nothing else here that people said."""
    del labels
    spans = []
    for span, start, end in written_spans(row.trace):
        own = ids.spans[span.span_id]
        attributes = dict(_attributes(span))
        attributes |= {ORIGINAL: kept[own]} if own in kept else {}
        spans.append(
            {
                "traceId": ids.trace,
                "spanId": own,
                **({} if span.parent_id is None else {"parentSpanId": ids.spans[span.parent_id]}),
                "name": span.name,
                "kind": _INTERNAL,
                "startTimeUnixNano": str(start),
                "endTimeUnixNano": str(end),
                "attributes": _pairs(attributes),
                "events": _events(span, end),
                "status": _status(span),
            }
        )
    scope = {"scope": {"name": _SERVICE}, "spans": spans}
    resource = {"attributes": _pairs({"service.name": _SERVICE})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _attributes(span: Span) -> Iterator[tuple[str, JSON]]:
    for key, value in span.attributes.items():
        yield from _flat(key, value)
    yield "openinference.span.kind", str(span.kind)
    if span.kind is SpanKind.TOOL:
        yield "tool.name", span.name
    for side, name, value in (("input", "inputs", span.inputs), ("output", "outputs", span.outputs)):
        messages = conversation_of(value) if span.kind is SpanKind.LLM else None
        if messages is not None:
            for number, message in enumerate(messages):
                yield from _message(f"llm.{side}_messages.{number}.message", message)
            for number, tool in enumerate(value.get("tools") or () if name == "inputs" else ()):
                yield f"llm.tools.{number}.tool.json_schema", tool if isinstance(tool, str) else json_text(tool)
        if value is not None:  # beside messages too: it is what most viewers show
            is_text = isinstance(value, str)
            yield f"{side}.value", value if is_text else json_text(value)
            yield f"{side}.mime_type", "text/plain" if is_text else "application/json"


def _flat(key: str, value: JSON) -> Iterator[tuple[str, JSON]]:
    """An attribute as OpenTelemetry has it: mappings by dotted keys, lists as JSON."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flat(f"{key}.{name}", inner)
    elif isinstance(value, dict | list):
        yield key, json_text(value)
    elif value is not None:
        yield key, value


def _message(key: str, message: Mapping[str, JSON]) -> Iterator[tuple[str, JSON]]:
    yield f"{key}.role", message["role"]
    content = message.get("content")
    if content is not None:
        yield f"{key}.content", content if isinstance(content, str) else json_text(content)
    for name in ("name", "tool_call_id"):
        if isinstance(message.get(name), str):
            yield f"{key}.{name}", message[name]
    for number, (call_id, name, arguments) in enumerate(calls_of(message)):
        call = f"{key}.tool_calls.{number}.tool_call"
        if call_id is not None:
            yield f"{call}.id", str(call_id)
        yield f"{call}.function.name", name
        yield f"{call}.function.arguments", arguments


def _events(span: Span, end: int) -> list[JSON]:
    if span.error is None:
        return []
    said = _pairs({"exception.message": span.error})
    return [{"timeUnixNano": str(end), "name": "exception", "attributes": said}]


def _status(span: Span) -> dict[str, JSON]:
    code = _CODES.get(span.status)
    message = {"message": span.error} if span.error and span.status == "ERROR" else {}
    return {} if code is None else {"code": code, **message}


def _pairs(attributes: Mapping[str, JSON]) -> list[JSON]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: JSON) -> dict[str, JSON]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if -(2**63) <= value < 2**63 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": str(value)}
