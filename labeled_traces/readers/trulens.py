"""Events of TruLens: a span a row, `{record, record_attributes, trace, ...}`, with attributes `ai.observability.*`.

What a person gave as the answer is the reference. What metrics said of a run is no part of it: it goes to the metadata.
Span ids are integers and stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import decoded, first
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.mending.repair import mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.otel_traces import read_traces
from labeled_traces.trace import JSON, TraceError

ID_FORM = "int"
_SCOPE = "ai.observability."
_TRUTH = f"{_SCOPE}record_root.ground_truth_output"
_EVALUATIONS = ("eval", "eval_root")
_SAID = ("metric_name", "score", "explanation", "criteria", "llm_judge_name")


def role(record: JSON) -> str | None:
    """`traces` if the record is an event of TruLens, else None."""
    return "traces" if isinstance(record, dict) and {"record_attributes", "trace"} <= _lower(record).keys() else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Records that cannot be read are left out."""
    about = _About()
    for where, row in read_traces(_spans(paths, about, options), Counter(), options, ID_FORM):
        answer, said = about.answers.get(row.trace_id), about.said.get(about.records.get(row.trace_id, ""))
        metadata = {**row.metadata, **({"evaluations": mend_value(said, where, options)} if said else {})}
        about.used.add(about.records.get(row.trace_id, ""))
        yield where, replace(row, reference=mend_value(answer, where, options), metadata=metadata)
    left = sum(len(said) for record_id, said in about.said.items() if record_id not in about.used)
    options.report.add("evaluation of a record that was not read, left out", str(paths[0]), left)


class _About:
    """What people and metrics said: answers by trace, ids of records by trace, evaluations by record."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        self.records: dict[str, str] = {}
        self.said: dict[str, list[JSON]] = {}
        self.used: set[str] = set()


def _spans(
    paths: Sequence[Path], about: _About, options: ReadOptions
) -> Iterator[tuple[str, Mapping[str, JSON], Path]]:
    for path in paths:
        for where, given in read_files([path], options.report):
            event = {key: decoded(value) for key, value in _lower(given).items()} if role(given) else {}
            attributes, ids = event.get("record_attributes"), event.get("trace")
            if not isinstance(attributes, dict) or not isinstance(ids, dict):
                accepted = "accepted is {record: {name, ...}, record_attributes: {...}, trace: {trace_id, span_id}}"
                options.report.leave_out(TraceError(f"{where}: not an event of TruLens: {accepted}"))
                continue
            record_id = str(attributes.get(f"{_SCOPE}record_id") or "")
            kind = attributes.get(f"{_SCOPE}span_type")
            if kind in _EVALUATIONS:
                options.report.strip(f"{_SCOPE}eval")
                said = (_evaluation(attributes, name) for name in _SAID)
                about.said.setdefault(record_id, []).append(
                    {name: value for name, value in zip(_SAID, said, strict=True) if value is not None}
                )
                continue
            trace_id = str(ids.get("trace_id") or record_id)
            if trace_id and record_id:
                about.records.setdefault(trace_id, record_id)
            if isinstance(truth := attributes.get(_TRUTH), str) and truth:
                about.answers.setdefault(trace_id, truth)
            yield where, _span(event, attributes, ids, trace_id), path


def _span(event: JSON, attributes: JSON, ids: JSON, trace_id: str) -> dict[str, JSON]:
    """The event as a span of OpenTelemetry."""
    held = event.get("record")
    record: Mapping[str, JSON] = held if isinstance(held, dict) else {}
    return {
        "name": record.get("name"),
        "context": {"trace_id": trace_id, "span_id": str(ids.get("span_id") or event.get("event_id") or "")},
        "parent_id": str(ids.get("parent_id") or record.get("parent_span_id") or "") or None,
        "start_time": event.get("start_timestamp"),
        "end_time": event.get("timestamp"),
        "status": {"status_code": record.get("status")},
        "attributes": attributes,
    }


def _evaluation(attributes: Mapping[str, JSON], name: str) -> JSON:
    return first(*(attributes.get(f"{_SCOPE}{kind}.{name}") for kind in _EVALUATIONS))


def _lower(record: JSON) -> dict[str, JSON]:
    """By the names of columns in lower case: Snowflake writes them in capitals."""
    return {str(key).lower(): value for key, value in record.items()} if isinstance(record, dict) else {}
