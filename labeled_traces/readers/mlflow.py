"""MLflow traces, as `Trace.to_dict` writes them: `{info, data: {spans}}`, with what people said in `info.assessments`.

Spans hold their inputs and outputs as JSON texts in attributes; span ids are base64 there and hex everywhere else, so
hex is what a Trace gets. Only spans get into a trace, never an assessment, a tag or a preview.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.attributes import decoded, get, nest, read_message
from labeled_traces.readers.fields import seconds, span_kind, status
from labeled_traces.readers.groups import task_group
from labeled_traces.readers.mlflow_labels import PREFIX, label
from labeled_traces.readers.original import ORIGINAL
from labeled_traces.readers.otel_span import error_text
from labeled_traces.readers.records import read_files
from labeled_traces.readers.repair import build_trace, canonical_id, mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError

_KINDS = {"CHAT_MODEL": SpanKind.LLM, "WORKFLOW": SpanKind.CHAIN, "TASK": SpanKind.CHAIN, "PARSER": SpanKind.CHAIN}
"""MLflow's span types that OpenInference calls something else."""
_TEXT_FIELDS = ("name", "inputs", "outputs", "error")


def role(record: JSON) -> str | None:
    """`traces` if this reader can read the record, else None."""
    known = isinstance(get(record, "info"), dict) and isinstance(get(record, "data", "spans"), list)
    return "traces" if known else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs, labelled with the people's assessments that stand in the trace.

    Records that cannot be read are left out.
    """
    for where, record in read_files(paths, options.report):
        try:
            row = read_row(record, where, options)
        except TraceError as error:
            options.report.leave_out(error)
            continue
        yield where, row


def read_row(record: JSON, where: str, options: ReadOptions, prefix: str = PREFIX) -> LabeledTrace:
    """The trace with what people said about it under names that begin with `prefix`. Raises as `read_trace`."""
    trace = read_trace(record, where, options)
    assessments = record["info"].get("assessments") or []
    return replace(label(trace, assessments, where, options, prefix), group=task_group(trace))


def read_trace(record: JSON, where: str, options: ReadOptions) -> Trace:
    """What the agent did, and nothing that anybody said about it.

    Raises:
        TraceError: not a trace of MLflow, or one without spans.
    """
    if role(record) is None:
        raise TraceError(f"{where}: not an MLflow trace: accepted is {{info, data: {{spans}}}}")
    info, spans = record["info"], record["data"]["spans"]
    trace_id = info.get("trace_id") or info.get("request_id")
    if not isinstance(trace_id, str) or not trace_id.strip():
        raise TraceError(f"{where}, info.trace_id: is missing: accepted is any non-empty text")
    if not spans or not all(isinstance(span, dict) for span in spans):
        raise TraceError(f"{where}, data.spans: accepted is a list with at least one span")
    return build_trace(trace_id.strip(), [_span(span, where, options) for span in spans], "hex", where, options)


def _span(item: Mapping[str, JSON], where: str, options: ReadOptions) -> Span:
    span_id = _hex(item.get("span_id"))
    place = f"{where}, span {span_id or '(no id)'}"
    raw = item.get("attributes")
    attributes = {key: _value(value) for key, value in raw.items()} if isinstance(raw, dict) else {}
    name = str(attributes.get("mlflow.spanType") or "")
    kind = _KINDS.get(name.upper()) or span_kind(name)
    inputs, outputs = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    if kind is SpanKind.LLM:
        inputs, outputs = _asked(inputs, attributes.get("mlflow.chat.tools")), _answered(outputs)
    code = status(get(item, "status", "code"))
    described = nest({"events": item.get("events"), "status.message": get(item, "status", "message")})
    span = Span(
        span_id=span_id,
        parent_id=_hex(item.get("parent_span_id")) or None,
        name=str(item.get("name") or ""),
        kind=kind,
        start=seconds(item.get("start_time_unix_nano")),
        end=seconds(item.get("end_time_unix_nano")),
        inputs=inputs,
        outputs=outputs,
        status=code,
        error=error_text(described, code),
        attributes={ORIGINAL: attributes[ORIGINAL]} if ORIGINAL in attributes else {},
    )
    return replace(span, **{key: mend_value(getattr(span, key), f"{place}, {key}", options) for key in _TEXT_FIELDS})


def _hex(value: JSON) -> str:
    """16 hex digits stay, though base64 could be written so as well: eight bytes in base64 are 12 characters."""
    text = value.strip() if isinstance(value, str) else ""
    return text.lower() if re.fullmatch(r"(?i)[0-9a-f]{16}", text) else canonical_id(text, "base64")


def _value(value: JSON) -> JSON:
    """An attribute, which MLflow writes as JSON; what is none is text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _asked(inputs: JSON, tools: JSON) -> JSON:
    messages = _messages(get(inputs, "messages") if isinstance(inputs, dict) else inputs)
    if messages is None:
        return inputs
    schemas = tools or get(inputs, "tools")
    return {"messages": messages, **({"tools": schemas} if isinstance(schemas, list) and schemas else {})}


def _answered(outputs: JSON) -> JSON:
    choices = get(outputs, "choices")
    given = [get(choice, "message") for choice in choices] if isinstance(choices, list) else get(outputs, "messages")
    messages = _messages(given if given is not None else [outputs])
    return outputs if messages is None else {"messages": messages}


def _messages(value: JSON) -> list[JSON] | None:
    """Chat messages as `Span` has them; None where the value is no list of such."""
    rows = decoded(value)
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and isinstance(row.get("role"), str) for row in rows
    ):
        return None
    return [read_message(row) for row in rows]
