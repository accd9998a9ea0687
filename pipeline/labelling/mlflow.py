"""Traces into an experiment of MLflow where people label them, and their labels out of it.

The experiment holds copies and nothing that anybody said of them: who labels sees neither judges' verdicts nor other
people's earlier labels. Where the server has review queues (MLflow 3.14 and later) it gets questions and, for each
rater, a queue of all traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from judges.redact import hide_in_uri
from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import get
from labeled_traces.label import DIMENSIONS, SCORES
from labeled_traces.readers.labels.mlflow import ERROR, NO_ERROR, PREFIX, label
from labeled_traces.readers.report import ReadOptions
from labeled_traces.writers import mlflow as writer
from pipeline.config import PipelineError
from pipeline.labelling.copies import BLIND, LABELLING, ORIGINAL_TRACE, WITH_VERDICTS, Copy
from pipeline.labelling.merge import SAW_VERDICTS
from pipeline.mlflow_traces import MlflowTraces, assessments_of
from pipeline.tracking import connect, find_experiment, refusals

_INSTRUCTION = (
    "The kind of one error, or none. The comment says what is wrong; it may begin with the span and the impact in "
    "brackets: [a5397882eb4c630c] [high] ... Further errors: as further assessments of this name. Kinds: "
)
_LONGEST_INSTRUCTION = 1_000
"""Characters; and a question with options has at most ten, too few for kinds of errors, so these are typed."""
_QUEUE = "gpa-judges"


@dataclass(frozen=True)
class Sent:
    """`queues`: the names of the review queues; None where the server has none, and `reason` says why. `page`: where
    people see the traces; None where no server is asked."""

    experiment: str
    traces: int
    there: int
    queues: tuple[str, ...] | None
    reason: str = ""
    page: str | None = None


def send(
    rows: Sequence[LabeledTrace], uri: str, experiment: str, categories: Sequence[str], raters: Sequence[str]
) -> Sent:
    """Copies the traces of `rows` into an experiment, which is made; those that are there already stay as they are.

    Raises:
        PipelineError: the experiment holds other traces, or MLflow refuses.
    """
    experiment_id = _experiment(uri, experiment)
    traces = MlflowTraces(uri, experiment)
    there = set(traces.ids())
    copies = [Copy.of(row.trace, experiment_id) for row in rows]
    for row, copy in zip(rows, copies, strict=True):
        if copy.trace_id not in there:
            _log(traces, row, copy)
    queues, reason = _queues(uri, experiment_id, [copy.trace_id for copy in copies], (categories, raters))
    old = sum(copy.trace_id in there for copy in copies)
    page = f"{hide_in_uri(uri).rstrip('/')}/#/experiments/{experiment_id}/traces" if uri.startswith("http") else None
    return Sent(experiment, len(copies) - old, old, queues, reason, page)


def show_verdicts(uri: str, experiment: str, said: Iterable[tuple[LabeledTrace, Sequence[Any]]]) -> int:
    """Puts what judges said beside the copies, and marks the experiment; returns how many traces have verdicts.

    Args:
        said: rows with MLflow's assessments of them, at the span ids of the row.
    """
    traces = MlflowTraces(uri, experiment)
    with refusals(uri):
        connect(uri).set_experiment_tag(traces.experiment_id, LABELLING, WITH_VERDICTS)
    judged = {
        str(record["info"].get("trace_id"))
        for record in traces.records()
        if any(get(one, "source", "source_type") == "LLM_JUDGE" for one in assessments_of(record))
    }
    shown = 0
    for row, assessments in said:
        copy = Copy.of(row.trace, traces.experiment_id)
        if copy.trace_id in judged:
            shown += 1
            continue
        for assessment in assessments:
            assessment.span_id = copy.spans.get(assessment.span_id)
            traces.log(copy.trace_id, assessment)
        shown += bool(assessments)
    return shown


def receive(
    rows: Iterable[LabeledTrace], uri: str, experiment: str, options: ReadOptions
) -> Iterator[tuple[LabeledTrace, LabeledTrace]]:
    """(row, what people said of it) pairs: the second with labels at the row's own spans, and nothing else.

    Traces of the experiment that are copies of no row are counted in the report.

    Raises:
        PipelineError: MLflow refuses, or the experiment has a copy of none of the rows.
    """
    traces = MlflowTraces(uri, experiment)
    with refusals(uri):
        tags = connect(uri).get_experiment(traces.experiment_id).tags
    copies = {(copy := Copy.of(row.trace, traces.experiment_id)).trace_id: (row, copy) for row in rows}
    sent, seen = set(copies), set[str]()
    for record in traces.records():
        trace_id = str(record["info"].get("trace_id"))
        seen.add(trace_id)
        if trace_id not in copies:
            original = get(record, "info", "tags", ORIGINAL_TRACE)
            options.report.add("labelled trace that the data does not have", str(original or trace_id))
            continue
        row, copy = copies.pop(trace_id)
        yield row, _said(row, copy, record, options, with_verdicts=tags.get(LABELLING) == WITH_VERDICTS)
    if not sent.intersection(seen):
        raise PipelineError(
            f"experiment {experiment!r} of MLflow at {uri} has none of the {len(sent)} traces of this data: accepted "
            "is the experiment that `label export` made of it, with the same data"
        )
    for row, _ in copies.values():
        options.report.add("trace that was not sent to be labelled", row.trace_id)


def _said(
    row: LabeledTrace, copy: Copy, record: dict[str, Any], options: ReadOptions, *, with_verdicts: bool
) -> LabeledTrace:
    where = f"trace {row.trace_id} ({copy.trace_id})"
    found = label(copy.trace(row.trace), assessments_of(record), where, options)
    back = {new: old for old, new in copy.spans.items()}
    errors = tuple(replace(error, span_id=error.span_id and back[error.span_id]) for error in found.errors)
    raters = sorted({*(error.rater for error in errors), *(score.rater for score in found.scores), *found.raters})
    biased = {SAW_VERDICTS: raters} if with_verdicts and raters else {}
    return replace(found, trace=row.trace, errors=errors, metadata={**found.metadata, **biased})


def _experiment(uri: str, name: str) -> str:
    with refusals(uri):
        client = connect(uri, create=True)
        found = client.get_experiment_by_name(name)
        if found is None:
            experiment_id = find_experiment(client, name)
            client.set_experiment_tag(experiment_id, LABELLING, BLIND)
            return experiment_id
    if LABELLING not in found.tags:
        raise PipelineError(
            f"experiment {name!r} of MLflow at {uri} is there and not for labelling: judges' verdicts may stand beside "
            "its traces; accepted is a new name, or one that `label export` made"
        )
    return str(found.experiment_id)


def _log(traces: MlflowTraces, row: LabeledTrace, copy: Copy) -> None:
    from mlflow.entities import Trace as MlflowTrace

    bare = LabeledTrace(replace(row.trace, metadata={}), clean="unknown")
    record = writer.record(bare, copy.hex_ids, {}, False)
    traces.log_trace(MlflowTrace.from_dict(record).data.spans, {ORIGINAL_TRACE: row.trace_id})


def _queues(
    uri: str, experiment_id: str, trace_ids: Sequence[str], asked: tuple[Sequence[str], Sequence[str]]
) -> tuple[tuple[str, ...] | None, str]:
    """`asked`: categories of errors, and raters. Names of the queues; None and why, where the server has none."""
    categories, raters = asked
    try:
        from mlflow.genai import label_schemas, review_queues
    except ImportError:
        return None, "this MLflow has no review queues (3.14 and later have)"
    try:
        with refusals(uri), _tracking(uri):
            schemas = _questions(label_schemas, experiment_id, categories)
            known = {queue.name: queue for queue in review_queues.list_review_queues(experiment_id=experiment_id)}
            for name in raters or [_QUEUE]:
                kind: dict[str, Any] = {"queue_type": "user"}
                if not raters:
                    kind = {"queue_type": "custom", "users": [], "schema_ids": schemas}
                queue = known.get(name) or review_queues.create_review_queue(name, experiment_id=experiment_id, **kind)
                for start in range(0, len(trace_ids), _BATCH):
                    part = list(trace_ids[start : start + _BATCH])
                    review_queues.add_items_to_review_queue(queue.queue_id, item_ids=part)
    except PipelineError as error:
        return None, str(error)
    return tuple(raters or [_QUEUE]), ""


_BATCH = 100


def _questions(label_schemas: Any, experiment_id: str, categories: Sequence[str]) -> list[str]:
    """The ids of the questions that a reviewer is asked; those that are there stay as they are."""
    known = {schema.name: schema.schema_id for schema in label_schemas.list_label_schemas(experiment_id=experiment_id)}
    scale = "3 no error, 2 low-impact errors only, 1 a medium-impact error, 0 a high-impact error"
    kinds = f"{_INSTRUCTION}{', '.join([NO_ERROR, *categories])}"[:_LONGEST_INSTRUCTION]
    asked = {f"{PREFIX}{ERROR}": (label_schemas.InputText(), kinds)}
    scores = label_schemas.InputCategorical(options=[str(score) for score in SCORES])
    asked |= {f"{PREFIX}{name}": (scores, scale) for name in DIMENSIONS}
    for name, (kind, instruction) in asked.items():
        if name not in known:
            made = label_schemas.create_label_schema(
                name,
                type="feedback",
                input=kind,
                instruction=instruction,
                enable_comment=True,
                experiment_id=experiment_id,
            )
            known[name] = made.schema_id
    return [known[name] for name in asked]


@contextmanager
def _tracking(uri: str) -> Iterator[None]:
    """What MLflow offers for queues has no argument for its server: it is the process-wide one for a while."""
    import mlflow

    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)
