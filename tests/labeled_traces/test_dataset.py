from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeled_traces.dataset import Dataset, LabeledTrace, from_json, read_rows, to_json
from labeled_traces.label import DIMENSIONS, NOT_PLACED, ErrorLabel, Impact, ScoreLabel
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError

TEXTS = st.text(st.characters(), max_size=8)
VALUES: st.SearchStrategy[JSON] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def rows(draw: st.DrawFn) -> LabeledTrace:
    count = draw(st.integers(1, 4))
    spans = tuple(
        Span(
            span_id=f"s{i}",
            parent_id=None if i == 0 else f"s{draw(st.integers(0, i - 1))}",
            name=draw(TEXTS),
            kind=draw(st.sampled_from(SpanKind)),
            start=draw(st.none() | st.floats(0, 2e9)),
            inputs=draw(VALUES),
            outputs=draw(VALUES),
            status=draw(st.sampled_from(["UNSET", "OK", "ERROR"])),
            error=draw(st.none() | TEXTS),
            attributes=draw(st.dictionaries(TEXTS, VALUES, max_size=2)),
        )
        for i in range(count)
    )
    errors = tuple(
        ErrorLabel(
            span_id=draw(st.none() | st.sampled_from([span.span_id for span in spans])),
            dimensions=tuple(draw(st.sets(st.sampled_from(sorted(DIMENSIONS)), max_size=2))),
            category=draw(TEXTS),
            impact=draw(st.sampled_from(Impact)),
            description=draw(TEXTS),
        )
        for _ in range(draw(st.integers(0, 2)))
    )
    return LabeledTrace(
        trace=Trace("t", spans, draw(st.dictionaries(TEXTS, VALUES, max_size=2))),
        errors=errors,
        scores=tuple(ScoreLabel("plan_quality", s) for s in draw(st.lists(st.integers(0, 3), max_size=2))),
        group=draw(TEXTS),
        clean=draw(st.sampled_from(["checked", "presumed", "unknown"])),
        reference=draw(st.none() | TEXTS),
        metadata=draw(st.dictionaries(TEXTS, VALUES, max_size=2)),
    )


def row(trace_id: str, text: str = "hello", **fields: JSON) -> LabeledTrace:
    return LabeledTrace(Trace(trace_id, (Span("a", None, "agent", SpanKind.AGENT, inputs=text),)), **fields)


@given(rows())
@settings(max_examples=100, deadline=None)
def test_json_round_trip_keeps_everything(given: LabeledTrace) -> None:
    line = json.dumps(to_json(given), allow_nan=False)
    assert "\n" not in line
    read = from_json(json.loads(line), "line 1")
    assert to_json(read) == to_json(given)
    assert read.hash == given.hash
    assert read.trace.content_hash == given.trace.content_hash
    assert read == given or any(span.error == "" for span in given.trace.spans)


def test_save_and_load(tmp_path: Path) -> None:
    error = ErrorLabel("a", ("plan_quality",), "x", Impact.LOW)
    data = Dataset([row("one", "\ud83d \u2028 \x00 🌍", errors=(error,)), row("two", group="g", reference="42")])
    data.save(tmp_path / "d.jsonl")
    loaded = Dataset.load(tmp_path / "d.jsonl")
    assert list(loaded) == list(data)
    assert loaded.hash == data.hash
    assert list(read_rows(tmp_path / "d.jsonl")) == list(data)
    assert (tmp_path / "d.jsonl").read_bytes().isascii()


def test_ids_lose_outer_space_and_are_looked_up_so() -> None:
    data = Dataset([row(" one "), row("two")])
    assert data.ids == ("one", "two")
    assert data["one\n"].trace_id == "one"
    assert "two " in data
    assert 3 not in data
    assert [r.trace_id for r in data.subset(["two"])] == ["two"]
    with pytest.raises(TraceError, match="row 2: the trace_id is blank"):
        Dataset([row("one"), row(" ")])
    with pytest.raises(TraceError, match="1 traces are not in this dataset, the first is 'three'"):
        data.subset(["one", "three"])


def test_one_id_with_other_content_names_both_places(tmp_path: Path) -> None:
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(to_json(r)) + "\n" for r in [row("one"), row("one ", "bye")]))
    with pytest.raises(TraceError, match=r"'one' is at .*d\.jsonl, line 1 and, with other content, at .*line 2"):
        Dataset.load(tmp_path / "d.jsonl")
    error = ErrorLabel("a", (), "x", Impact.LOW)
    with pytest.raises(TraceError, match="row 1 and, with other labels, at row 2"):
        Dataset([row("one"), row("one", errors=(error,))])


