"""AgentProcessBench: runs of agents with tools, every message of the agent labelled +1, 0 or -1 by people.

A record is `{data_source, query_index, sample_index, question, messages: [chat messages], tools: [schemas],
step_labels: {"<message>": 1 | 0 | -1}, final_label, ground_truth, answer_text, tool_metrics, ...}`. Only `messages` and
`tools` become a trace; `ground_truth` is the reference, and it, the labels, rewards and `task_description` are kept
from it. Steps count from 0 over all messages, the system message included.

Further labels of a run, `{record_id, username, step_labels, final_label, status, updated_at}` as the annotation tool
writes them or without a name as published beside the runs, are those of further raters; of one rater's the newest
counts, and the same labels once. What a model labelled (it writes `explanations`) is nobody's label.

-1 says that a step is wrong but not how: it may be of several dimensions. The first of a failed run has a high impact,
the others medium, since an error goes on until it is mended. 0 is a step that brings nothing, so a low one of execution
efficiency. +1 says that a person looked and saw nothing: the steps stay in `metadata`, and who labelled all of a run
has read it. All this is our own reading. The final label is the score of goal fulfillment: +1 is 3, -1 is 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.labels.joining import Unknown, no_span, refuse_unknown
from labeled_traces.readers.mending.repair import build_trace, mend_value
from labeled_traces.readers.report import LABEL, ReadOptions
from labeled_traces.readers.spans.chat import add_raters, chat_spans, step_span
from labeled_traces.readers.spans.fields import seconds
from labeled_traces.trace import JSON, SpanKind, Trace, TraceError

RATER = "AgentProcessBench"
FIRST = 0
WRONG, NO_PROGRESS = "Wrong Step", "No Progress"
_IMPACTS = {WRONG: Impact.MEDIUM, NO_PROGRESS: Impact.LOW}
_STRIPPED = ("ground_truth", "step_labels", "final_label", "reward", "reward_info", "task_description")
_FINAL_SCORES = {1: 3, -1: 0}


@dataclass
class _Labels:
    """Run id -> rater -> place and record."""

    by_run: dict[str, dict[str, tuple[str, Mapping[str, JSON]]]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def unused(self) -> Iterator[Unknown]:
        for run_id, raters in self.by_run.items():
            if run_id not in self.used:
                first = next(iter(raters.values()))[0]
                yield Unknown(first, run_id, sum(len(record["step_labels"]) for _, record in raters.values()))


def role(record: JSON) -> str | None:
    """`traces` or `labels` if this reader can read the record, else None."""
    if not isinstance(record, dict) or not isinstance(record.get("step_labels"), dict):
        return None
    if isinstance(record.get("messages"), list):
        return "traces"
    return "labels" if "record_id" in record or "query_index" in record else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Records that cannot be read are left out.

    Raises:
        TraceError: label files without labels, or two different sets of one rater for one run.
    """
    labels = _load(options)
    for where, record in read_files(paths, options.report):
        try:
            trace, row = _row(record, where, options)
        except TraceError as error:
            options.report.leave_out(error)
            continue
        labels.used.add(trace.trace_id)
        given = labels.by_run.get(trace.trace_id, {})
        if RATER in given and _said(given[RATER][1]) != _said(record):
            raise TraceError(f"{given[RATER][0]}: other labels of {trace.trace_id!r} than those at {where}")
        others = [
            _labelled(trace, (place, one), rater, options) for rater, (place, one) in given.items() if rater != RATER
        ]
        yield where, reduce(add_raters, others, row)
    refuse_unknown(options, labels.unused())


def _load(options: ReadOptions) -> _Labels:
    labels, report = _Labels(), options.report
    for where, record in read_files(options.labels, report):
        if role(record) is None or "explanations" in record:
            accepted = "accepted is {record_id, step_labels, final_label} of a person"
            report.leave_out(TraceError(f"{where}: no labels of AgentProcessBench: {accepted}"))
            continue
        if record.get("status", "done") != "done":
            report.add("labels that their rater has not finished, left out", where)
            continue
        rater = mend_value(str(record.get("username") or record.get("annotator") or RATER).strip(), where, options)
        raters = labels.by_run.setdefault(_id(record, where), {})
        first, known = raters.setdefault(rater, (where, record))
        if known is record or _said(known) == _said(record):
            continue
        before, after = seconds(known.get("updated_at")), seconds(record.get("updated_at"))
        if before is None or after is None or before == after:
            raise TraceError(f"{where}: other labels of {rater!r} for {_id(record, where)!r} than at {first}")
        report.add("labels that their rater has changed, the newest taken", where)
        if after > before:
            raters[rater] = where, record
    options.need_labels(bool(labels.by_run))
    return labels


