"""A row as MLflow writes a trace (`Trace.to_dict`), people's labels as its assessments.

Errors are feedback `gpa_error` at their spans, scores feedback `gpa_<dimension>`, as `readers/labels/mlflow.py` says;
who read the run and marked nothing says `none`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.readers.labels.mlflow import ERROR, NO_ERROR, PREFIX
from labeled_traces.readers.mending.original import ORIGINAL
from labeled_traces.trace import JSON, Span, SpanKind, text_hash
from labeled_traces.writers.ids import HexIds
from labeled_traces.writers.spans import NANOSECONDS, calls_of, conversation_of, json_text, written_spans

_STATES = {"OK": "OK", "ERROR": "ERROR"}
_PREVIEW = 1_000


def record(row: LabeledTrace, ids: HexIds, kept: Mapping[str, str], labels: bool) -> dict[str, JSON]:
    """The trace as `mlflow.entities.Trace.from_dict` takes it.

    Args:
        kept: id of a written span -> what is kept beside it, see `readers/mending/original.py`.
        labels: whether what people said is written.
    """
    trace_id = f"tr-{ids.trace}"
    written = list(written_spans(row.trace))
    spans = []
    for span, start, end in written:
        own = ids.spans[span.span_id]
        parent = None if span.parent_id is None else ids.spans[span.parent_id]
        spans.append(_span(span, (_base64(own), None if parent is None else _base64(parent)), (start, end)))
        attributes = {"mlflow.traceRequestId": trace_id, **_attributes(span)}
        attributes |= {ORIGINAL: kept[own]} if own in kept else {}
        spans[-1] |= {"trace_id": _base64(ids.trace), "attributes": {k: json_text(v) for k, v in attributes.items()}}
    start = min(start for _, start, _ in written)
    end = max(end for _, _, end in written)
    root = next(span for span, _, _ in written if span.parent_id is None)
    info = {
        "trace_id": trace_id,
        "trace_location": {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": "0"}},
        "request_time": _time(start),
        "state": _STATES.get(root.status, "STATE_UNSPECIFIED"),
        "trace_metadata": {"mlflow.trace_schema.version": "3"},
        "tags": {"mlflow.traceName": root.name},
        "request_preview": _preview(root.inputs),
        "response_preview": _preview(root.outputs),
        "execution_duration_ms": (end - start) // 10**6,
    }
    if labels:
        info["assessments"] = [
            {**one, "assessment_id": f"a-{text_hash(f'{trace_id} {number}')[:32]}", "trace_id": trace_id}
            for number, one in enumerate(_assessments(row, ids, _time(end)))
        ]
    return {"info": info, "data": {"spans": spans}}


def _span(span: Span, ids: tuple[str, str | None], times: tuple[int, int]) -> dict[str, JSON]:
    events = []
    if span.error is not None:
        said = {"exception.message": span.error}
        events = [{"name": "exception", "time_unix_nano": times[1], "attributes": said}]
    code = span.status if span.status in _STATES else "UNSET"
    return {
        "span_id": ids[0],
        "parent_span_id": ids[1],
        "name": span.name,
        "start_time_unix_nano": times[0],
        "end_time_unix_nano": times[1],
        "events": events,
        "status": {"code": f"STATUS_CODE_{code}", "message": (span.error or "") if code == "ERROR" else ""},
        "links": [],
    }


def _attributes(span: Span) -> dict[str, JSON]:
    kind = str(span.kind)
    inputs, outputs = span.inputs, span.outputs
    tools = None
    if span.kind is SpanKind.LLM:
        asked, answered = conversation_of(inputs), conversation_of(outputs)
        if asked is not None:
            kind, tools = "CHAT_MODEL", inputs.get("tools")
            inputs = {**inputs, "messages": [_message(one) for one in asked]}
            inputs = {key: value for key, value in inputs.items() if key != "tools"}
        if answered is not None:
            outputs = {**outputs, "messages": [_message(one) for one in answered]}
    found: dict[str, JSON] = {"mlflow.spanType": kind}
    found |= {key: value for key, value in span.attributes.items() if not key.startswith("mlflow.span")}
    given = {"mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs, "mlflow.chat.tools": tools or None}
    usage = span.attributes.get("llm.token_count")
    if isinstance(usage, dict):
        given["mlflow.chat.tokenUsage"] = {
            name: usage[ours] for ours, name in _USAGE.items() if isinstance(usage.get(ours), int)
        }
    given["mlflow.llm.model"] = span.attributes.get("llm.model_name")
    return found | {key: value for key, value in given.items() if value not in (None, {})}


_USAGE = {"prompt": "input_tokens", "completion": "output_tokens", "total": "total_tokens"}


def _message(message: Mapping[str, JSON]) -> dict[str, JSON]:
    """With calls of tools as OpenAI spells them, so that MLflow shows them as such."""
    calls = [
        {**({} if call_id is None else {"id": call_id}), "type": "function", "function": {"name": name, "arguments": a}}
        for call_id, name, a in calls_of(message)
    ]
    return {**message, "tool_calls": calls} if calls else dict(message)


def _assessments(row: LabeledTrace, ids: HexIds, end: str) -> Iterator[dict[str, JSON]]:
    for error in row.errors:
        about = {
            "dimensions": ",".join(error.dimensions) or NO_ERROR,
            "impact": str(error.impact),
            "evidence": error.evidence,
        }
        yield {
            **_said(ERROR, error.category, error, end),
            "rationale": error.description,
            "metadata": about,
            **({} if error.span_id is None else {"span_id": ids.spans[error.span_id]}),
        }
    for score in row.scores:
        yield _said(score.dimension, score.score, score, end)
    looked = [rater for rater in row.raters if rater not in {error.rater for error in row.errors}]
    if row.clean == "checked" and not row.errors and not looked:
        looked = [""]
    for rater in looked:
        yield _said(ERROR, NO_ERROR, ErrorLabel(None, (), NO_ERROR, Impact.LOW, rater=rater), end)


def _said(name: str, value: JSON, label: ErrorLabel | ScoreLabel, end: str) -> dict[str, JSON]:
    time = end if label.time is None else _time(round(label.time * NANOSECONDS))
    return {
        "assessment_name": f"{PREFIX}{name}",
        "source": {"source_type": "HUMAN", "source_id": label.rater},
        "create_time": time,
        "last_update_time": time,
        "feedback": {"value": value},
        "valid": True,
    }


def _time(nanoseconds: int) -> str:
    """RFC 3339, to the microsecond; times that no calendar has are its ends."""
    seconds = min(max(nanoseconds / NANOSECONDS, 0), _LAST)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_LAST = 253402300799.0


def _preview(value: JSON) -> str:
    text = value if isinstance(value, str) else "" if value is None else json_text(value)
    return text if len(text) <= _PREVIEW else f"{text[: _PREVIEW - 3]}..."


def _base64(hex_id: str) -> str:
    return base64.b64encode(bytes.fromhex(hex_id)).decode()
