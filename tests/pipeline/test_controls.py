"""The three judges without a model, and the metrics that they win."""

from __future__ import annotations

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import DIMENSIONS, ErrorLabel, Impact
from labeled_traces.trace import Span, Trace
from pipeline.config import PipelineError
from pipeline.controls import CONTROLS, ControlInput, beaten_by, control_tables, flag_all, guess, silent
from pipeline.matching import build_matcher
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import suite_metrics

LC, PA = "logical_consistency", "plan_adherence"


def row(trace_id: str, *errors: ErrorLabel, spans: int = 5) -> LabeledTrace:
    steps = [
        Span(f"s{n}", "s0" if n else None, "step", inputs={"n": n}, outputs=f"result {n} of {trace_id}")
        for n in range(spans)
    ]
    return LabeledTrace(Trace(trace_id, tuple(steps)), errors)


def label(span: str, dimension: str = LC, impact: Impact = Impact.MEDIUM) -> ErrorLabel:
    return ErrorLabel(span, (dimension,), "category", impact, "wrong value")


def test_flag_all_reports_every_span_to_every_dimension() -> None:
    judgments = flag_all(ControlInput([row("t")], [], repeats=2))
    assert len(judgments) == len(DIMENSIONS) * 2
    for judgment in judgments:
        assert [finding.span_ids for finding in judgment.findings] == [(f"s{n}",) for n in range(5)]
        assert judgment.score == 0
        assert {finding.dimension for finding in judgment.findings} == {judgment.dimension}
    assert judgments[0].findings[3].evidence == '{"n": 3}\nresult 3 of t'


def test_quotes_are_bounded() -> None:
    huge = LabeledTrace(Trace("t", (Span("s", None, "x", outputs="x" * 100_000),)))
    assert len(flag_all(ControlInput([huge], []))[0].findings[0].evidence) == 2000


def test_silent_reports_nothing() -> None:
    judgments = silent(ControlInput([row("t")], []))
    assert {(judgment.score, judgment.findings) for judgment in judgments} == {(3, ())}


def test_guess_reports_at_the_base_rate() -> None:
    development = [
        row("d1", label("s1"), label("s2", impact=Impact.HIGH)),
        row("d2"),
        row("d3"),
        row("d4", label("s1", PA)),
    ]
    rows = [row(f"t{n}") for n in range(400)]
    judgments = guess(ControlInput(rows, development))
    findings = [finding for judgment in judgments for finding in judgment.findings]
    logic = [finding for finding in findings if finding.dimension == LC]
    assert len(logic) / 400 == pytest.approx(2 / 4, abs=0.1)
    assert {finding.severity for finding in logic} == {Impact.MEDIUM, Impact.HIGH}
    assert {finding.dimension for finding in findings} == {LC, PA}
    spans = [finding.span_ids[0] for finding in logic]
    assert all(spans.count(f"s{n}") / len(spans) == pytest.approx(1 / 5, abs=0.1) for n in range(5))
    flagged = [judgment for judgment in judgments if judgment.dimension == LC and judgment.findings]
    assert all(len({finding.span_ids for finding in judgment.findings}) == 2 for judgment in flagged)
    assert {judgment.score for judgment in flagged} == {0}


def test_guess_repeats_exactly_and_differs_by_repeat_and_seed() -> None:
    work = ControlInput([row(f"t{n}") for n in range(20)], [row("d", label("s1")), row("e")], repeats=2)
    judgments = guess(work)
    assert judgments == guess(work)
    first, second = ([j.findings for j in judgments if j.repeat == repeat] for repeat in range(2))
    assert first != second
    other = ControlInput(work.rows, work.development, repeats=2, seed=1)
    assert judgments != guess(other)
    turned = ControlInput(work.rows[::-1], work.development, repeats=2)
    assert sorted(map(repr, guess(turned))) == sorted(map(repr, judgments)), "a trace's guess depends on its id alone"


def test_guess_on_a_trace_with_fewer_spans_than_errors() -> None:
    judgments = guess(ControlInput([row("t", spans=1)], [row("d", label("s1"), label("s2"))]))
    assert [len(judgment.findings) for judgment in judgments if judgment.dimension == LC] == [1]


def test_guess_needs_development_rows() -> None:
    with pytest.raises(PipelineError, match="needs development rows"):
        guess(ControlInput([row("t")], []))


def test_controls_go_through_the_same_metrics() -> None:
    rows = [row("t1", label("s1"), label("s3", PA)), row("t2"), row("t3", label("s2"))]
    tables = control_tables(ControlInput(rows, rows, repeats=2, dimensions=(LC, PA)), build_matcher("span", rows))
    assert set(tables) == set(CONTROLS) == {"flag_all", "silent", "guess"}
    metrics = {name: suite_metrics(table) for name, table in tables.items()}
    assert metrics["flag_all"]["coverage"].value == 1.0
    assert metrics["flag_all"]["false_alarms"].value == 1.0
    # 3 labels of 3 traces x 5 spans x 2 dimensions.
    assert metrics["flag_all"]["precision"].value == pytest.approx(3 / 30)
    assert metrics["silent"]["coverage"].value == 0.0
    assert metrics["silent"]["false_alarms"].value == 0.0
    assert metrics["silent"]["precision"].reason == "no findings"
    assert metrics["silent"]["alpha"].reason == "alpha undefined: no variation"


def test_beaten_by_knows_directions_ties_and_gaps() -> None:
    ours = {
        "coverage": Estimate(0.9),
        "precision": Estimate(0.8),
        "false_alarms": Estimate(0.1),
        "f1": Estimate(0.5),
        "alpha": Estimate(None, reason="alpha undefined: no variation"),
        "kappa": Estimate(None, reason="no scores to compare"),
        "reported_share": Estimate(0.2),
    }
    controls = {
        "flag_all": {
            "coverage": Estimate(1.0),
            "precision": Estimate(0.1),
            "false_alarms": Estimate(1.0),
            "f1": Estimate(0.5),
            "reported_share": Estimate(1.0),
        },
        "silent": {"coverage": Estimate(0.0), "false_alarms": Estimate(0.0), "kappa": Estimate(None, reason="x")},
        "guess": {"coverage": Estimate(0.95), "alpha": Estimate(0.0)},
    }
    assert beaten_by(ours, controls) == {
        "coverage": ["flag_all", "guess"],
        "false_alarms": ["silent"],
        "alpha": ["guess"],
    }
