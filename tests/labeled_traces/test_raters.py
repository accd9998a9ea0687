from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import NOT_PLACED, ErrorLabel, Impact, ScoreLabel
from labeled_traces.raters import LOOKED_AT, reduce_all, whole_run
from labeled_traces.trace import Span, Trace, TraceError

TC, TS = "tool_calling", "tool_selection"
LOW, MEDIUM, HIGH = Impact


def mark(rater: str, span: str, *names: str, impact: Impact = MEDIUM, time: float | None = None) -> ErrorLabel:
    return ErrorLabel(span, names, "kind", impact, f"by {rater}", rater=rater, time=time)


def row(errors: Sequence[ErrorLabel], *raters: str, scores: Sequence[ScoreLabel] = ()) -> LabeledTrace:
    spans = (Span("root", None, "agent"), Span("a", "root", "tool"), Span("b", "root", "tool"))
    return LabeledTrace(Trace("t", spans), tuple(errors), tuple(scores), raters=raters)


THREE = row(
    [
        mark("ann", "a", TC, TS, impact=LOW),
        mark("bob", "a", TC, impact=HIGH),
        mark("bob", "a", TC),
        mark("bob", "b", TS),
    ],
    "cy",
    scores=[ScoreLabel(TC, 1, "ann"), ScoreLabel(TC, 3, "bob"), ScoreLabel("plan_quality", 2, "cy")],
)


def test_who_read_the_whole_run() -> None:
    unplaced = ErrorLabel(None, (TC,), NOT_PLACED, LOW, rater="dee")
    assert whole_run(replace(THREE, errors=(*THREE.errors, unplaced))) == ("ann", "bob", "cy")


def test_majority_is_more_than_half_of_those_who_read_the_run() -> None:
    (out,) = reduce_all([THREE], "majority")
    first, *others = out.errors
    assert (first.span_id, first.dimensions, first.impact, first.rater) == ("a", (TC,), HIGH, "majority")
    assert [(error.category, error.dimensions) for error in others] == [(NOT_PLACED, ("plan_quality",))]
    assert [(score.dimension, score.score) for score in out.scores] == [(TC, 1), ("plan_quality", 2)]
    assert (out.raters, out.clean) == (("majority",), "checked")
    (nothing,) = reduce_all([row([mark("ann", "a", TC)], "bob", "cy")], "majority")
    assert (nothing.errors, nothing.is_clean) == ((), True), "two of three saw no error"


def test_where_half_of_the_raters_saw_an_error_a_finding_is_neither_right_nor_wrong() -> None:
    (tied,) = reduce_all([row([mark("ann", "a", TC)], "bob")], "majority")
    assert (tied.errors, tied.clean, tied.is_clean, tied.can_judge(TC)) == ((), "partial", False, False)
    both = [mark("ann", "a", TC), mark("bob", "a", TC), mark("ann", "b", TS)]
    (kept,) = reduce_all([row(both)], "majority")
    assert ([error.span_id for error in kept.errors], kept.clean) == (["a"], "partial")
    assert reduce_all([kept], "majority") == [kept]
    best = [ScoreLabel(TC, 3, "bob"), ScoreLabel(TS, 3, "bob")]
    (scored,) = reduce_all([row([mark("ann", "a", TC)], "bob", scores=best)], "majority")
    assert ([score.dimension for score in scored.scores], scored.is_clean_of((TC,))) == ([TS], False)


def test_union_is_what_anyone_marked() -> None:
    (out,) = reduce_all([THREE], "union")
    placed = [(error.span_id, error.dimensions, error.impact) for error in out.errors if error.span_id]
    assert placed == [("a", (TC, TS), HIGH), ("a", (TC,), MEDIUM), ("b", (TS,), MEDIUM)]
    assert [score.score for score in out.scores] == [1, 2]


def test_one_rater_and_a_trace_that_they_did_not_read() -> None:
    other = replace(row([mark("ann", "b", TC)]), trace=replace(THREE.trace, trace_id="u"))
    first, second = reduce_all([THREE, other], "rater:bob")
    assert [error.rater for error in first.errors] == ["bob"] * 3
    assert (second.errors, second.raters, second.clean) == ((), (), "unknown")
    with pytest.raises(TraceError, match=r"no label is by 'bop' \(did you mean `bob`\?\): the raters are ann, bob, cy"):
        reduce_all([THREE], "rater:bop")


def test_the_newest_reading_counts_also_where_it_found_nothing() -> None:
    timed = row([mark("ann", "a", TC, time=10.0), mark("bob", "b", TC, time=20.0)])
    (out,) = reduce_all([timed], "newest")
    assert [error.rater for error in out.errors] == ["bob"]
    (out,) = reduce_all([replace(timed, raters=("cy",), metadata={LOOKED_AT: {"cy": 30.0}})], "newest")
    assert (out.errors, out.raters, out.is_clean) == ((), ("cy",), True)
    with pytest.raises(TraceError, match="trace 't': who read it last\\? the time of 'cy' is unknown"):
        reduce_all([replace(timed, raters=("cy",))], "newest")


@pytest.mark.parametrize("rule", ["majority", "union", "rater:bob"])
def test_what_is_reduced_stays_as_it_is(rule: str) -> None:
    once = reduce_all([THREE], rule)
    assert reduce_all(once, rule) == once


def test_unknown_rules_are_told() -> None:
    for rule in ("mayority", "rater:", ""):
        with pytest.raises(TraceError, match="accepted are majority, union, newest, rater:NAME"):
            reduce_all([THREE], rule)
