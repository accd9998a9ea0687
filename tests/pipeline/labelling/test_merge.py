from __future__ import annotations

from dataclasses import replace

from labeled_traces.dataset import LabeledTrace, from_json, to_json
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.trace import Span, Trace
from pipeline.labelling.merge import Merged, merge

ROW = LabeledTrace(Trace("t", (Span("a", None, "agent"),)), clean="unknown")


def error(rater: str, text: str = "") -> ErrorLabel:
    return ErrorLabel("a", ("tool_calling",), "x", Impact.LOW, text, rater=rater, time=1.0)


def said(*errors: ErrorLabel, scores: tuple[ScoreLabel, ...] = ()) -> LabeledTrace:
    raters = tuple(dict.fromkeys(one.rater for one in errors))
    return replace(ROW, errors=errors, scores=scores, clean="checked", raters=raters)


def test_all_raters_are_kept_and_nothing_is_there_twice() -> None:
    counts = Merged()
    row = merge(replace(ROW, errors=(error("dia"),)), said(error("ann"), error("ben")), "here", counts)
    assert [one.rater for one in row.errors] == ["dia", "ann", "ben"]
    assert (row.clean, row.raters) == ("checked", ("ann", "ben"))
    again = merge(from_json(to_json(row), "saved"), said(error("ann"), error("ben")), "here", counts)
    assert to_json(again) == to_json(row)
    assert vars(counts) == {"added": 2, "known": 2, "withdrawn": 0}


def test_what_people_change_is_changed_and_labels_from_elsewhere_stay() -> None:
    counts = Merged()
    row = merge(ROW, said(error("ann", "old"), scores=(ScoreLabel("tool_calling", 1, "ann"),)), "here", counts)
    row = merge(row, said(error("ben")), "there", counts)
    row = merge(row, said(error("ann", "new")), "here", counts)
    assert [(one.rater, one.description) for one in row.errors] == [("ben", ""), ("ann", "new")]
    assert row.scores == ()
    assert counts.withdrawn == 2


def test_a_trace_of_which_nobody_said_anything_stays_as_it_is() -> None:
    assert merge(ROW, ROW, "here", Merged()) is ROW
