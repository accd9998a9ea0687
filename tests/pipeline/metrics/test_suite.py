"""All metrics together: keys, differences, bands, and what is never mixed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from judges.judgment import Judgment, Outcome
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import DIMENSIONS, Impact, ScoreLabel
from pipeline.config import PipelineError
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.suite import (
    HIGHER_IS_BETTER,
    dimension_metrics,
    length_bands,
    paired_differences,
    suite_metrics,
)
from pipeline.metrics.table import MatchTable

if TYPE_CHECKING:
    from tests.pipeline.metrics.conftest import Build

LC, PA, TC = "logical_consistency", "plan_adherence", "tool_calling"
FAST = MetricSettings(resamples=200)


def random_rows(build: Build, n: int, seed: int = 0) -> list[LabeledTrace]:
    draw = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        spans = draw.choice(["root", "a", "b", "c"], size=draw.integers(0, 4))
        dimensions = draw.choice(list(DIMENSIONS), size=len(spans))
        impacts = draw.integers(1, 4, size=len(spans))
        labels = [
            build.label(str(span), str(dimension), impact=Impact(int(impact)), text=f"error {span} of {dimension}")
            for span, dimension, impact in zip(spans, dimensions, impacts, strict=True)
        ]
        rows.append(build.row(f"t{number}", *labels, group=f"g{number // 2}"))
    return rows


def random_judgments(
    build: Build, rows: list[LabeledTrace], skill: float, repeats: int, seed: int = 1
) -> list[Judgment]:
    """Finds each label with probability `skill`, and now and then something else."""
    draw = np.random.default_rng(seed)
    judgments = []
    for row in rows:
        for dimension in DIMENSIONS:
            for repeat in range(repeats):
                found = [
                    build.finding(label.span_id or "", severity=label.impact, confidence=int(draw.integers(50, 101)))
                    for label in row.errors_of(dimension)
                    if draw.random() < skill
                ]
                if draw.random() < 0.1:
                    span, confidence = str(draw.choice(["a", "b", "c"])), int(draw.integers(0, 90))
                    found.append(build.finding(span, severity=Impact.LOW, confidence=confidence))
                judgments.append(build.judgment(row.trace_id, *found, dimension=dimension, repeat=repeat))
    return judgments


@pytest.fixture
def tables(build: Build) -> tuple[MatchTable, MatchTable]:
    """A strong and a weak suite on the same rows."""
    rows = random_rows(build, 40)
    strong, weak = (
        build.table(rows, random_judgments(build, rows, skill, 3, seed)) for skill, seed in ((0.9, 1), (0.3, 2))
    )
    return strong, weak


def test_every_metric_is_there_with_an_interval(tables: tuple[MatchTable, MatchTable]) -> None:
    metrics = suite_metrics(tables[0], FAST)
    assert set(metrics) == {*HIGHER_IS_BETTER, "reported_share"}
    promised = {"coverage", "localization", "localization_lenient", "precision", "false_alarms", "f1", "alpha"}
    promised |= {"agreement", "froc_area", "coverage_high", "coverage_medium", "coverage_low", "std", "scored_share"}
    assert promised <= set(metrics)
    for estimate in metrics.values():
        assert estimate.value is not None
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low <= estimate.value <= estimate.high
    json.dumps({name: estimate.to_json() for name, estimate in metrics.items()}, allow_nan=False)


def test_dimension_metrics_are_those_of_its_labels_alone(build: Build) -> None:
    rows = [build.row("t1", build.label("a", LC), build.label("b", PA)), build.row("t2")]
    judgments = [build.judgment(name, dimension=dimension) for name in ("t1", "t2") for dimension in (PA, TC)]
    judgments += [build.judgment("t1", build.finding("a")), build.judgment("t2", build.finding("a"))]
    table = build.table(rows, judgments)
    assert dimension_metrics(table, LC)["coverage"].value == 1.0
    assert dimension_metrics(table, PA)["coverage"].value == 0.0
    assert dimension_metrics(table, LC)["false_alarms"].value == 1.0
    unlabelled = dimension_metrics(table, TC)
    for name in ("coverage", "localization", "f1", "froc_area"):
        assert (unlabelled[name].value, unlabelled[name].reason) == (None, "no labels")


def test_deterministic_repeats_have_no_alpha_of_one(build: Build) -> None:
    """Five equal repeats of a judge that always reports: raw agreement, and alpha undefined."""
    rows = [build.row(f"t{n}") for n in range(4)]
    judgments = [build.judgment(row.trace_id, build.finding("a"), repeat=repeat) for row in rows for repeat in range(5)]
    metrics = suite_metrics(build.table(rows, judgments), FAST)
    assert metrics["alpha"].to_json() == {
        "value": None,
        "low": None,
        "high": None,
        "n": 4,
        "reason": "alpha undefined: no variation",
    }
    assert metrics["raw_agreement"].value == 1.0


def test_half_of_the_calls_failed(build: Build) -> None:
    """Right on the five that were scored; the other five are missing, not wrong."""
    rows = [build.row(f"t{n}", build.label("a", LC)) for n in range(10)]
    judgments = [
        build.judgment(row.trace_id, build.finding("a"), outcome=Outcome.SCORED if n < 5 else Outcome.TIMEOUT)
        for n, row in enumerate(rows)
    ]
    metrics = suite_metrics(build.table(rows, judgments), FAST)
    assert (metrics["coverage"].value, metrics["coverage"].n) == (1.0, 5)
    assert (metrics["agreement"].value, metrics["agreement"].n) == (1.0, 5)
    assert (metrics["scored_share"].value, metrics["scored_share"].n) == (0.5, 10)


def test_nothing_was_judged(build: Build) -> None:
    for rows in ([], [build.row("t", build.label("a", LC))]):
        metrics = suite_metrics(build.table(rows, []), FAST)
        assert all(estimate.value is None and estimate.reason for estimate in metrics.values())


def test_agreement_of_all_resamples_is_no_certainty(tables: tuple[MatchTable, MatchTable]) -> None:
    """0 of 20 groups differ: half a pair more on either side, as Agresti and Min count, is 1.96 / 22."""
    reach = 1.959964 / 22
    found = paired_differences(tables[0], tables[0], FAST)
    for name in ("scored_share", "raw_agreement", "std", "agreement"):
        assert (name, found[name].value) == (name, 0.0)
        assert (found[name].low, found[name].high) == pytest.approx((-reach, reach))
    assert found["precision"].low == -(found["precision"].high or 0.0) < 0


def test_a_judge_that_fails_on_the_hard_cases_gains_nothing(tables: tuple[MatchTable, MatchTable]) -> None:
    """What it would have got wrong is missing data on its side, and counts on neither."""
    table = tables[1]
    right = np.ones_like(table.usable)
    for place, cell in table.placed_cells():
        right[place] = not cell.spurious and not cell.missed
    picky = table.where(right)
    alone = suite_metrics(picky, FAST)["f1"].value
    assert alone is not None
    assert alone > 0.9
    found = paired_differences(picky, table, FAST)
    assert found["f1"].value == 0.0
    assert found["scored_share"].value == pytest.approx(float(right.mean()) - 1)


def test_another_number_of_repeats_is_refused(build: Build) -> None:
    rows = random_rows(build, 6)
    two, three = (build.table(rows, random_judgments(build, rows, 0.5, repeats)) for repeats in (2, 3))
    with pytest.raises(PipelineError, match="differ in number of repeats"):
        paired_differences(two, three)


def test_difference_is_the_difference_of_the_values(tables: tuple[MatchTable, MatchTable]) -> None:
    strong, weak = tables
    differences, mirrored = paired_differences(strong, weak, FAST), paired_differences(weak, strong, FAST)
    ours, theirs = suite_metrics(strong, FAST), suite_metrics(weak, FAST)
    for name, estimate in differences.items():
        high, low = ours[name].value, theirs[name].value
        assert high is not None
        assert low is not None
        assert estimate.value == pytest.approx(high - low)
        other = mirrored[name]
        assert other.low is not None
        assert other.high is not None
        assert (estimate.low, estimate.high) == pytest.approx((-other.high, -other.low))
    gain = differences["coverage"].low
    assert gain is not None
    assert gain > 0.3


def test_order_of_rows_changes_nothing(build: Build) -> None:
    rows = random_rows(build, 20)
    judgments = random_judgments(build, rows, 0.5, 2)
    one = suite_metrics(build.table(rows, judgments), FAST)
    other = suite_metrics(build.table(rows[::-1], judgments[::-1]), FAST)
    for name, estimate in one.items():
        pair = other[name]
        assert [estimate.value, estimate.low, estimate.high] == pytest.approx([pair.value, pair.low, pair.high])
    weak = build.table(rows, random_judgments(build, rows, 0.2, 2))
    left, right = (paired_differences(build.table(data, judgments), weak, FAST) for data in (rows, rows[::-1]))
    assert left["f1"].value == pytest.approx(right["f1"].value)


def test_difference_of_one_dimension(tables: tuple[MatchTable, MatchTable]) -> None:
    strong, weak = tables
    found = paired_differences(strong, weak, FAST, LC)["coverage"].value
    ours, theirs = (dimension_metrics(table, LC, FAST)["coverage"].value for table in tables)
    assert ours is not None
    assert theirs is not None
    assert found == pytest.approx(ours - theirs)


def test_tables_that_differ_are_not_compared(build: Build) -> None:
    rows = [build.row("t1", build.label("a", LC, text="loop")), build.row("t2")]
    judgments = [build.judgment("t1"), build.judgment("t2")]
    table = build.table(rows, judgments)
    others = {
        "matcher": build.table(rows, judgments, "text"),
        "dimensions": build.table(rows, [build.judgment("t1", dimension=PA)]),
        "traces": build.table(rows[:1], judgments[:1]),
        "labels": build.table([rows[0], build.row("t2", scores=[ScoreLabel(LC, 1)])], judgments),
    }
    for what, other in others.items():
        with pytest.raises(PipelineError, match=f"differ in (the )?{what}"):
            paired_differences(table, other, FAST)


def test_length_bands_part_the_traces(build: Build) -> None:
    rows = [build.row(f"t{n}", build.label("a", LC), extra_spans=n) for n in range(6)]
    table = build.table(rows, [build.judgment(row.trace_id, build.finding("a")) for row in rows[:3]])
    bands = length_bands(table, 3)
    assert list(bands) == ["4-5 spans", "6-7 spans", "8-9 spans"]
    assert [band.trace_ids for band in bands.values()] == [("t0", "t1"), ("t2", "t3"), ("t4", "t5")]
    assert suite_metrics(bands["4-5 spans"], FAST)["coverage"].value == 1.0
    assert list(length_bands(build.table([build.row("t")], []))) == ["4-4 spans"]


def test_a_hundred_traces_take_less_than_seconds(build: Build) -> None:
    """100 traces, 7 dimensions, 5 repeats. Measured: 0.1 s each; the bounds have slack."""
    rows = random_rows(build, 100)
    judgments = random_judgments(build, rows, 0.7, 5)
    start = time.perf_counter()
    table = build.table(rows, judgments, "text")
    built = time.perf_counter()
    suite_metrics(table)
    assert built - start < 4
    assert time.perf_counter() - built < 3
