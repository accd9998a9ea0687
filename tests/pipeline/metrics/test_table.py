"""What counts where: the table's arrays against a hand count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from judges.judgment import HOLISTIC, Outcome
from labeled_traces.label import DIMENSIONS, Impact, ScoreLabel
from pipeline.config import PipelineError

if TYPE_CHECKING:
    from tests.pipeline.metrics.conftest import Build

LC, PA, TC = "logical_consistency", "plan_adherence", "tool_calling"


def test_a_cell_sorts_findings_and_labels(build: Build) -> None:
    located, elsewhere = build.label("a", LC, text="wrong year asked"), build.label("b", LC, text="value misread badly")
    missed, spanless = (
        build.label("c", LC, text="loop without end"),
        build.label(None, LC, text="goal forgotten entirely"),
    )
    rows = [build.row("t", located, elsewhere, missed, spanless)]
    found = [
        build.finding("a", text="wrong year asked"),
        build.finding("c", text="value misread badly"),
        build.finding("a", text="something unheard of"),
        build.finding("b", text="goal forgotten entirely"),
    ]
    cell = build.table(rows, [build.judgment("t", *found)], "text", 0.5).cells["t", LC, 0]
    assert cell.located == [(found[0], located)]
    assert cell.misplaced == [(found[1], elsewhere)]
    assert cell.spurious == [found[2]]
    assert cell.missed == [missed]
    assert (found[3], spanless) in cell.matches


def test_an_unusable_judgment_counts_nowhere(build: Build) -> None:
    rows = [build.row("t", build.label("a", LC))]
    table = build.table(rows, [build.judgment("t", build.finding("a"), outcome=Outcome.TRUNCATED)])
    cell = table.cells["t", LC, 0]
    assert (cell.findings, cell.pairs, cell.missed, cell.score) == ((), (), [], None)
    assert table.asked.all()
    assert not table.usable.any()
    assert not table.counted.any()
    assert table.scores.tolist() == [[[-1]]]


def test_not_applicable_is_usable_and_has_no_score(build: Build) -> None:
    table = build.table([build.row("t", build.label("a", LC))], [build.judgment("t", outcome=Outcome.NOT_APPLICABLE)])
    assert table.usable.all()
    assert table.counted.all()
    assert table.scores.tolist() == [[[-1]]]


def test_a_label_of_two_dimensions_counts_in_both(build: Build) -> None:
    rows = [build.row("t", build.label("c", TC), build.label("a", LC, PA))]
    judgments = [
        build.judgment("t", build.finding("a"), repeat=3),
        build.judgment("t", build.finding("c"), dimension=PA, repeat=3),
        build.judgment("t", dimension=PA, repeat=5),
    ]
    table = build.table(rows, judgments)
    assert table.dimensions == (LC, PA)
    assert table.repeats == (3, 5)
    assert [error for _, error in table.labels] == [rows[0].errors[1]], "a label of no judged dimension is left out"
    # Label, dimension, repeat. In repeat 5 nobody asked the LC judge.
    assert table.counted.tolist() == [[[True, False], [True, True]]]
    assert table.identified.tolist() == [[[True, False], [False, False]]]
    assert table.n_findings.tolist() == [[[1, 0], [1, 0]]]
    assert table.of(PA).identified.tolist() == [[[False, False]]]


def test_span_matcher_leaves_labels_without_span_out(build: Build) -> None:
    rows = [build.row("t", build.label(None, LC, text="goal forgotten"))]
    judgments = [build.judgment("t", build.finding("a", text="goal forgotten"))]
    assert not build.table(rows, judgments, "span").counted.any()
    text = build.table(rows, judgments, "text", 0.5)
    assert text.counted.all()
    assert text.identified.all()
    assert not text.localized.any()
    assert not text.near.any()


@pytest.mark.parametrize(("cited", "localized", "near"), [("b", True, True), ("a", False, True), ("c", False, False)])
def test_lenient_takes_parent_and_child(build: Build, cited: str, localized: bool, near: bool) -> None:
    rows = [build.row("t", build.label("b", LC, text="wrong year"))]
    table = build.table(rows, [build.judgment("t", build.finding(cited, text="wrong year"))], "text", 0.5)
    assert table.identified.all()
    assert table.localized.item() is localized
    assert table.near.item() is near


def test_clean_means_no_label_of_the_dimensions_and_no_outside_error(build: Build) -> None:
    rows = [
        build.row("clean"),
        build.row("faulty", build.label("a", LC)),
        build.row("outside", build.label("a")),
        build.row("other", build.label("a", PA)),
        replace(build.row("unlabelled failure"), clean="unknown"),
    ]
    judgments = [build.judgment(row.trace_id, dimension=name) for row in rows for name in (LC, PA)]
    table = build.table(rows, judgments)
    assert table.clean.tolist() == [True, False, False, False, False]
    assert table.of(LC).clean.tolist() == [True, False, False, True, False]


def test_holistic_judgments_are_split_by_dimension(build: Build) -> None:
    rows = [build.row("t", build.label("a", LC), build.label("b", TC))]
    findings = [build.finding("a", dimension=LC), build.finding("c", dimension=PA, severity=Impact.LOW)]
    whole = build.judgment("t", *findings, dimension=HOLISTIC, score=0)
    table = build.table(rows, [whole])
    assert table.dimensions == tuple(DIMENSIONS)
    assert table.usable.all()
    scores = {name: table.cells["t", name, 0].score for name in DIMENSIONS}
    assert scores == {**dict.fromkeys(DIMENSIONS, 3), LC: 0, PA: 2}
    assert table.of(LC).localized.all()
    assert not table.of(TC).identified.any()


def test_unusable_holistic_judgment_is_missing_in_all_dimensions(build: Build) -> None:
    table = build.table([build.row("t")], [build.judgment("t", dimension=HOLISTIC, outcome=Outcome.REFUSED)])
    assert table.asked.sum() == len(DIMENSIONS)
    assert not table.usable.any()


def test_human_scores_are_given_or_follow_from_labels(build: Build) -> None:
    rows = [
        build.row("given", build.label("a", LC), scores=[ScoreLabel(LC, 2, "ann"), ScoreLabel(LC, 1, "bob")]),
        build.row("low", build.label("a", LC, impact=Impact.LOW), build.label("a", PA)),
        build.row("clean"),
    ]
    table = build.table(rows, [build.judgment(row.trace_id) for row in rows])
    assert table.human_scores.tolist() == [[0, 0, 2], [0, 0, 1], [1, 0, 2], [2, 0, 3]]


def test_subset_keeps_the_numbers_of_its_traces(build: Build) -> None:
    rows = [build.row(name, build.label("a", LC)) for name in ("t1", "t2", "t3")]
    judgments = [build.judgment("t2", build.finding("a")), build.judgment("t1"), build.judgment("t3")]
    few = build.table(rows, judgments).subset({"t2", "t3"})
    assert few.trace_ids == ("t2", "t3")
    assert few.identified.ravel().tolist() == [True, False]


def test_clusters_are_groups_or_traces(build: Build) -> None:
    rows = [build.row("t1", group="x"), build.row("x"), build.row("t2", group="x")]
    clusters = build.table(rows, [build.judgment("t1")]).clusters
    assert clusters[0] == clusters[2] != clusters[1]


def test_bad_input_is_refused(build: Build) -> None:
    row = build.row("t")
    with pytest.raises(PipelineError, match="twice in the rows"):
        build.table([row, row], [])
    with pytest.raises(PipelineError, match="trace 'u', which is not in the rows"):
        build.table([row], [build.judgment("u")])
    with pytest.raises(PipelineError, match="two judgments are about trace 't', logical_consistency, repeat 0"):
        build.table([row], [build.judgment("t"), build.judgment("t")])
    with pytest.raises(PipelineError, match="about 'holistic': accepted are"):
        build.table([row], [build.judgment("t", build.finding("a", dimension=HOLISTIC), dimension=HOLISTIC)])
    with pytest.raises(PipelineError, match="no judgment is about 'tool_calling': there are logical_consistency"):
        build.table([row], [build.judgment("t")]).of(TC)


def test_order_of_judgments_changes_nothing(build: Build) -> None:
    rows = [build.row(f"t{n}", build.label("a", LC), build.label("b", LC)) for n in range(3)]
    judgments = [build.judgment(f"t{n}", *[build.finding("a")] * (n % 2), repeat=r) for n in range(3) for r in range(2)]
    one, other = build.table(rows, judgments), build.table(rows, judgments[::-1])
    for name in ("identified", "counted", "n_findings", "scores"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
