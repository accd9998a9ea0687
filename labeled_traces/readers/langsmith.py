"""LangSmith: runs, as its API, its clients and its exports give them, with people's feedback.

A run is `{id, trace_id, parent_run_id, run_type, name, inputs, outputs, error, ...}`. Runs of several traces may stand
in any order, in arrays, JSON Lines or `{"runs": [...]}`, with their `child_runs` inside or beside them. Of a run's
metadata only who ran and which model was called is read: what a user wrote there can hold the answer.

Labels are feedback that people gave in the app (`feedback_source.type` is `app`), in a run's `feedback` or in files of
their own. Its names are read as those of MLflow's feedback (`gpa_<dimension>`, `gpa_error`); one whose value is a
category of the taxonomy is an error of that category at its run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import decoded, first, get
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.files.span_store import SpanStore
from labeled_traces.readers.labels.feedback import Feedback, Said, as_assessments
from labeled_traces.readers.labels.mlflow import NO_PERSON, label
from labeled_traces.readers.mending.agents import with_agents
from labeled_traces.readers.mending.answer_hints import note_answers
from labeled_traces.readers.mending.repair import build_trace, mend_value
from labeled_traces.readers.mending.states import without_repeated_states
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.langsmith import ids_by_path, read_run
from labeled_traces.task_group import task_group
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError

_THREAD = ("session_id", "thread_id", "conversation_id")
"""Names under which LangSmith looks for the conversation that a trace belongs to."""


@dataclass
class _Runs:
    """What is known of one trace; its runs lie in the store, with the ids of what they stand in."""

    where: str
    stored: list[int] = field(default_factory=list)
    session: JSON = None


def role(record: JSON) -> str | None:
    """`traces` for runs, `labels` for feedback, None for anything else."""
    if _is_feedback(record):
        return "labels"
    runs = get(record, "runs")
    known = _is_run(record) or (isinstance(runs, list) and bool(runs) and all(map(_is_run, runs)))
    return "traces" if known else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Records that cannot be read are left out.

    Raises:
        TraceError: label files without feedback, or feedback of runs that were not read.
    """
    feedback = Feedback(options, _is_feedback, lambda row: str(row["run_id"]), "{run_id, key, score, feedback_source}")
    traces: dict[str, _Runs] = {}
    store = SpanStore()
    for where, record in read_files(paths, options.report):
        try:
            if role(record) is None:
                raise TraceError(
                    f"{where}: no run of LangSmith: accepted is {{id, trace_id, run_type, inputs, outputs}}"
                )
            if _is_feedback(record):
                feedback.add(record, where)
                continue
            for run, above in _runs(record):
                runs = _add(run, traces, feedback, where, options)
                runs.stored.append(store.put(where, (_alone(run), above)))
        except TraceError as error:
            options.report.leave_out(error)
    for trace_id, runs in traces.items():
        read_runs = (read_run(run, above, where, options) for where, (run, above) in store.get(runs.stored))
        spans = without_repeated_states(list(read_runs))
        root = Span(trace_id, None, "trace", SpanKind.AGENT)
        trace = build_trace(trace_id, with_agents(spans, root), "none", runs.where, options)
        about = {"source": "langsmith", **({"session": runs.session} if runs.session else {})}
        row = _labeled(trace, feedback, runs.where, options)
        yield runs.where, replace(row, group=task_group(trace), metadata=mend_value(about, runs.where, options))
    feedback.refuse_unknown()


def _is_run(record: JSON) -> bool:
    return isinstance(get(record, "run_type"), str) and "id" in record and bool({"inputs", "outputs"} & record.keys())


def _is_feedback(record: JSON) -> bool:
    return isinstance(record, dict) and {"run_id", "key"} <= record.keys() and bool({"score", "value"} & record.keys())


def _runs(record: JSON) -> Iterator[tuple[Mapping[str, JSON], JSON]]:
    """The runs in a record with the id of what they stand in; their own word about their parents goes first."""
    stack = [(run, None) for run in reversed(record.get("runs") or [record])]
    while stack:
        run, above = stack.pop()
        if _is_run(run):
            yield run, above
            children = run.get("child_runs")
            stack += [(child, run["id"]) for child in reversed(children if isinstance(children, list) else [])]


def _add(
    run: Mapping[str, JSON], traces: dict[str, _Runs], feedback: Feedback, where: str, options: ReadOptions
) -> _Runs:
    """What is known of the run's trace, with what the run says of it."""
    named = (str(given or "").strip() for given in (run.get("trace_id"), ids_by_path(run)[0], run["id"]))
    trace_id = next(filter(None, named), "")
    if not trace_id:
        raise TraceError(f"{where}: has no trace_id and no id: accepted is any non-empty text")
    runs = traces.setdefault(trace_id, _Runs(where))
    metadata = decoded(get(decoded(run.get("extra")), "metadata"))
    note_answers(metadata, options.report)
    runs.session = first(runs.session, run.get("thread_id"), *(get(metadata, key) for key in _THREAD))
    given = run.get("feedback")
    for number, row in enumerate(given if isinstance(given, list) else []):
        if isinstance(row, dict):
            feedback.add({**row, "run_id": run["id"]}, f"{where}, feedback[{number}]")
    return runs


def _alone(run: Mapping[str, JSON]) -> dict[str, JSON]:
    return {key: value for key, value in run.items() if key != "child_runs"}


def _labeled(trace: Trace, feedback: Feedback, where: str, options: ReadOptions) -> LabeledTrace:
    """The trace with people's labels. Feedback at the outermost run is about the whole trace."""
    said = []
    reference = None
    for place, row in feedback.take([trace.trace_id, *trace.by_id]):
        if get(row, "feedback_source", "type") != "app":
            options.report.add(NO_PERSON, f"{place}: {row.get('key')!r}")
            continue
        span_id = str(row["run_id"])
        whole = span_id == trace.trace_id or span_id in {root.span_id for root in trace.roots}
        said.append((place, _said(row, None if whole else span_id)))
        if row.get("correction") is not None:
            options.report.strip("feedback.correction", 1)
            reference = reference or (_answer(row["correction"]) if whole else None)
    row = label(trace, as_assessments(said, options), where, options)
    return replace(row, reference=mend_value(reference, f"{where}, correction", options))


def _said(row: Mapping[str, JSON], span_id: str | None) -> Said:
    value = row.get("value")
    source = row.get("feedback_source")
    return Said(
        id=str(row.get("id") or ""),
        name=str(row.get("key") or ""),
        value=value if isinstance(value, str) and value else first(row.get("score"), value),
        rater=str(get(source, "user_name") or get(source, "user_id") or ""),
        span_id=span_id,
        comment=row.get("comment"),
        time=first(row.get("modified_at"), row.get("created_at")),
        metadata=row.get("extra"),
    )


def _answer(correction: JSON) -> str:
    only = next(iter(correction.values())) if isinstance(correction, dict) and len(correction) == 1 else correction
    return only if isinstance(only, str) else json.dumps(only, ensure_ascii=False)
