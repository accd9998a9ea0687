"""Agreement of raters against numbers that are worked out by hand."""

from __future__ import annotations

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.trace import Span, Trace
from pipeline.metrics.disagreements import disagreements
from pipeline.metrics.raters import rater_agreement

TC, TS = "tool_calling", "tool_selection"


def row(name: str, *errors: ErrorLabel, raters: tuple[str, ...] = ("ann", "bob")) -> LabeledTrace:
    """root -> (a -> b, c)"""
    spans = (Span("root", None, name), Span("a", "root", "x"), Span("b", "a", "x"), Span("c", "root", "x"))
    return LabeledTrace(Trace(name, spans), errors, raters=raters)


def mark(rater: str, span: str | None, dimension: str = TC, impact: Impact = Impact.HIGH) -> ErrorLabel:
    return ErrorLabel(span, (dimension,), "kind", impact, rater=rater)


ROWS = [
    row("1", mark("ann", "a"), mark("bob", "a")),
    row("2", mark("ann", "a"), mark("bob", "b")),
    row("3", mark("ann", "c")),
    row("4"),
    row("5", mark("ann", "a"), raters=()),
]


def test_agreement_of_two_raters_by_hand() -> None:
    """tool_calling in the four traces that both read: ann 1 1 1 0, bob 1 1 0 0. Three of four agree. Coincidences: 4
    values 1-1, 2 of 0-0, 1 each of 0-1 and 1-0; n = 8, n1 = 5, n0 = 3: alpha = 1 - 7 * 2 / (2 * 5 * 3) = 8/15."""
    found = rater_agreement(ROWS)
    assert (found.traces, found.read) == (4, {"ann": 5, "bob": 4})
    error = found.agreement[TC]
    assert error["error_raw_agreement"].value == 0.75
    assert error["error_alpha"].value == pytest.approx(8 / 15)
    assert error["error_alpha"].n == 4
    assert error["error_raw_agreement"].low is not None
    assert error["error_alpha"].low is None, "too many resamples hold one value alone"
    none = found.agreement[TS]["error_alpha"]
    assert (none.value, none.reason) == (None, "alpha undefined: no variation")
    assert found.agreement[TC]["score_alpha"].reason == "alpha undefined: nothing that two raters have judged"
    assert found.pairs[0].agreement[TC]["error_alpha"].value == error["error_alpha"].value


def test_agreement_at_spans_by_hand() -> None:
    """16 spans: both mark one; ann alone two, bob alone one; 12 neither. n1 = 5, n0 = 27, D_o pairs 6:
    alpha = 1 - 31 * 6 / (2 * 5 * 27)."""
    spans = rater_agreement(ROWS).agreement[TC]
    assert spans["span_raw_agreement"].value == 13 / 16
    assert spans["span_alpha"].value == pytest.approx(1 - 31 * 6 / (2 * 5 * 27))


def test_the_ceiling_by_hand() -> None:
    """ann's three labels with a span: bob has one at the span, and one at a child of another. bob's two: ann one, and
    one at the parent."""
    (pair,) = rater_agreement(ROWS).pairs
    of_ann, of_bob = pair.found_by["ann", "bob"][TC], pair.found_by["bob", "ann"][TC]
    assert [of_ann[key].value for key in ("localization", "localization_lenient")] == pytest.approx([1 / 3, 2 / 3])
    assert [of_bob[key].value for key in ("localization", "localization_lenient")] == pytest.approx([1 / 2, 1])
    assert (of_ann["localization"].n, of_bob["localization"].n) == (3, 2)
    both = rater_agreement(ROWS).ceiling
    assert both["total"]["localization"].value == pytest.approx(2 / 5)
    assert both["total"]["localization"].low is not None
    assert (both[TS]["localization"].value, both[TS]["localization"].reason) == (None, "no labels")


def test_lenient_matches_are_one_to_one_and_of_one_dimension() -> None:
    rows = [
        row("1", mark("ann", "b"), mark("ann", "c"), mark("bob", "root")),
        row("2", mark("ann", "a"), mark("bob", "a", TS)),
    ]
    parts = rater_agreement(rows).pairs[0].found_by["ann", "bob"]["total"]
    assert parts["localization"].value == 0
    assert parts["localization_lenient"].value == pytest.approx(1 / 3), "root is the parent of c, not of b"


def test_three_raters_and_ordinal_impact() -> None:
    rows = [
        row("1", mark("ann", "a"), mark("bob", "a"), mark("cy", "a", impact=Impact.MEDIUM)),
        row("2", raters=("ann", "bob", "cy")),
    ]
    found = rater_agreement(rows)
    assert found.agreement[TC]["error_alpha"].value == 1
    assert 0 < (found.agreement[TC]["impact_alpha"].value or 0) < 1
    assert len(found.pairs) == 3


def test_who_gave_a_score_has_judged_its_dimension_alone() -> None:
    scores = (ScoreLabel(TC, 1, "ann"), ScoreLabel(TC, 2, "bob"))
    scored = LabeledTrace(row("1").trace, scores=scores, clean="unknown")
    found = rater_agreement([scored])
    assert found.agreement[TC]["error_raw_agreement"].value == 1
    assert found.agreement[TS]["error_raw_agreement"].n == 0
    assert found.pairs[0].found_by["ann", "bob"]["total"]["localization"].reason == "no trace that both read"
    assert disagreements([scored]) == [{"trace_id": "1", "dimension": TC, "scores": {"ann": 1, "bob": 2}}]


def test_disagreements_name_trace_and_span_and_who_said_what() -> None:
    found = disagreements(ROWS)
    assert [(one["trace_id"], one["span_id"]) for one in found] == [("2", "a"), ("2", "b"), ("3", "c")]
    said = {"dimensions": [TC], "category": "kind", "impact": "high", "description": ""}
    assert found[0]["said"] == {"ann": [said], "bob": []}


def test_a_crowd_is_compared_by_the_pairs_that_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty raters of whom two read each trace: 60 pairs met of 1,770, and their figures are those of the two alone."""
    names = [f"r{number}" for number in range(60)]
    crowd = []
    for number, (one, two) in enumerate(zip(names, [*names[1:], names[0]], strict=True)):
        marks = [mark(one, "a")] + [mark(two, "a" if number % 2 else "b")] * (number % 3 > 0)
        crowd.append(row(str(number), *marks, raters=(one, two)))
    monkeypatch.setattr("pipeline.metrics.raters.MOST_PAIRS", 50)
    found = rater_agreement(crowd)
    assert (len(found.pairs), found.more_pairs, {pair.traces for pair in found.pairs}) == (50, 10, {1})
    # Who marked anything did so in both directions: of 60 + 40 labels 20 pairs are at one span.
    assert found.ceiling["total"]["localization"].n == 100
    assert found.ceiling["total"]["localization"].value == pytest.approx(0.4)
    assert found.agreement[TC]["error_raw_agreement"].value == pytest.approx(40 / 60)