def _said(record: Mapping[str, JSON]) -> tuple[JSON, JSON]:
    return {step: value for step, value in record["step_labels"].items() if value is not None}, record.get(
        "final_label"
    )


def _id(record: Mapping[str, JSON], where: str) -> str:
    if record.get("record_id") not in (None, ""):
        return str(record["record_id"]).strip()
    parts = [record.get(name) for name in ("data_source", "query_index", "sample_index")]
    if None in parts or "" in parts:
        raise TraceError(
            f"{where}: accepted is a record with a record_id, or data_source, query_index and sample_index"
        )
    return ":".join(str(part).strip() for part in parts)


def _row(record: JSON, where: str, options: ReadOptions) -> tuple[Trace, LabeledTrace]:
    if not isinstance(record, dict) or role(record) != "traces":
        raise TraceError(
            f"{where}: not a run of AgentProcessBench: accepted is {{messages: [...], step_labels: {{...}}, ...}}"
        )
    trace_id = mend_value(_id(record, where), where, options)
    spans = chat_spans(record["messages"], "messages", where, options, record.get("tools"))
    trace = build_trace(trace_id, spans, "none", where, options)
    for name in _STRIPPED:
        options.report.strip(name, record.get(name) is not None)
    row = _labelled(trace, (where, record), RATER, options)
    answer = {name: record[name] for name in ("question", "answer_text") if record.get(name) is not None}
    reference = _reference(record.get("ground_truth"))
    return trace, LabeledTrace(
        trace=trace,
        errors=row.errors,
        scores=row.scores,
        group=trace_id.rpartition(":")[0] or trace_id,
        clean=row.clean,
        reference=mend_value(reference, f"{where}, ground_truth", options),
        metadata={"source": "agent_process_bench", **mend_value(answer, where, options), **row.metadata},
        raters=row.raters,
    )


def _reference(truth: JSON) -> str | None:
    """The accepted answers, one a line; anything else as JSON."""
    answers = truth.get("target", truth) if isinstance(truth, dict) else truth
    if isinstance(answers, list) and all(isinstance(one, str | int | float) for one in answers):
        return "\n".join(map(str, answers)) or None
    return answers if isinstance(answers, str | None) else json.dumps(answers, ensure_ascii=False)


def _labelled(trace: Trace, given: tuple[str, Mapping[str, JSON]], rater: str, options: ReadOptions) -> LabeledTrace:
    """What one rater said of a run."""
    where, record = given
    time, final = seconds(record.get("updated_at")), _sign(record.get("final_label"))
    own = {span.span_id for span in trace.spans if span.kind is SpanKind.LLM}
    values: dict[str, int] = {}
    errors: list[ErrorLabel] = []
    for step in sorted(record["step_labels"], key=lambda key: (len(key), key)):
        place, said = f"{where}, step_labels.{step}", record["step_labels"][step]
        if said is None:  # a column that other rows of a table have
            continue
        value, span_id = _sign(said), step_span(step, FIRST, trace)
        if value is None:
            error = TraceError(f"{place}: is {said!r}: accepted are 1, 0 and -1")
            options.report.leave_out(error, LABEL)
            continue
        if span_id not in own:
            no_span(options, place, trace.trace_id, f"message {step}, which is none of the agent's")
            span_id = None
        else:
            values[str(span_id)] = value
        if value < 1:
            category = options.category(WRONG if value else NO_PROGRESS, place)
            is_first = value and final == -1 and not any(error.impact is Impact.HIGH for error in errors)
            impact = Impact.HIGH if is_first else _IMPACTS[WRONG if value else NO_PROGRESS]
            dimensions = options.taxonomy.dimensions_of(category)
            errors.append(ErrorLabel(span_id, dimensions, category, impact, rater=rater, time=time))
    unread = len(own - values.keys())
    options.report.add("message of the agent that its rater has not labelled", f"{where}, {trace.trace_id}", unread)
    score = None if final is None else _FINAL_SCORES.get(final)
    return LabeledTrace(
        trace=trace,
        errors=tuple(errors),
        scores=() if score is None else (ScoreLabel("goal_fulfillment", score, rater, time),),
        clean="partial" if unread else "checked",
        metadata={f"step labels of {rater}": values},
        raters=() if unread else (rater,),
    )


def _sign(value: JSON) -> int | None:
    """1, 0 or -1, also as text or 1.0; None for anything else."""
    if isinstance(value, bool):
        return None
    return {"1": 1, "+1": 1, "0": 0, "-1": -1}.get(str(value).strip().removesuffix(".0"))
