"""The traces of one MLflow experiment, what people and judges said about them, and how judges say it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from labeled_traces.trace import JSON
from pipeline.config import PipelineError
from pipeline.tracking import connect, refusals

_PAGE = 100


class MlflowTraces:
    """Reads and annotates the traces of one experiment, without touching MLflow's process-wide settings.

    Raises (every method): PipelineError, where MLflow refuses or cannot be reached.
    """

    def __init__(self, uri: str, experiment: str) -> None:
        self.uri = uri
        with refusals(uri):
            from mlflow.tracing.client import TracingClient

            found = connect(uri).get_experiment_by_name(experiment)
            self._client = TracingClient(uri)
        if found is None:
            raise PipelineError(f"MLflow at {uri} has no experiment {experiment!r}: accepted is one that holds traces")
        self.experiment_id = str(found.experiment_id)

    def records(self, filter_string: str | None = None, newest: int | None = None) -> Iterator[dict[str, JSON]]:
        """Finished traces as `Trace.to_dict` gives them, the newest first. `filter_string`: in MLflow's language."""
        token, left = None, newest
        while left is None or left > 0:
            with refusals(self.uri):
                page = self._client.search_traces(
                    locations=[self.experiment_id],
                    filter_string=filter_string,
                    max_results=_PAGE if left is None else min(_PAGE, left),
                    order_by=["timestamp_ms DESC"],
                    page_token=token,
                )
            for trace in page:
                _mend_values(trace.info.assessments)
                record = trace.to_dict()
                if record["info"].get("state") != "IN_PROGRESS":
                    yield record
            left = None if left is None else left - len(page)
            token = page.token
            if not token:
                return

    def log(self, trace_id: str, assessment: Any) -> None:
        """Adds an assessment of MLflow's to a trace; its span_id stays."""
        with refusals(self.uri):
            self._client.log_assessment(trace_id, assessment)

    def delete(self, trace_id: str, assessment_id: str) -> None:
        with refusals(self.uri):
            self._client.delete_assessment(trace_id, assessment_id)


def _mend_values(assessments: Iterable[Any]) -> None:
    """A value that JSON has no number for (NaN, infinity), which MLflow takes and cannot give out again, as text."""
    from google.protobuf.json_format import Error

    for assessment in assessments:
        try:
            assessment.to_dictionary()
        except Error:
            said = assessment.feedback or assessment.expectation
            said.value = str(said.value)


def without_assessments(record: Mapping[str, JSON]) -> dict[str, JSON]:
    """The record as a judge may see it: nothing that anybody said about the trace is left."""
    info = {key: value for key, value in record["info"].items() if key != "assessments"}
    return {**record, "info": info}


def assessments_of(record: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    return list(record["info"].get("assessments") or [])
