"""Who&When: failed runs of teams of agents, each with the one agent and step that people hold decisive.

A record is `{history: [{role, content, name?}], question, question_ID, ground_truth, mistake_agent, mistake_step,
mistake_reason, mistake_type?, level, is_correct, system_prompt: {agent: text}}`, in a file of its own or a row of the
published tables (which also write `groundtruth` and `is_corrected`). Only `history`, `question` and `system_prompt`
become a trace; `ground_truth` is the reference, and `is_correct`, `level` and all of `mistake_*` are kept from it.
`mistake_step` counts from 0.

The hand-crafted runs are runs of Magentic-One and have the ids of their questions, as AgentRx's have: AgentRx's labels,
given as labels, add what that second team said. The algorithm-generated runs of the same questions are `ag-<id>`. Both
have the question as their group.

People named one step and no kind of error: other errors may be in the run, so it is clean of nothing (`partial`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import text_of
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.readers.files.records import read_each, read_files
from labeled_traces.readers.labels import agentrx as agentrx_labels
from labeled_traces.readers.labels.by_run import RunLabels
from labeled_traces.readers.labels.joining import no_span, refuse_unknown
from labeled_traces.readers.mending.repair import build_trace, mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.chat import Turn, add_raters, speaker_of, step_span, team_spans, turns_of
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import JSON, Trace, TraceError

RATER = "Who&When"
FIRST = 0
DECISIVE = "Decisive Error"
_ANSWERS = ("ground_truth", "groundtruth")
_STRIPPED = (*_ANSWERS, "is_correct", "is_corrected", "level", "labels")


def role(record: JSON) -> str | None:
    """`traces` if this reader can read the record, else None. A record holds its own label."""
    if not isinstance(record, dict) or not isinstance(record.get("history"), list):
        return None
    return "traces" if "mistake_step" in record and "mistake_agent" in record else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs; labels are AgentRx's. Records that cannot be read are left out.

    Raises:
        TraceError: label files without labels.
    """
    labels = agentrx_labels.load(read_files(options.labels, options.report), options)
    options.need_labels(bool(labels.by_run))

    def row(record: JSON, where: str) -> LabeledTrace:
        own = labelled(record, where, options)
        return add_raters(_with_agentrx(own.trace, labels, where), own) if own.trace_id in labels.by_run else own

    yield from read_each(read_files(paths, options.report), row, options.report)
    refuse_unknown(options, labels.unused(agentrx_labels.LIST))


def magentic_row(trace_id: str, history: JSON, where: str, options: ReadOptions, labels: RunLabels) -> LabeledTrace:
    """A run of Magentic-One as AgentRx has it, with AgentRx's labels."""
    trace = team_trace(trace_id, turns_of(history, "message", where, options), None, None, where, options)
    if trace_id in labels.by_run:
        return _with_agentrx(trace, labels, where)
    options.report.without_labels("failed run without labels", trace_id, f"{where}, {trace_id}")
    return LabeledTrace(trace, group=_group(trace_id), clean="unknown", metadata={"source": "agentrx"})


def labelled(record: JSON, where: str, options: ReadOptions) -> LabeledTrace:
    """A record with its own label.

    Raises:
        TraceError: names the field that is missing or has the wrong type.
    """
    if not isinstance(record, dict) or role(record) is None:
        raise TraceError(
            f"{where}: not a run of Who&When: accepted is {{history: [...], question_ID, mistake_agent, mistake_step}}"
        )
    question_id = record.get("question_ID")
    if not isinstance(question_id, str | int) or not str(question_id).strip():
        raise TraceError(f"{where}, question_ID: is missing: accepted is a text")
    name = mend_value(str(question_id).strip(), f"{where}, question_ID", options)
    turns = turns_of(record["history"], "history", where, options)
    is_magentic = any(turn.speaker.startswith("Orchestrator") for turn in turns)
    trace_id = name if is_magentic else f"ag-{name}"
    trace = team_trace(trace_id, turns, record.get("question"), record.get("system_prompt"), where, options)
    given = [key for key in record if key.startswith("mistake_") or key in _STRIPPED]
    for key in given:
        options.report.strip(key)
    answer = next((record[key] for key in _ANSWERS if record.get(key) is not None), None)
    return LabeledTrace(
        trace=trace,
        errors=(_error(record, trace, where, _table_of(options, "who_and_when")),),
        scores=(ScoreLabel("goal_fulfillment", 0, RATER),),
        group=_group(name),
        clean="partial",
        reference=None if answer is None else mend_value(text_of(answer), f"{where}, ground_truth", options),
        metadata={"source": "who_and_when", "level": mend_value(record.get("level"), where, options)},
    )


def team_trace(
    trace_id: str, turns: list[Turn], question: JSON, prompts: JSON, where: str, options: ReadOptions
) -> Trace:
    """A run of a team. `prompts`: the system prompt of each agent, by its name."""
    goal = mend_value(question, f"{where}, question", options)
    known = options.report.mapping(prompts, "system_prompt", where)
    # A published table has a column for each agent of any run: those of other runs are null.
    agents = mend_value({name: said for name, said in known.items() if said}, f"{where}, system_prompt", options)
    return build_trace(trace_id, team_spans(turns, goal, agents), "none", where, options)


def _group(question_id: str) -> str:
    return f"question {question_id}"


def _with_agentrx(trace: Trace, labels: RunLabels, where: str) -> LabeledTrace:
    key = trace.trace_id
    labels.use(key, key, where)
    place, record = labels.by_run[key]
    own, rater = replace(labels, options=_table_of(labels.options, "agentrx")), agentrx_labels.RATER
    errors = agentrx_labels.errors_of(own, key, trace, rater)
    all_read = len(errors) == len(record[agentrx_labels.LIST])
    return LabeledTrace(
        trace=trace,
        errors=errors,
        scores=(ScoreLabel("goal_fulfillment", 0, rater),),
        group=_group(key),
        clean="checked" if all_read else "unknown",
        metadata={"source": "agentrx", **agentrx_labels.about(record, place, labels.options)},
        raters=(rater,) if all_read else (),
    )


def _table_of(options: ReadOptions, name: str) -> ReadOptions:
    """The options with the usual table of a format, unless the user brought another table than the usual ones."""
    if options.taxonomy.name not in ("agentrx", "who_and_when", "mp_bench") or options.taxonomy.name == name:
        return options
    return replace(options, taxonomy=_usual_table(name))


_usual_table = cache(load_taxonomy)


def _error(record: Mapping[str, JSON], trace: Trace, where: str, options: ReadOptions) -> ErrorLabel:
    report = options.report
    step, agent = record.get("mistake_step"), str(record.get("mistake_agent") or "").strip()
    span_id = step_span(step, FIRST, trace)
    if span_id is None:
        no_span(options, where, trace.trace_id, f"mistake_step {str(step).strip()}")
    elif speaker_of(trace, span_id).casefold() != agent.casefold():
        report.add("label of another agent than the one that acts at its step", f"{where}: {agent}, step {step}")
    texts = (record.get(key) for key in ("mistake_agent", "mistake_type", "mistake_reason"))
    said = [str(text).strip() for text in texts if text not in (None, "", "None")]
    category = options.category(DECISIVE, where)
    return ErrorLabel(
        span_id=span_id,
        dimensions=options.taxonomy.dimensions_of(category, agent),
        category=category,
        impact=Impact.HIGH,
        description=mend_value(": ".join(said), f"{where}, mistake_reason", options),
        rater=RATER,
    )