def test_one_row_twice_is_kept_once_and_warned_about() -> None:
    with pytest.warns(UserWarning, match="'one' is at row 1 and, unchanged, at row 3"):
        data = Dataset([row("one"), row("two"), row("one ")])
    assert data.ids == ("one", "two")


def test_hash_ignores_order_and_sees_every_label() -> None:
    one, two = row("one"), row("two")
    assert Dataset([one, two]).hash == Dataset([two, one]).hash
    assert Dataset([one, two]).hash != Dataset([one, replace(two, group="g")]).hash
    assert Dataset([one]).hash != Dataset([row("other")]).hash


def test_labels_are_checked() -> None:
    with pytest.raises(TraceError, match="trace 'one': an error label names the unknown span 'b'"):
        row("one", errors=(ErrorLabel("b", (), "x", Impact.LOW),))
    with pytest.raises(TraceError, match="clean is 'yes': accepted are checked, presumed, partial, unknown"):
        row("one", clean="yes")


def test_only_what_people_or_the_outcome_cleared_is_clean() -> None:
    assert row("a").is_clean
    assert row("a", clean="presumed").is_clean
    assert not row("a", clean="unknown").is_clean
    assert not row("a", errors=(ErrorLabel(None, (), "x", Impact.LOW),)).is_clean
    faulty = row("a", clean="unknown", errors=(ErrorLabel(None, ("plan_quality",), "x", Impact.LOW),))
    assert not faulty.is_clean_of(("plan_quality", "tool_calling"))
    assert faulty.is_clean_of(("tool_calling",)), "people looked at this run"
    scored = row("a", clean="unknown", errors=(ErrorLabel(None, ("plan_quality",), NOT_PLACED, Impact.LOW),))
    assert not scored.is_clean_of(("tool_calling",)), "a score is of one dimension"


def test_where_people_named_one_error_of_several_no_finding_is_wrong() -> None:
    decisive = row("a", clean="partial", errors=(ErrorLabel(None, ("plan_quality",), "x", Impact.HIGH),))
    assert not any(decisive.is_clean_of((name,)) or decisive.can_judge(name) for name in DIMENSIONS)
    assert len(decisive.errors_of("plan_quality")) == 1


def test_a_low_score_without_an_error_label_is_not_clean() -> None:
    trace = Trace("t", (Span("s", None, "agent", SpanKind.AGENT),))
    low = LabeledTrace(trace, scores=(ScoreLabel("plan_quality", 3), ScoreLabel("plan_quality", 1, "second")))
    assert not low.is_clean
    assert not low.is_clean_of(["plan_quality"])
    assert not low.can_judge("plan_quality")
    assert low.is_clean_of(["tool_calling"])


def test_a_best_score_clears_its_dimension_where_nothing_else_is_known() -> None:
    trace = Trace("t", (Span("s", None, "agent", SpanKind.AGENT),))
    row = LabeledTrace(trace, scores=(ScoreLabel("plan_quality", 3),), clean="unknown")
    assert [name for name in DIMENSIONS if row.can_judge(name)] == ["plan_quality"]
    assert not row.is_clean


def test_when_labels_were_given_and_who_read_the_run_come_back(tmp_path: Path) -> None:
    trace = Trace("t", (Span("s", None, "agent", SpanKind.AGENT),))
    error = ErrorLabel("s", ("plan_quality",), "slip", Impact.LOW, rater="ann", time=1_700_000_000.5)
    row = LabeledTrace(trace, (error,), (ScoreLabel("plan_quality", 2, "ann", 3.0),), raters=("ann", "bob"))
    Dataset([row]).save(tmp_path / "data.jsonl")
    assert list(Dataset.load(tmp_path / "data.jsonl")) == [row]
    for damage in ({"errors": [{**to_json(row)["errors"][0], "time": "now"}]}, {"raters": [1]}):
        with pytest.raises(TraceError, match=r"time: is str: accepted are seconds|raters: accepted is a list of names"):
            from_json({**to_json(row), **damage}, "here")


