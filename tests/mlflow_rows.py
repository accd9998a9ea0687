"""Labelled traces into MLflow, as an agent and people would leave them there."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from labeled_traces.dataset import LabeledTrace
from labeled_traces.trace import Span, Trace, text_hash


def as_mlflow(row: LabeledTrace, experiment: str) -> LabeledTrace:
    """The row with ids as MLflow has them. An id belongs to one experiment: logged to a second one, it stays in the
    first."""
    new = {span.span_id: text_hash(f"{experiment} {row.trace_id} {span.span_id}")[:16] for span in row.trace.spans}
    spans = tuple(
        replace(span, span_id=new[span.span_id], parent_id=span.parent_id and new[span.parent_id])
        for span in row.trace.spans
    )
    errors = tuple(replace(error, span_id=error.span_id and new[error.span_id]) for error in row.errors)
    trace = Trace(f"tr-{text_hash(f'{experiment} {row.trace_id}')[:32]}", spans)
    return replace(row, trace=trace, errors=errors)


class MlflowRows:
    """Writes rows to the experiment `name` of the database at `uri`, which is made with its artifacts in `folder`."""

    def __init__(self, uri: str, name: str, folder: Path) -> None:
        from mlflow import MlflowClient
        from mlflow.tracing.client import TracingClient

        client = MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(name)
        self.experiment_id = found.experiment_id if found else client.create_experiment(name, folder.as_uri())
        self.name = name
        self.prefix = "gpa_"
        self.client = TracingClient(uri)

    def log(self, rows: Iterable[LabeledTrace], *, label: bool = True) -> list[LabeledTrace]:
        """Logs traces and, as a person, their labels; returns them with their ids in MLflow."""
        from mlflow.entities import Span as MlflowSpan

        logged = [as_mlflow(row, self.name) for row in rows]
        for row in logged:
            spans = [MlflowSpan.from_dict(_span(span, row.trace_id)) for span in row.trace.spans]
            self.client.log_spans(self.experiment_id, spans)
            if label:
                self.label(row)
        return logged

    def label(self, row: LabeledTrace) -> None:
        from mlflow.entities import AssessmentSource, Feedback

        def say(name: str, value: str, **more: Any) -> None:
            feedback = Feedback(
                name=f"{self.prefix}{name}", value=value, source=AssessmentSource("HUMAN", "ann"), **more
            )
            self.client.log_assessment(row.trace_id, feedback)

        for error in row.errors:
            about = {"dimensions": ",".join(error.dimensions), "impact": str(error.impact), "evidence": error.evidence}
            say("error", error.category, span_id=error.span_id, rationale=error.description, metadata=about)
        if not row.errors:
            say("error", "none")
        for score in row.scores:
            say(score.dimension, str(score.score))

    def assessments(self, row: LabeledTrace, source: str = "LLM_JUDGE") -> Sequence[Any]:
        said = self.client.get_trace_info(row.trace_id).assessments
        return [one for one in said if one.source.source_type == source]


def _span(span: Span, trace_id: str) -> dict[str, Any]:
    def encoded(digits: str) -> str:
        return base64.b64encode(bytes.fromhex(digits)).decode()

    attributes = {"mlflow.traceRequestId": trace_id, "mlflow.spanType": str(span.kind)}
    attributes |= {f"mlflow.span{name}": value for name, value in (("Inputs", span.inputs), ("Outputs", span.outputs))}
    return {
        "trace_id": encoded(trace_id.removeprefix("tr-")),
        "span_id": encoded(span.span_id),
        "parent_span_id": span.parent_id and encoded(span.parent_id),
        "name": span.name,
        "start_time_unix_nano": round((span.start or 0) * 1e9),
        "end_time_unix_nano": round((span.end or span.start or 0) * 1e9),
        "events": [],
        "status": {"code": f"STATUS_CODE_{span.status}", "message": span.error or ""},
        "attributes": {name: json.dumps(value) for name, value in attributes.items() if value is not None},
    }
