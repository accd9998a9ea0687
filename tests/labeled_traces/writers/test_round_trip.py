"""What is written and read back is the same row, and a judge reads the same text."""

from __future__ import annotations

import json
import string
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from judges.render import render
from labeled_traces.dataset import CLEAN, LabeledTrace, to_json
from labeled_traces.label import DIMENSIONS, SCORES, ErrorLabel, Impact, ScoreLabel
from labeled_traces.readers import read
from labeled_traces.simulated import rate, simulate
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError
from labeled_traces.writers import WRITERS, write

ALL = 10_000_000
both = pytest.mark.parametrize("form", WRITERS)


def written(rows: list[LabeledTrace], form: str, folder: Path) -> dict[str, LabeledTrace]:
    write(rows, form, folder / "written.jsonl")
    dataset, _ = read(folder / "written.jsonl")
    return {row.trace_id: row for row in dataset}


def sorted_labels(row: LabeledTrace) -> JSON:
    """All of a row; MLflow's assessments come back by time, so the order of labels does not count."""
    record = to_json(row)
    return record | {name: sorted(record[name], key=json.dumps) for name in ("errors", "scores")}


def check(rows: list[LabeledTrace], back: dict[str, LabeledTrace]) -> None:
    assert list(back) == [row.trace_id for row in rows]
    for row in rows:
        assert render(back[row.trace_id].trace, ALL) == render(row.trace, ALL)
        assert json.dumps(sorted_labels(back[row.trace_id])) == json.dumps(sorted_labels(row))


@both
def test_simulated_traces(form: str, tmp_path: Path) -> None:
    rows = rate(simulate(30, seed=5), seed=6)
    assert sum(len(row.errors) for row in rows) > 10
    check(rows, written(rows, form, tmp_path))


@both
def test_the_standard_attributes_alone_carry_what_a_judge_sees(form: str, tmp_path: Path) -> None:
    rows = simulate(30, seed=7)
    write(rows, form, tmp_path / "a.jsonl")
    text = (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    assert "gpa_judges.original" in text
    (tmp_path / "a.jsonl").write_text(text.replace("gpa_judges.original", "other"), encoding="utf-8")
    dataset, _ = read(tmp_path / "a.jsonl")
    assert [render(row.trace, ALL).text for row in dataset] == [render(row.trace, ALL).text for row in rows]


@both
def test_the_samples_of_other_systems(form: str, tmp_path: Path, shared_data: Path) -> None:
    done = 0
    for path in sorted((shared_data / "formats").rglob("*.json*")):
        try:
            rows = list(read(path)[0])
        except TraceError:
            continue
        check(rows, written(rows, form, tmp_path))
        done += 1
    assert done >= 8


texts = st.text(st.one_of(st.characters(), st.sampled_from('\x00\ud800"\\{[\n0 ')), max_size=12)
ids = st.one_of(
    st.text(string.hexdigits, min_size=16, max_size=16), st.text(st.characters(), min_size=1, max_size=4)
).filter(str.strip)
times = st.one_of(st.none(), st.floats(0, 4e9), st.integers(0, 4 * 10**9))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
calls = st.fixed_dictionaries({"name": texts, "arguments": values}, optional={"id": texts})
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": st.one_of(texts, st.none())},
    optional={"tool_calls": st.lists(calls, max_size=2), "name": texts, "tool_call_id": texts},
)
contents = st.one_of(
    values,
    st.fixed_dictionaries({"messages": st.lists(messages, max_size=3)}, optional={"tools": st.lists(values)}),
)


@st.composite
def labelled_traces(draw: st.DrawFn) -> LabeledTrace:
    names = draw(st.lists(ids, min_size=1, max_size=5, unique=True))
    spans = []
    for number, span_id in enumerate(names):
        spans.append(
            Span(
                span_id=span_id,
                parent_id=draw(st.sampled_from([None, *names[:number]])),
                name=draw(texts),
                kind=draw(st.sampled_from(SpanKind)),
                start=draw(times),
                end=draw(times),
                inputs=draw(contents),
                outputs=draw(contents),
                status=draw(st.sampled_from(["OK", "ERROR", "UNSET"])),
                error=draw(st.one_of(st.none(), texts)),
                attributes=draw(st.dictionaries(st.sampled_from(["llm.model_name", "llm.token_count", "x"]), values)),
            )
        )
    errors = st.builds(
        ErrorLabel,
        st.sampled_from([None, *names]),
        st.lists(st.sampled_from(list(DIMENSIONS)), max_size=2, unique=True).map(tuple),
        texts,
        st.sampled_from(Impact),
        texts,
        texts,
        texts,
        times,
    )
    scores = st.builds(ScoreLabel, st.sampled_from(list(DIMENSIONS)), st.sampled_from(SCORES), texts, times)
    return LabeledTrace(
        trace=Trace(draw(ids).strip(), tuple(spans), draw(st.dictionaries(texts, values, max_size=2))),
        errors=tuple(draw(st.lists(errors, max_size=3))),
        scores=tuple(draw(st.lists(scores, max_size=2))),
        group=draw(texts),
        clean=draw(st.sampled_from(CLEAN)),
        reference=draw(st.one_of(st.none(), texts)),
        metadata=draw(st.dictionaries(texts, values, max_size=2)),
        raters=tuple(draw(st.lists(texts, max_size=2, unique=True))),
    )


@both
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(row=labelled_traces())
def test_any_trace(form: str, row: LabeledTrace, tmp_path_factory: pytest.TempPathFactory) -> None:
    # A file of traces without any content is refused, whoever wrote it.
    assume(any(value not in (None, "", [], {}) for span in row.trace.spans for value in (span.inputs, span.outputs)))
    folder = tmp_path_factory.mktemp("written")
    check([row], written([row], form, folder))


@both
def test_traces_whose_ids_would_be_the_same_in_hex(form: str, tmp_path: Path) -> None:
    (row,) = simulate(1, seed=1)
    hexes = "0123456789abcdef" * 2
    rows = [replace(row, trace=replace(row.trace, trace_id=name)) for name in (hexes, f"tr-{hexes}", "x")]
    check(rows, written(rows, form, tmp_path))


@both
def test_the_same_ids_at_each_conversion(form: str, tmp_path: Path) -> None:
    rows = simulate(2, seed=3)
    for name in ("a", "b"):
        write(rows, form, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@both
def test_without_labels_nothing_that_people_said_or_know_is_written(form: str, tmp_path: Path) -> None:
    (row,) = simulate(1, seed=3)
    error = ErrorLabel(row.trace.spans[0].span_id, ("tool_calling",), "c", Impact.LOW, "says why", rater="ann")
    row = replace(row, errors=(error,), reference="the gold answer", metadata={"reward": 1})
    write([row], form, tmp_path / "a.jsonl", labels=False)
    back = next(iter(read(tmp_path / "a.jsonl")[0]))
    assert (back.errors, back.scores, back.reference, back.metadata, back.clean) == ((), (), None, {}, "unknown")
    assert render(back.trace, ALL) == render(row.trace, ALL)
    assert "ann" not in (tmp_path / "a.jsonl").read_text(encoding="utf-8").split('"')
