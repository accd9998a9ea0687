"""MP-Bench: runs of teams of agents, each read by several people who marked every step that they hold for a failure.

A file `<annotator>/<manual|automatic>/<run>.json` is what one person said of one run, in one of two forms:
- with the log, `{history: [{role, content, step, fail_annotation, fail_category, fail_reason, ideal_action}], question,
  ground_truth, is_correct, system_prompt}`, as the benchmark's own script builds it;
- without it, `{log_source, annotation: [{step, fail_annotation, ...}]}`, as published: these are labels of the files
  of Who&When that `log_source` ends with (`Hand-Crafted/1.json`).
The files of one run become one trace with one rater each. Only the texts and names of `history`, `question` and
`system_prompt` become a trace; `ground_truth` is the reference, and it, `is_correct` and all of `fail_*` and
`ideal_action` are kept from it. Steps count from 0 over all messages.

No impact is given: every failure counts as medium. What a model made of the annotations (`unified_...`) is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from urllib.parse import unquote

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import text_of
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.readers import who_and_when
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.labels.joining import Unknown, no_span, refuse_unknown
from labeled_traces.readers.mending.repair import mend_value
from labeled_traces.readers.report import LABEL, ReadOptions
from labeled_traces.readers.spans.chat import ROOT, add_raters, step_span, turns_of
from labeled_traces.task_group import task_group
from labeled_traces.trace import JSON, Trace, TraceError

FIRST = 0
FAILURE = "Failure"
"""The category of a marked step without one."""
SPLITS = ("manual", "automatic")
_MARK = "fail_annotation"
_STRIPPED = ("ground_truth", "is_correct")
_STRIPPED_OF_STEPS = (_MARK, "fail_category", "fail_reason", "ideal_action")


@dataclass
class _Beside:
    """Labels without a log: the end of the log's address -> rater -> place and steps."""

    by_log: dict[str, dict[str, tuple[str, Sequence[JSON]]]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def unused(self) -> Iterator[Unknown]:
        for log, raters in self.by_log.items():
            if log not in self.used:
                place = next(iter(raters.values()))[0]
                yield Unknown(
                    place, log, sum(_is_marked(step) is True for _, steps in raters.values() for step in steps)
                )


def role(record: JSON) -> str | None:
    """`traces` or `labels` if this reader can read the record, else None."""
    if not isinstance(record, dict):
        return None
    if "log_source" in record and isinstance(record.get("annotation"), list):
        return "labels"
    history = record.get("history")
    marked = isinstance(history, list) and any(isinstance(step, dict) and _MARK in step for step in history)
    return "traces" if marked else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs, one for each run. Records that cannot be read are left out.

    Raises:
        TraceError: label files without labels, or two different sets of one rater for one run.
    """
    beside = _load(options)
    runs: dict[tuple[str, str], list[Path]] = {}
    for path in paths:
        runs.setdefault((path.parent.name if path.parent.name in SPLITS else str(path.parent), path.name), []).append(
            path
        )
    for files in runs.values():
        rows: dict[str, tuple[str, LabeledTrace]] = {}
        for path in files:
            for where, record in read_files([path], options.report):
                try:
                    row = _row(record, path, beside, where, options)
                    if row.trace_id in rows:
                        first, known = rows[row.trace_id]
                        rows[row.trace_id] = first, _joined(known, row, where)
                    else:
                        rows[row.trace_id] = where, row
                except TraceError as error:
                    options.report.leave_out(error)
        yield from rows.values()
    refuse_unknown(options, beside.unused())


def _load(options: ReadOptions) -> _Beside:
    beside = _Beside()
    for path in options.labels:
        for where, record in read_files([path], options.report):
            try:
                if role(record) != "labels":
                    raise TraceError(f"{where}: no labels of MP-Bench: accepted is {{log_source, annotation: [...]}}")
                rater = _rater(record, path, where)
            except TraceError as error:
                options.report.leave_out(error)
                continue
            log = _tail(unquote(str(record["log_source"])).rstrip("/").split("/"))
            first, known = beside.by_log.setdefault(log, {}).setdefault(rater, (where, record["annotation"]))
            if known != record["annotation"]:
                raise TraceError(f"{where}: other labels of {rater!r} for {log!r} than at {first}")
    options.need_labels(bool(beside.by_log))
    return beside


def _tail(parts: Sequence[str]) -> str:
    return "/".join(parts[-2:])


def _rater(record: Mapping[str, JSON], path: Path, where: str) -> str:
    """The record's own word, else the folder of the annotator."""
    own = next((record[key] for key in ("annotator", "annotator_id", "rater") if record.get(key) is not None), None)
    name = str(own).strip() if own is not None else path.parent.parent.name if path.parent.name in SPLITS else ""
    if not name:
        raise TraceError(
            f"{where}: who annotated is unknown: accepted are files <annotator>/<manual or automatic>/<run>.json, or "
            "an annotator in the record"
        )
    return f"MP-Bench {name}"


def _row(record: JSON, path: Path, beside: _Beside, where: str, options: ReadOptions) -> LabeledTrace:
    """What one person said of a run; or a run of Who&When with all that was said of it."""
    if role(record) == "traces":
        return _annotated(record, path, where, options)
    if who_and_when.role(record) is None:
        raise TraceError(
            f"{where}: not a run of MP-Bench: accepted is {{history: [{{role, content, fail_annotation, ...}}]}}, or a "
            "run of Who&When beside labels {log_source, annotation: [...]}"
        )
    row, log = who_and_when.labelled(record, where, options), _tail(path.parts)
    beside.used.add(log)
    said = [
        _labelled(row.trace, steps, rater, place, options)
        for rater, (place, steps) in beside.by_log.get(log, {}).items()
    ]
    return reduce(add_raters, said, row)


def _annotated(record: Mapping[str, JSON], path: Path, where: str, options: ReadOptions) -> LabeledTrace:
    split = f"{path.parent.name}-" if path.parent.name in SPLITS else ""
    given = str(record.get("trace_id") or record.get("id") or f"{split}{path.stem}").strip()
    trace_id = mend_value(f"mp-{given}", where, options)
    turns = turns_of(record["history"], "history", where, options)
    question = record.get("question")
    trace = who_and_when.team_trace(trace_id, turns, question, record.get("system_prompt"), where, options)
    for name in _STRIPPED:
        options.report.strip(name, record.get(name) is not None)
    for name in _STRIPPED_OF_STEPS:
        options.report.strip(f"history.{name}", sum(name in step for step in record["history"]))
    steps = [{**step, "step": index} for index, step in enumerate(record["history"])]
    row = _labelled(trace, steps, _rater(record, path, where), where, options)
    truth = record.get("ground_truth")
    failed = record.get("is_correct") is False
    return LabeledTrace(
        trace=trace,
        errors=row.errors,
        scores=(ScoreLabel("goal_fulfillment", 0, "MP-Bench"),) if failed else (),
        group=_group(mend_value(question, f"{where}, question", options), trace),
        clean=row.clean,
        reference=None if truth in (None, "") else mend_value(text_of(truth), f"{where}, ground_truth", options),
        metadata={"source": "mp_bench"},
        raters=row.raters,
    )


def _group(question: JSON, trace: Trace) -> str:
    """All runs of a question, whichever team asked it of itself."""
    root = trace.by_id[ROOT]
    return task_group(Trace(trace.trace_id, (replace(root, inputs=question),)) if question else trace)


def _joined(known: LabeledTrace, row: LabeledTrace, where: str) -> LabeledTrace:
    again = {*known.raters, *(error.rater for error in known.errors)} & {*row.raters, *(e.rater for e in row.errors)}
    if again and {*row.errors} - {*known.errors}:
        raise TraceError(f"{where}: other labels of {min(again)!r} for {row.trace_id!r} than those read before")
    return add_raters(known, row)


def _labelled(trace: Trace, steps: Sequence[JSON], rater: str, where: str, options: ReadOptions) -> LabeledTrace:
    """What one person said of a run."""
    errors, lost = [], False
    for number, raw in enumerate(steps):
        place = f"{where}, step {number}"
        marked = _is_marked(raw)
        if marked is None:
            accepted = "accepted is {step, fail_annotation: 0 or 1, ...}"
            options.report.leave_out(TraceError(f"{place}: no annotation: {accepted}"), LABEL)
            lost = True
        elif not marked and any(raw.get(name) for name in _STRIPPED_OF_STEPS[1:]):
            options.report.add("reason of a step that is not marked as a failure, left out", place)
        elif marked:
            errors.append(_error(mend_value(raw, place, options), trace, rater, place, options))
    return LabeledTrace(trace, tuple(errors), clean="partial" if lost else "checked", raters=() if lost else (rater,))


def _is_marked(step: JSON) -> bool | None:
    """None if the step is no annotation; a step that has no mark was not marked."""
    if not isinstance(step, dict):
        return None
    said = str(step.get(_MARK) or "0").strip().casefold()
    return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}.get(said)


def _error(step: Mapping[str, JSON], trace: Trace, rater: str, where: str, options: ReadOptions) -> ErrorLabel:
    span_id = step_span(step.get("step"), FIRST, trace)
    if span_id is None:
        no_span(options, where, trace.trace_id, f"step {step.get('step')}")
    category = options.category(str(step.get("fail_category") or FAILURE).strip(), where)
    ideal = str(step.get("ideal_action") or "").strip()
    texts = [str(step.get("fail_reason") or "").strip(), f"Better: {ideal}" if ideal else ""]
    return ErrorLabel(
        span_id=span_id,
        dimensions=options.taxonomy.dimensions_of(category),
        category=category,
        impact=Impact.MEDIUM,
        description="\n".join(text for text in texts if text),
        rater=rater,
    )
