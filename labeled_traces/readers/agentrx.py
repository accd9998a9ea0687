"""AgentRx: runs of tau-bench and of Magentic-One with people's step labels.

A run of tau-bench is `{task_id, trial, reward, traj: [chat messages], info, ...}`; only `traj` becomes a trace, since
`info`, `records` and `reward` hold the answer. A run of Magentic-One is a file with a list of `{role, content}` and the
id of its task as its name; the roles are those of a team (`human`, `Orchestrator (-> WebSurfer)` ...). Steps of labels
count from 1, see `labels/agentrx.py`.

The runs of Magentic-One are those of Who&When's hand-crafted part, and have the same ids and groups. Given as labels,
its files add what that second team said. Each of the runs failed: that is its score of goal fulfillment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel
from labeled_traces.readers import who_and_when
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.labels.agentrx import LIST, about, errors_of, is_labels, load
from labeled_traces.readers.labels.by_run import RunLabels
from labeled_traces.readers.labels.joining import Unknown, refuse_unknown
from labeled_traces.readers.mending.repair import build_trace, mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.chat import add_raters, chat_spans
from labeled_traces.trace import JSON, TraceError


def role(record: JSON) -> str | None:
    """`traces` or `labels` if this reader can read the record, else None."""
    if is_labels(record):
        return "labels"
    if isinstance(record, dict) and "traj" in record:
        return "traces"
    return "traces" if _is_turn(record) else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Labels join failed runs by task id, or any run by trace id (`tau-<task>-<trial>`).

    Raises:
        TraceError: labels that fit several runs, or label files without labels. Records that cannot be read are
            left out.
    """
    others: dict[str, tuple[str, LabeledTrace]] = {}
    labels = load(_own_labels(others, options), options)
    options.need_labels(bool(labels.by_run or others))
    for path in paths:
        for where, record in _runs(path, options):
            try:
                if isinstance(record, list):
                    row = who_and_when.magentic_row(path.stem, record, where, options, labels)
                    if row.trace_id in others:
                        row = add_raters(row, others.pop(row.trace_id)[1])
                    key = None
                else:
                    row, key = _row(record, labels, where, options)
            except TraceError as error:
                options.report.leave_out(error)
                continue
            if key is not None:
                labels.use(key, row.trace_id, where)
            yield where, row
    left = (Unknown(place, row.trace_id, len(row.errors)) for place, row in others.values())
    refuse_unknown(options, chain(labels.unused(LIST), left))


def _own_labels(others: dict[str, tuple[str, LabeledTrace]], options: ReadOptions) -> Iterator[tuple[str, JSON]]:
    """The records of the label files; runs of Who&When among them go to `others`, with what its people said."""
    for where, record in read_files(options.labels, options.report):
        if who_and_when.role(record) is None:
            yield where, record
            continue
        try:
            row = who_and_when.labelled(record, where, options)
        except TraceError as error:
            options.report.leave_out(error)
            continue
        others[row.trace_id] = where, row


def _runs(path: Path, options: ReadOptions) -> Iterator[tuple[str, JSON]]:
    """The runs of a file: records of tau-bench one by one, or all records of the file as one run of Magentic-One."""
    records = read_files([path], options.report)
    first = next(records, None)
    if first is None:
        return
    if _is_turn(first[1]):
        yield str(path), [record for _, record in chain([first], records)]
    else:
        yield from chain([first], records)


def _is_turn(record: JSON) -> bool:
    """Whether a record is the message with which a run of Magentic-One begins."""
    if not isinstance(record, dict) or not {"role", "content"} <= record.keys() <= {"role", "content", "name"}:
        return False
    return isinstance(record["role"], str) and record["role"].strip().startswith(("human", "Orchestrator"))


def _row(
    record: Mapping[str, JSON], labels: RunLabels, where: str, options: ReadOptions
) -> tuple[LabeledTrace, str | None]:
    """The row, and the trajectory_id of the labels that it took."""
    if role(record) != "traces":
        raise TraceError(
            f"{where}: not a tau-bench run: accepted is {{task_id, trial, reward, traj: [...]}}, or a file with a list "
            "of {role, content} from Magentic-One"
        )
    names = [record.get("task_id"), record.get("trial")]
    task, trial = ("" if name is None else mend_value(str(name).strip(), where, options) for name in names)
    if not task:
        raise TraceError(f"{where}, task_id: is missing: accepted is a number or a text")
    trace_id = f"tau-{task}-{trial}".removesuffix("-")
    trace = build_trace(trace_id, chat_spans(record["traj"], "traj", where, options), "none", where, options)
    _note_stripped(record, options)
    reward = record.get("reward")
    passed = isinstance(reward, int | float) and reward >= 1
    key = trace_id if trace_id in labels.by_run else task if task in labels.by_run and not passed else None
    errors: tuple[ErrorLabel, ...] = ()
    lost = False
    metadata: dict[str, JSON] = {"source": "agentrx", "reward": reward}
    if key is not None:
        found = labels.by_run[key][1]
        errors = errors_of(labels, key, trace)
        lost = len(errors) < len(found[LIST])
        metadata.update(about(found, labels.by_run[key][0], options))
    elif not passed:
        options.report.without_labels("failed run without labels", trace_id, f"{where}, {trace_id}")
    row = LabeledTrace(
        trace=trace,
        errors=errors,
        group=f"tau-{task}",
        clean="checked" if key is not None and not lost else "presumed" if passed else "unknown",
        reference=mend_value(_reference(record), f"{where}, reference", options),
        metadata=mend_value(metadata, where, options),
    )
    return row, key


def _note_stripped(record: Mapping[str, JSON], options: ReadOptions) -> None:
    info = record.get("info")
    info = info if isinstance(info, dict) else {}
    task = info.get("task")
    inside = [f"info.task.{name}" for name in task] if isinstance(task, dict) else []
    beside = [f"info.{name}" for name in info if name != "task"]
    for name in ("reward", *(["records"] if "records" in record else []), *inside, *beside):
        options.report.strip(name)


def _reference(record: Mapping[str, JSON]) -> str | None:
    info = record.get("info")
    task = info.get("task") if isinstance(info, dict) else None
    outputs = task.get("outputs") if isinstance(task, dict) else None
    return "\n".join(str(output) for output in outputs) or None if isinstance(outputs, list) else None
