"""The traces of one MLflow experiment, what people and judges said about them, and how judges say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from labeled_traces.names import did_you_mean
from labeled_traces.trace import JSON
from pipeline.config import PipelineError
from pipeline.tracking import connect, refusals

_PAGE = 100
_NAMED, _COMPARED = 10, 1_000
"""Experiments that are named, and among which one is looked for that may be meant."""
Unfinished: TypeAlias = Callable[[str], None]


class MlflowTraces:
    """Reads and annotates the traces of one experiment, without touching MLflow's process-wide settings.

    Raises (every method): PipelineError, where MLflow refuses or cannot be reached.
    """

    def __init__(self, uri: str, experiment: str) -> None:
        self.uri = uri
        with refusals(uri):
            from mlflow.tracing.client import TracingClient

            client = connect(uri)
            found = client.get_experiment_by_name(experiment)
            names = [] if found else [one.name for one in client.search_experiments(max_results=_COMPARED)]
            self._client = TracingClient(uri)
        if found is None:
            more = " ..." if len(names) > _NAMED else ""
            known = f"; it has {', '.join(map(repr, names[:_NAMED]))}{more}" if names else ""
            meant = did_you_mean(experiment, names)
            raise PipelineError(
                f"MLflow at {uri} has no experiment {experiment!r}{meant}: accepted is one that holds traces{known}"
            )
        self.experiment_id = str(found.experiment_id)

    def records(
        self, filter_string: str | None = None, newest: int | None = None, unfinished: Unfinished = lambda _: None
    ) -> Iterator[dict[str, JSON]]:
        """Finished traces as `Trace.to_dict` gives them, the newest first.

        Args:
            filter_string: in MLflow's language.
            newest: so many at most.
            unfinished: is told the id of each trace that is still running, or that lost its root.
        """
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
                if record["info"].get("state") == "IN_PROGRESS":
                    unfinished(trace.info.trace_id)
                else:
                    yield record
            left = None if left is None else left - len(page)
            token = page.token
            if not token:
                return

    def ids(self, filter_string: str | None = None) -> Iterator[str]:
        """The ids of all traces, also of those whose spans cannot be fetched, which `records` does not have."""
        token = None
        while True:
            with refusals(self.uri):
                page = self._client.search_traces(
                    locations=[self.experiment_id],
                    filter_string=filter_string,
                    max_results=_PAGE,
                    page_token=token,
                    include_spans=False,
                )
            yield from (trace.info.trace_id for trace in page)
            token = page.token
            if not token:
                return

    def log(self, trace_id: str, assessment: Any) -> None:
        """Adds an assessment of MLflow's to a trace; its span_id stays."""
        with refusals(self.uri):
            self._client.log_assessment(trace_id, assessment)

    def log_trace(self, spans: list[Any], tags: Mapping[str, str]) -> None:
        """Adds a trace of MLflow's spans to the experiment."""
        with refusals(self.uri):
            self._client.log_spans(self.experiment_id, spans)
            for name, value in tags.items():
                self._client.set_trace_tag(spans[0].trace_id, name, value)

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