def test_raters_who_label_the_same_error_make_one() -> None:
    trace = Trace("t", (Span("s", None, "agent", SpanKind.AGENT),))

    def label(rater: str, impact: Impact = Impact.LOW, category: str = "slip", description: str = "") -> ErrorLabel:
        return ErrorLabel("s", ("plan_quality",), category, impact, description, rater=rater)

    one, two, other = label("ann"), label("bob", Impact.HIGH), label("bob", category="other")
    again = label("ann", description="the same kind once more")
    row = LabeledTrace(trace, (one, two, other, again))
    assert row.distinct_errors == (two, other, again)
    assert row.errors_of("plan_quality") == (two, other, again)
    assert row.errors == (one, two, other, again)


def test_the_order_of_dimensions_and_the_case_of_a_category_make_no_other_error() -> None:
    one = ErrorLabel(None, ("plan_quality", "tool_calling"), "Slip", Impact.LOW, rater="ann")
    two = ErrorLabel(None, ("tool_calling", "plan_quality"), "slip ", Impact.HIGH, rater="bob")
    assert row("one", errors=(one, two)).distinct_errors == (two,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("trace"), "trace: is missing: accepted is dict"),
        (lambda r: r["trace"].pop("trace_id"), "trace_id: is missing"),
        (lambda r: r["trace"].update(spans={}), "spans: is dict: accepted is list"),
        (lambda r: r["trace"].update(spans=[]), "has no spans"),
        (lambda r: r["trace"]["spans"].append(3), r"spans\[1\]: is int: accepted is a JSON object"),
        (
            lambda r: r["trace"]["spans"][0].update(kind="WORKFLOW"),
            r"spans\[0\], kind: is 'WORKFLOW': accepted are AGENT",
        ),
        (lambda r: r["trace"]["spans"][0].update(start="noon"), r"spans\[0\], start: is str"),
        (lambda r: r["trace"]["spans"][0].update(span_id=7), r"span_id: is int: accepted is str"),
        (lambda r: r["trace"]["spans"][0].update(parent_id="zz"), "no known parent 'zz'"),
        (lambda r: r["errors"].append({"dimensions": ["style"], "impact": "low"}), "dimension 'style' is unknown"),
        (lambda r: r["errors"].append({"dimensions": [[]], "impact": "low"}), "dimensions"),
        (lambda r: r["errors"].append({"dimensions": [], "impact": "huge"}), "impact 'huge' is unknown"),
        (lambda r: r["errors"].append({"dimensions": [], "impact": 2}), r"errors\[0\], impact: is int"),
        (lambda r: r["errors"].append("text"), r"errors\[0\]: is str: accepted is a JSON object"),
        (lambda r: r["scores"].append({"dimension": "plan_quality", "score": 7}), "score 7 is unknown"),
        (lambda r: r["scores"].append({"dimension": "plan_quality", "score": True}), "score"),
        (lambda r: r.update(reference=3), "reference: is int: accepted are text and null"),
        (lambda r: r.update(group=None), "group: is NoneType"),
    ],
)
def test_bad_rows_name_place_and_field(change: JSON, message: str) -> None:
    record = to_json(row("one"))
    change(record)
    with pytest.raises(TraceError, match=message) as error:
        from_json(record, "file x, line 3")
    assert str(error.value).startswith("file x, line 3")


@pytest.mark.parametrize("record", [None, 3, [], "text"])
def test_a_row_that_is_no_object(record: JSON) -> None:
    with pytest.raises(TraceError, match=r"line 1: is .*: accepted is a JSON object"):
        from_json(record, "line 1")


def test_files_without_rows_and_values_without_json(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(TraceError, match="holds no labelled trace"):
        Dataset.load(tmp_path / "empty.jsonl")
    (tmp_path / "old.jsonl").write_text("old")
    for value in (float("nan"), {1, 2}):
        with pytest.raises(TraceError, match="trace 'one': cannot be written as JSON"):
            Dataset([row("one", metadata={"x": value})]).save(tmp_path / "old.jsonl")
    assert (tmp_path / "old.jsonl").read_text() == "old"


def test_reading_rows_holds_one_at_a_time(tmp_path: Path) -> None:
    line = json.dumps(to_json(row("one", "x" * 20_000)))
    (tmp_path / "big.jsonl").write_text(f"{line}\n" * 1000)
    tracemalloc.start()
    count = sum(1 for _ in read_rows(tmp_path / "big.jsonl"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 1000
    assert peak < 1_000_000  # of 20 MB
