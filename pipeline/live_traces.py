"""Labelled traces out of a running MLflow (a server, or the database of one), as import reads files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.files.records import read_each
from labeled_traces.readers.labels.mlflow import PREFIX
from labeled_traces.readers.labels.table import LabelTable
from labeled_traces.readers.labels.table_columns import TableForm
from labeled_traces.readers.mending.original import restore
from labeled_traces.readers.mlflow import read_row
from labeled_traces.readers.report import ReadOptions, ReadReport
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import JSON, TraceError
from pipeline.config import PipelineError
from pipeline.mlflow_traces import MlflowTraces

Into = TypeVar("Into", bound=Sized)
UNFINISHED = "trace that has not ended, or that lost its root, left out"
LOST = "trace whose spans MLflow does not give out, left out"


@dataclass(frozen=True)
class LiveSource:
    """Traces of one experiment. `filter`: in MLflow's language; `session`: only those of this conversation."""

    uri: str
    experiment: str
    filter: str | None = None
    session: str | None = None
    prefix: str = PREFIX

    @property
    def where(self) -> str | None:
        """The filter and the session as one filter; it knows AND alone, so no brackets are needed.

        Raises:
            PipelineError: a session with both kinds of quotes, which the language cannot name.
        """
        parts = [self.filter] if self.filter else []
        if self.session is not None:
            quote = "'" if "'" not in self.session else '"'
            if quote in self.session:
                raise PipelineError(f"session {self.session!r}: accepted is one without quotes of both kinds")
            parts.append(f"metadata.`mlflow.trace.session` = {quote}{self.session}{quote}")
        return " AND ".join(parts) or None


def read_live_into(
    into: Callable[[Iterator[tuple[str, LabeledTrace]], ReadReport], Into],
    source: LiveSource,
    labels: Sequence[Path] = (),
    taxonomy: str | None = None,
    strict: bool = False,
    allow_missing: bool = False,
    table: TableForm | None = None,
) -> tuple[Into, ReadReport]:
    """As `labeled_traces.readers.read_into`, for the traces of an experiment; label files are tables.

    Raises:
        PipelineError: MLflow refuses or cannot be reached.
        TraceError: no trace matches, or nothing could be read.
    """
    report = ReadReport(strict=strict)
    options = ReadOptions(load_taxonomy(taxonomy or "trail"), report, allow_missing=allow_missing)
    said = LabelTable.load(labels, table or TableForm(), options) if labels else None
    rows = restore(_rows(source, options), report)
    taken = into(said.join(rows) if said else rows, report)
    if not len(taken):
        of = f" that matches {source.where}" if source.where else ""
        raise report.nothing_read() or TraceError(
            f"experiment {source.experiment!r} of MLflow at {source.uri} has no finished trace{of}"
        )
    return taken, report


def _rows(source: LiveSource, options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    traces = MlflowTraces(source.uri, source.experiment)
    report = options.report
    seen: set[str] = set()

    def unfinished(trace_id: str) -> None:
        seen.add(trace_id)
        report.add(UNFINISHED, trace_id)

    def records() -> Iterator[tuple[str, JSON]]:
        for record in traces.records(source.where, unfinished=unfinished):
            trace_id = str(record["info"].get("trace_id"))
            seen.add(trace_id)
            yield trace_id, record

    yield from read_each(records(), partial(read_row, options=options, prefix=source.prefix), report)
    for trace_id in traces.ids(source.where):
        if trace_id not in seen:
            report.leave_out(TraceError(f"{trace_id}: MLflow gives out no spans of it"), LOST)
