"""MLflow traces, as `Trace.to_dict` writes them: `{info, data: {spans}}`, with what people said in `info.assessments`;
or rows of the table that `search_traces` gives.

Spans hold their inputs and outputs as JSON texts in attributes; span ids are base64 there and hex everywhere else, so
hex is what a Trace gets. Only spans get into a trace, never an assessment, a tag or a preview. Whoever wrote them,
MLflow's own tracing, its autologging of LangChain and LangGraph, its plugin for OpenCode or its OTLP endpoint, they are
read by what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import get, text_of
from labeled_traces.readers.files.records import read_each, read_files
from labeled_traces.readers.labels.mlflow import PREFIX, label
from labeled_traces.readers.mending.repair import build_trace, mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.mlflow import read_spans
from labeled_traces.readers.spans.mlflow_table import is_row, is_trace, trace_of
from labeled_traces.task_group import task_group
from labeled_traces.trace import JSON, Trace, TraceError

_SESSION = "mlflow.trace.session"
_ANSWERS = ("expected_response", "expected_answer", "expected_output", "ground_truth", "answer")
"""Names under which an expectation is the answer itself."""


def role(record: JSON) -> str | None:
    """`traces` if this reader can read the record, else None."""
    return "traces" if is_trace(record) or is_row(record) else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs, labelled with the people's assessments that stand in the trace.

    Records that cannot be read are left out.
    """

    def row(record: JSON, where: str) -> LabeledTrace:
        return read_row(trace_of(record), where, options)

    yield from read_each(read_files(paths, options.report), row, options.report)


def read_row(record: JSON, where: str, options: ReadOptions, prefix: str = PREFIX) -> LabeledTrace:
    """The trace with what people said about it under names that begin with `prefix`. Raises as `read_trace`."""
    trace = read_trace(record, where, options)
    assessments = record["info"].get("assessments") or []
    if not isinstance(assessments, list) or not all(isinstance(row, dict) for row in assessments):
        raise TraceError(f"{where}, info.assessments: accepted is a list of assessments")
    session = get(record["info"], "trace_metadata", _SESSION) or get(record["info"], "request_metadata", _SESSION)
    row = label(trace, assessments, where, options, prefix)
    named = {"session": str(mend_value(session, where, options))} if session else {}
    return replace(
        row,
        group=task_group(trace),
        reference=_reference(assessments, where, options),
        metadata={**row.metadata, **named},
    )


def read_trace(record: JSON, where: str, options: ReadOptions) -> Trace:
    """What the agent did, and nothing that anybody said about it.

    Raises:
        TraceError: not a trace of MLflow, or one without spans.
    """
    if not is_trace(record):
        raise TraceError(
            f"{where}: not an MLflow trace: accepted are {{info, data: {{spans}}}} and rows of search_traces: "
            "{trace_id, spans, trace_metadata, assessments}"
        )
    info, spans = record["info"], record["data"]["spans"]
    trace_id = info.get("trace_id") or info.get("request_id")
    if not isinstance(trace_id, str) or not trace_id.strip():
        raise TraceError(f"{where}, info.trace_id: is missing: accepted is any non-empty text")
    if not spans or not all(isinstance(span, dict) for span in spans):
        raise TraceError(f"{where}, data.spans: accepted is a list with at least one span")
    return build_trace(trace_id.strip(), read_spans(spans, where, options), "hex", where, options)


def _reference(assessments: Sequence[JSON], where: str, options: ReadOptions) -> str | None:
    """The answer that somebody expects; whatever was expected is kept from the judges."""
    found: str | None = None
    for row in assessments:
        value = get(row, "expectation", "value")
        if value is None:
            continue
        name = str(row.get("assessment_name") or "")
        options.report.strip(f"info.assessments.{name}")
        if name in _ANSWERS and row.get("valid") is not False:
            found = str(mend_value(text_of(value), f"{where}, {name}", options))
    return found
