"""What every reader keeps to. A new one needs a sample, see conftest.py beside this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from judges.render import render
from labeled_traces.dataset import Dataset, LabeledTrace, to_json
from labeled_traces.readers import READERS, read, sniff
from labeled_traces.readers.report import RECORD
from labeled_traces.trace import JSON, SpanKind
from pipeline.cli import main

if TYPE_CHECKING:
    from tests.labeled_traces.readers.conftest import Sample

GOAL = "Find the opening hours of the city library and write them down."
ROLE = "You are a careful research agent."
TOKENS = 100_000
_TEAM = "a team that works by words: what is called and how stands in them"
WITHOUT = {
    ("dataset", "answer"): "a row of ours holds its answer in `reference`, apart from the trace",
    ("smolagents", "answer"): "a memory holds what its agent did and nothing else",
    ("smolagents", "schema"): "a memory has no schemas, its prompts describe the tools in words",
    ("agentrx", "schema"): "a run of tau-bench does not hold the tools",
    ("agent_error_bench", "schema"): "its prompts describe the tools in words",
    ("agent_error_bench", "call"): "its agents call tools in words",
    ("agent_error_bench", "failure"): "what a tool gave back stands in a prompt",
    **{(name, what): _TEAM for name in ("who_and_when", "mp_bench") for what in ("schema", "call")},
}
"""What a format does not have, with the reason. To have it all the same fails, too."""


def holds(rows: list[LabeledTrace], what: str) -> bool:
    spans = [span for row in rows for span in row.trace.spans]
    tools = [span for span in spans if span.kind is SpanKind.TOOL]
    written = json.dumps([[span.inputs, span.outputs] for span in spans])
    found = {
        "role": ROLE in written,
        "schema": '"description": "what to look for"' in written,
        "call": any(
            isinstance(span.inputs, dict) and span.inputs and "opens at nine" in str(span.outputs) for span in tools
        ),
        "failure": any(
            span.status == "ERROR" and "timeout of the search" in f"{span.error}{span.outputs}" for span in tools
        ),
    }
    return found[what]


def test_no_other_reader_takes_a_record_for_its_own(sample: Sample) -> None:
    for record in sample.records["traces"]:
        assert {name for name, reader in READERS.items() if reader.role(record)} == {sample.name}
        assert READERS[sample.name].role(record) == "traces"
    for record in sample.records.get("labels", ()):
        assert "traces" not in {reader.role(record) for reader in READERS.values()}
    assert sniff(sample.path) == sample.name


@pytest.mark.parametrize("odd", [None, 1, "x", [], {}, [1], {"data": 3}, {"trace": None}, {"spans": 0}, {"info": []}])
def test_a_role_is_told_of_anything(odd: JSON) -> None:
    assert {reader.role(odd) for reader in READERS.values()} == {None}


def test_what_a_judge_needs_is_there(sample: Sample) -> None:
    dataset, report = sample.imported
    rows = list(dataset)
    for row in rows:
        agents = [span for span in row.trace.walk() if span.kind is SpanKind.AGENT]
        assert GOAL in json.dumps(agents[0].inputs), "the goal is the input of the first agent"
        assert agents[0].outputs, "its answer"
        assert SpanKind.LLM in {span.kind for span in row.trace.spans}
    for what in ("role", "schema", "call", "failure"):
        assert holds(rows, what) == ((sample.name, what) not in WITHOUT), what
    assert bool(report.stripped) == ((sample.name, "answer") not in WITHOUT), "what was kept from judges is listed"
    if sample.labels or sample.name in ("dataset", "mlflow", "agent_error_bench", "mp_bench"):
        assert any(error.span_id for row in rows for error in row.errors), "labels stand at their spans"
    assert not report.unjoined
    assert not report.unmapped


def test_no_answer_is_in_a_span(sample: Sample) -> None:
    for row in sample.imported[0]:
        assert "ANSWER" not in json.dumps(to_json(row)["trace"])
        assert "ANSWER" not in render(row.trace, TOKENS).text


def test_all_that_was_said_is_there(sample: Sample) -> None:
    written = sample.text(sample.imported[0])
    assert [words for words in sample.said(list(sample.records.values())) if words not in written] == []


def test_ids_are_canonical_and_trees_are_whole(sample: Sample) -> None:
    dataset, report = sample.imported
    for row in dataset:
        assert len(row.trace.roots) == 1
        assert list(row.trace.walk()) == list(row.trace.spans), "in the order in which they happened"
        if sample.name in ("mlflow", "openinference", "otlp", "trail"):
            assert {f"{number:016x}" for number in (0xA1, 0xB1, 0xC1, 0xB2, 0xC2, 0xB3)} <= row.trace.by_id.keys()
    assert not [kind for kind in report.counts if "parent" in kind or "id" in kind.split()]


def test_reading_again_and_in_another_order_gives_the_same(sample: Sample, tmp_path: Path) -> None:
    assert sample.read(sample.path, sample.labels)[0].hash == sample.imported[0].hash
    files = {part: tmp_path / part / sample.path.name for part in sample.records}
    for part, path in files.items():
        path.parent.mkdir()
        turned_records = map(_turned, reversed(sample.records[part]))
        path.write_text("".join(f"{json.dumps(one)}\n" for one in turned_records))
    turned, _ = sample.read(files["traces"], files.get("labels"))
    assert {row.trace_id: row.trace for row in turned} == {row.trace_id: row.trace for row in sample.imported[0]}
    for row in turned:
        assert set(row.errors) == set(sample.imported[0][row.trace_id].errors)


def _turned(value: JSON) -> JSON:
    """With its spans in another order; a row of ours holds them in the order in which they happened."""
    if not isinstance(value, dict) or {"trace", "errors"} <= value.keys():
        return value
    kinds = ("spans", "child_spans", "observations", "data", "resourceSpans", "scopeSpans")
    return {
        key: [_turned(one) for one in reversed(item)] if key in kinds and isinstance(item, list) else _turned(item)
        for key, item in value.items()
    }


def test_what_the_command_writes_is_read_again_as_it_is(sample: Sample, tmp_path: Path) -> None:
    out = tmp_path / "data.jsonl"
    labels = ["--labels", str(sample.labels)] if sample.labels else []
    assert main(["import", str(sample.path), *labels, "--out", str(out), "--strict"]) == 0
    assert Dataset.load(out).hash == read(out)[0].hash == sample.imported[0].hash


def test_every_record_is_read_or_listed(sample: Sample, tmp_path: Path) -> None:
    records = sample.records["traces"]
    junk = [{"junk": True}, 7, "text", None, [], {"trace_id": 5, "spans": 3}, '{"half": ']
    lines = [*map(json.dumps, records), *map(json.dumps, junk[:-1]), str(junk[-1])]
    path = tmp_path / sample.path.name
    path.write_text("".join(f"{line}\n" for line in lines))
    dataset, report = sample.read(path, sample.labels)
    assert dataset.hash == sample.imported[0].hash
    assert report.counts[RECORD] == 6, "an empty list holds no record"
    assert report.examples[RECORD][0].startswith(f"{path}, line {len(records) + 1}")
