"""Langfuse: traces with their observations, as the app exports them and as the API and the storage export give them.

Read are `{trace, observations}`, a trace with its `observations`, and lists of traces, observations and scores of many
traces in any order (`{data: [...]}`, arrays, JSON Lines; camelCase and snake_case). Of an observation's metadata only
what its instrumentation recorded is read (the names of agents and tools, the tools that a model had); what a user wrote
there, and in a trace's metadata, can hold the answer and stays out.

Labels are the scores that people gave in the app (source ANNOTATION), see `labels/langfuse.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import NOTHING, decoded, decoded_scalar, either, first, get
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.files.span_store import SpanStore
from labeled_traces.readers.labels.feedback import Feedback
from labeled_traces.readers.labels.langfuse import is_score, label_by_scores, load_scores
from labeled_traces.readers.mending.agents import with_agents
from labeled_traces.readers.mending.repair import build_trace, mend_value
from labeled_traces.readers.mending.states import without_repeated_states
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.langfuse import agents_for_loops, read_span
from labeled_traces.task_group import task_group
from labeled_traces.trace import JSON, Span, SpanKind, TraceError

_ACCEPTED = "accepted is {trace, observations}, {id, observations}, or an observation {id, traceId, type}"


@dataclass
class _Parts:
    """What is known of one trace: its own record, its observations, where those lie that stand alone."""

    where: str
    trace: Mapping[str, JSON]
    observations: list[JSON] = field(default_factory=list)
    stored: list[int] = field(default_factory=list)


def role(record: JSON) -> str | None:
    """`traces` for traces and observations, `labels` for scores, None for anything else."""
    if not isinstance(record, dict):
        return None
    if is_score(record):
        return "labels"
    whole = isinstance(get(record, "trace"), dict) and isinstance(record.get("observations"), list)
    return "traces" if whole or _is_trace(record) or _is_observation(record) else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Records that cannot be read are left out.

    Raises:
        TraceError: label files without scores, or scores of traces that were not read.
    """
    scores = load_scores(options)
    flat: dict[str, _Parts] = {}
    store = SpanStore()
    for where, record in read_files(paths, options.report):
        try:
            whole = _whole(record, where)
            if whole is not None:
                yield where, _row(whole, scores, options)
            else:
                _add(record, flat, store, scores, where)
        except TraceError as error:
            options.report.leave_out(error)
    for parts in flat.values():
        observations = [item for _, item in store.get(parts.stored)]
        try:
            yield parts.where, _row(replace(parts, observations=observations), scores, options)
        except TraceError as error:
            options.report.leave_out(error)
    scores.refuse_unknown()


def _add(record: JSON, flat: dict[str, _Parts], store: SpanStore, scores: Feedback, where: str) -> None:
    """Keeps a record that is a part of a trace."""
    if role(record) is None:
        raise TraceError(f"{where}: not a trace of Langfuse: {_ACCEPTED}")
    if is_score(record):
        scores.add(record, where)
        return
    trace_id = _id_of(record) if _is_observation(record) else str(record.get("id"))
    parts = flat.setdefault(trace_id, _Parts(where, {"id": trace_id}))
    if _is_observation(record):
        parts.stored.append(store.put(where, record))
    else:
        parts.trace = record


def _is_trace(record: Mapping[str, JSON]) -> bool:
    own = {"sessionId", "session_id", "htmlPath", "userId", "user_id"} & record.keys()
    return "id" in record and "timestamp" in record and bool(own) and not _id_of(record)


def _is_observation(record: Mapping[str, JSON]) -> bool:
    return bool(_id_of(record)) and "type" in record and bool({"startTime", "start_time"} & record.keys())


def _id_of(record: Mapping[str, JSON]) -> str:
    return str(either(record, "traceId") or "").strip()


def _whole(record: JSON, where: str) -> _Parts | None:
    """A record that holds a trace with its observations; None if it is a part of one."""
    trace = get(record, "trace") if isinstance(get(record, "trace"), dict) else record
    observations = first(get(record, "observations"), get(trace, "observations"))
    if not isinstance(observations, list):
        return None
    if trace is record and not any(isinstance(item, dict) for item in observations):
        return None  # a list of the API names observations and scores by their ids
    return _Parts(where, trace, observations)


def _row(parts: _Parts, scores: Feedback, options: ReadOptions) -> LabeledTrace:
    where, trace = parts.where, parts.trace
    trace_id = str(trace.get("id") or "").strip()
    if not trace_id:
        raise TraceError(f"{where}, trace.id: is missing: accepted is any non-empty text")
    if not parts.observations:
        raise TraceError(f"{where}, trace {trace_id}: has no observations, which are its spans: export them too")
    spans = []
    for item in parts.observations:
        if not isinstance(item, dict):
            raise TraceError(f"{where}, observations: accepted is a list of observations, not of their ids")
        spans.append(read_span(item, where, options))
    spans = without_repeated_states(agents_for_loops(spans))
    given = (decoded(decoded_scalar(trace.get(key))) for key in ("input", "output"))
    inputs, outputs = (mend_value(value, f"{where}, trace", options) for value in given)
    root = Span(trace_id, None, str(trace.get("name") or "trace"), SpanKind.AGENT, inputs=inputs, outputs=outputs)
    built = build_trace(trace_id, with_agents(spans, root), "none", where, options)
    options.report.strip("trace.metadata", 1 if decoded(trace.get("metadata")) not in NOTHING else 0)
    about = _metadata(parts)
    row = label_by_scores(built, trace, scores, where, options)
    return replace(row, group=task_group(built), metadata=mend_value({**row.metadata, **about}, where, options))


def _metadata(parts: _Parts) -> dict[str, JSON]:
    trace = parts.trace
    holders = (trace, *(item for item in parts.observations))
    sessions = (either(item, "sessionId") for item in holders)
    threads = (get(decoded(item.get("metadata")), "thread_id") for item in holders)
    session = next(filter(None, (*sessions, *threads)), None)
    kept = {"session": session, "name": trace.get("name"), "tags": trace.get("tags")}
    return {"source": "langfuse", **{key: value for key, value in kept.items() if value not in NOTHING}}
