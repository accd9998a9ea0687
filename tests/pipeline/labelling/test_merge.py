from __future__ import annotations

from dataclasses import replace

from labeled_traces.dataset import LabeledTrace, from_json, to_json
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.raters import LOOKED_AT
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


def test_who_takes_everything_back_has_not_read_the_run() -> None:
    """Or a trace of which nobody says anything any more would count as clean."""
    none = replace(ROW, clean="checked", raters=("ben",), metadata={LOOKED_AT: {"ben": 5.0}})
    start = replace(ROW, metadata={LOOKED_AT: {"dia": 1.0}, "session": "s"})
    row = merge(start, none, "here", Merged())
    assert (row.clean, row.raters, row.metadata[LOOKED_AT]) == ("checked", ("ben",), {"dia": 1.0, "ben": 5.0})
    row = merge(row, none, "here", Merged())
    back = merge(from_json(to_json(row), "saved"), ROW, "here", Merged())
    assert (back.clean, back.raters, back.metadata[LOOKED_AT]) == ("unknown", (), {"dia": 1.0})
    there = merge(row, said(error("ann")), "there", Merged())
    back = merge(there, ROW, "here", Merged())
    assert (back.clean, back.raters) == ("checked", ("ann",)), "somebody else has read it"


def test_who_read_the_run_before_stays() -> None:
    row = replace(ROW, clean="checked", raters=("ann",))
    row = merge(row, said(error("ann")), "here", Merged())
    assert merge(row, ROW, "here", Merged()).raters == ("ann",)
