from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from judges.judgment import Finding, Judgment, Outcome
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact, score_from_impacts
from labeled_traces.trace import Span, SpanKind, Trace
from pipeline.config import PipelineError
from pipeline.controls import ControlInput, control_tables
from pipeline.gates import Gates
from pipeline.matching import Floats, SpanMatcher
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.table import MatchTable, match_judgments
from pipeline.validate import Validation, Verdict, _better, _more, _not_worse, validate

D, E = "tool_calling", "plan_quality"
FAST = MetricSettings(resamples=300)


def make_rows(n: int) -> list[LabeledTrace]:
    """Every other trace has one error, at its second span."""
    rows = []
    for i in range(n):
        spans = tuple(Span(f"t{i}-{s}", None, f"step {s}", SpanKind.TOOL, outputs=f"{i} {s}") for s in range(5))
        error = ErrorLabel(f"t{i}-1", (D,), "wrong_argument", Impact.HIGH)
        rows.append(LabeledTrace(Trace(f"t{i}", spans), (error,) if i % 2 else ()))
    return rows


def judge(
    rows: Sequence[LabeledTrace], seed: int, hit: float, alarm: float, repeats: int = 3, failed: float = 0.0
) -> MatchTable:
    """A judge that finds an error with probability `hit`, and reports span 3 with probability `alarm`."""
    draw = np.random.default_rng(seed)
    judgments = []
    for row in rows:
        for repeat in range(repeats):
            spans = [error.span_id for error in row.errors if draw.random() < hit]
            spans += [f"{row.trace_id}-3"] if draw.random() < alarm else []
            findings = tuple(Finding(D, (str(span),), "off", severity=Impact.HIGH) for span in spans)
            score = score_from_impacts(finding.severity for finding in findings)
            broken = draw.random() < failed
            outcome = Outcome.TIMEOUT if broken else Outcome.SCORED
            found = (None, ()) if broken else (score, findings)
            judgments.append(Judgment(row.trace_id, D, "p", repeat, outcome, *found))
    return match_judgments(rows, judgments, SpanMatcher())


def controls_of(rows: Sequence[LabeledTrace], repeats: int = 3) -> dict[str, MatchTable]:
    return control_tables(ControlInput(rows, rows, repeats=repeats, dimensions=(D,)), SpanMatcher())


def verdict(
    champion: tuple[float, float],
    challenger: tuple[float, float],
    n: int = 80,
    gates: Gates | None = None,
    seed: int = 0,
) -> Validation:
    rows = make_rows(n)
    return validate(
        judge(rows, 2 * seed, *champion), judge(rows, 2 * seed + 1, *challenger), controls_of(rows), gates, FAST
    )


def test_a_gain_of_nothing_worth_having_does_not_pass() -> None:
    tiny = Estimate(0.004, 0.001, 0.007, 4000)
    check = _better("f1", Gates(), tiny, 4000)
    assert check.state is Verdict.INCONCLUSIVE
    assert "neither a gain above 0.01 nor a loss" in check.reason
    assert _better("f1", Gates(least_gain=0), tiny, 4000).state is Verdict.PASS
    # Where lower is better the least gain is a fall.
    fall = Estimate(-0.05, -0.09, -0.02, 400)
    assert _better("alarms", Gates(primary="false_alarms"), fall, 400).state is Verdict.PASS
    with pytest.raises(PipelineError, match="least_gain is -1"):
        Gates(least_gain=-1)


def test_a_clear_gain_passes() -> None:
    result = verdict((0.5, 0.5), (0.95, 0.05))
    assert result.verdict is Verdict.PASS
    assert result.labels_needed is None
    assert result.reasons[0].startswith("f1 against the champion: +0.")
    assert result.reasons[0].endswith("which is a gain")
    assert any("coverage " in reason and "allowed is a fall of up to 0.05" in reason for reason in result.reasons)
    assert any("control 'flag all'" in reason for reason in result.reasons)
    assert f"no dimension seen to be worse by more than 0.05; the least improvement is {D}: " in result.reasons[-3]
    assert result.reasons[-2] == "40 independent tasks with a label; 40 independent tasks without an error"
    assert result.to_json()["verdict"] == "PASS"
    assert result.to_json()["differences"]["f1"]["value"] > 0


def test_a_clear_loss_fails() -> None:
    result = verdict((0.95, 0.05), (0.5, 0.5))
    assert result.verdict is Verdict.FAIL
    assert any("f1 against the champion: -0." in reason and "a loss" in reason for reason in result.reasons)


def test_a_gain_that_is_bought_with_coverage_fails() -> None:
    """The F1 rises since no false alarm is left, but a third of the errors is no longer found."""
    result = verdict((0.9, 0.9), (0.6, 0.0))
    assert result.differences["f1"].low is not None
    assert result.differences["f1"].low > 0
    assert result.verdict is Verdict.FAIL
    said = [reason for reason in result.reasons if reason.startswith("coverage fell by")]
    assert said[0].endswith("allowed is a fall of up to 0.05: it is larger")


def test_a_guard_that_can_be_dropped() -> None:
    gates = Gates.parse({"margins": {"coverage": None, "localization": None, "agreement": None, "alpha": None}})
    assert verdict((0.9, 0.9), (0.6, 0.0), gates=gates).verdict is Verdict.PASS


def test_too_little_data_is_inconclusive_and_says_how_much_is_missing() -> None:
    result = verdict((0.7, 0.2), (0.85, 0.1), n=16)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any(
        "neither a gain nor a loss is shown" in reason or "it may be larger" in reason for reason in result.reasons
    )


def test_the_number_of_traces_that_would_decide() -> None:
    """One open condition: value .1, half-width .2, so (.2 / .1) ** 2 = 4 times the traces: 3 n more."""
    assert _more(Estimate(0.1, -0.1, 0.3, 40), 0.0, 40) == 120
    assert _better("f1", Gates(least_gain=0), Estimate(0.1, -0.1, 0.3, 40), 40).more == 120
    assert _better("f1", Gates(), Estimate(0.11, -0.09, 0.31, 40), 40).more == 120
    # The guard's boundary is -.05: a gap of .1 and a half-width of .15 need 2.25 times the traces.
    guard = _not_worse("coverage", 0.05, {"coverage": Estimate(0.05, -0.1, 0.2, 40)}, 40)
    assert (guard.state, guard.more) == (Verdict.INCONCLUSIVE, 50)
    # False alarms are better when they fall: their boundary is +.05.
    alarms = _not_worse("false_alarms", 0.05, {"false_alarms": Estimate(-0.05, -0.2, 0.1, 40)}, 40)
    assert (alarms.state, alarms.more) == (Verdict.INCONCLUSIVE, 50)
    assert _more(Estimate(0.0, -0.1, 0.1, 40), 0.0, 40) is None
    assert _more(Estimate(0.001, -0.1, 0.1, 40), 0.0, 40) is None


def test_no_difference_passes_at_most_one_time_in_twenty() -> None:
    """Controls are left out: they can only make a PASS rarer."""
    rows = make_rows(60)
    verdicts = []
    for seed in range(60):
        champion, challenger = (judge(rows, 2 * seed + side, 0.75, 0.2) for side in (0, 1))
        verdicts.append(validate(champion, challenger, {}, None, FAST).verdict)
    assert verdicts.count(Verdict.PASS) <= 3
    assert verdicts.count(Verdict.FAIL) <= 6


def test_a_challenger_must_beat_every_control() -> None:
    rows = make_rows(60)
    champion, challenger = judge(rows, 0, 0.1, 0.9), judge(rows, 1, 0.5, 0.1)
    assert validate(champion, challenger, {}, None, FAST).verdict is Verdict.PASS
    better = {"oracle": judge(rows, 2, 1.0, 0.0)}
    result = validate(champion, challenger, better, None, FAST)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert len(result.reasons) == 1
    assert "control 'oracle'" in result.reasons[0]
    assert "a trivial judge does better" in result.reasons[0]


@pytest.mark.parametrize("side", ["champion", "challenger"])
def test_too_many_unusable_judgments_are_inconclusive(side: str) -> None:
    rows = make_rows(80)
    failed: Mapping[str, float] = {"champion": 0.0, "challenger": 0.0, side: 0.2}
    champion = judge(rows, 0, 0.4, 0.5, failed=failed["champion"])
    challenger = judge(rows, 1, 0.95, 0.05, failed=failed["challenger"])
    result = validate(champion, challenger, controls_of(rows), None, FAST)
    assert result.verdict is Verdict.INCONCLUSIVE
    wanted = f"of the (tool_calling judgments of|labels of what) the {side}.* can be used, at least 95% are needed"
    assert any(re.search(wanted, text) for text in result.reasons)
    lenient = Gates(scored_share=0.5)
    assert validate(champion, challenger, controls_of(rows), lenient, FAST).verdict is Verdict.PASS


def two_dimensions(n: int, second: int) -> list[LabeledTrace]:
    """As `make_rows`; the first traces with an error have one of another dimension too."""
    rows = make_rows(n)
    chosen = [row.trace_id for row in rows if row.errors][:second]
    more = {row.trace_id: ErrorLabel(f"{row.trace_id}-2", (E,), "odd", Impact.LOW) for row in rows}
    return [replace(row, errors=(*row.errors, more[row.trace_id])) if row.trace_id in chosen else row for row in rows]


def judge_both(rows: Sequence[LabeledTrace], seed: int, hits: tuple[float, float], alarm: float) -> MatchTable:
    """A judge of each dimension."""
    draw = np.random.default_rng(seed)
    judgments = []
    for row in rows:
        for repeat in range(3):
            for name, hit in zip((D, E), hits, strict=True):
                spans = [error.span_id for error in row.errors_of(name) if draw.random() < hit]
                spans += [f"{row.trace_id}-3"] if draw.random() < alarm else []
                findings = tuple(Finding(name, (str(span),), "off", severity=Impact.HIGH) for span in spans)
                score = score_from_impacts(finding.severity for finding in findings)
                judgments.append(Judgment(row.trace_id, name, "p", repeat, Outcome.SCORED, score, findings))
    return match_judgments(rows, judgments, SpanMatcher())


def test_one_dimension_may_not_fall_silent_behind_the_others() -> None:
    rows = two_dimensions(160, 8)
    champion = judge_both(rows, 0, (0.5, 0.9), 0.3)
    fine, silent = (judge_both(rows, 1, (0.9, hit), 0.05) for hit in (0.9, 0.0))
    assert validate(champion, fine, {}, None, FAST).verdict is Verdict.PASS
    result = validate(champion, silent, {}, None, FAST)
    assert result.verdict is Verdict.FAIL
    assert result.reasons[0].startswith(f"{E}: f1 -0.")
    # Of a single label no fall can be shown.
    rows = two_dimensions(160, 1)
    champion, silent = (judge_both(rows, seed, hits, 0.3) for seed, hits in enumerate([(0.5, 1.0), (0.9, 0.0)]))
    result = validate(champion, silent, {}, None, FAST)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert f"{E}: no label is found any more" in result.reasons
    # One that finds less: seen is enough to doubt, shown is a FAIL.
    for labels, verdict, said in ((4, Verdict.INCONCLUSIVE, "seen to be worse"), (40, Verdict.FAIL, "worse")):
        rows = two_dimensions(160, labels)
        champion = judge_both(rows, 0, (0.5, 0.9), 0.1)
        result = validate(champion, judge_both(rows, 1, (0.9, 0.4), 0.1), {}, None, FAST)
        assert result.verdict is verdict
        assert any(f"{E}: f1 -0." in reason and f"{said} by more than 0.05" in reason for reason in result.reasons)


def test_a_dimension_without_labels_is_named() -> None:
    rows = make_rows(80)
    champion, challenger = judge_both(rows, 0, (0.5, 0.0), 0.3), judge_both(rows, 1, (0.95, 0.0), 0.0)
    result = validate(champion, challenger, {}, None, FAST)
    assert result.verdict is Verdict.PASS
    assert f"nothing is shown of {E}: coverage: no labels" in result.reasons


def test_a_dimension_may_not_turn_noisy_where_it_has_no_labels() -> None:
    """Its alarms on traces with errors of another dimension are none of the suite's."""
    rows = make_rows(120)

    def noisy(row: LabeledTrace) -> list[str]:
        return [f"{row.trace_id}-3"] if row.errors else []

    champion, challenger = judge_both(rows, 0, (0.4, 0.0), 0.0), judge_both(rows, 1, (0.95, 0.0), 0.0)
    alarms = everywhere(rows, noisy, E).cells
    result = validate(champion, replace(challenger, cells={**challenger.cells, **alarms}), {}, None, FAST)
    assert result.verdict is Verdict.FAIL
    assert [reason for reason in result.reasons if reason.startswith(f"{E}: false_alarms +0.5")]


def test_a_dimension_whose_labels_have_no_span_is_held_to_its_coverage() -> None:
    rows = [
        replace(row, errors=(*row.errors, ErrorLabel(None, (E,), "goal", Impact.HIGH, "goal forgotten entirely")))
        if row.errors and i % 4 == 1
        else row
        for i, row in enumerate(make_rows(160))
    ]

    def table(hit: float, seen: Callable[[int], bool]) -> MatchTable:
        found = judge_both(rows, 1, (hit, 0.0), 0.0)
        judgments = [
            Judgment(trace_id, name, "p", repeat, Outcome.SCORED, cell.score, cell.findings)
            for (trace_id, name, repeat), cell in found.cells.items()
            if name == D
        ]
        says = (Finding(E, ("x",), "goal forgotten entirely", severity=Impact.HIGH),)
        for i, row in enumerate(rows):
            heard = says if seen(i) and row.errors_of(E) else ()
            judgments += [
                Judgment(row.trace_id, E, "p", r, Outcome.SCORED, 3 - 3 * len(heard), heard) for r in range(3)
            ]
        texts = [
            replace(row, errors=tuple(replace(e, description=e.description or e.category) for e in row.errors))
            for row in rows
        ]
        return match_judgments(texts, judgments, TextOrSpan())

    champion, challenger = table(0.3, lambda _: True), table(0.95, lambda i: i == 1)
    result = validate(champion, challenger, {}, Gates(margins={}), FAST)
    assert result.verdict is Verdict.FAIL
    assert any(reason.startswith(f"{E}: coverage -0.97") for reason in result.reasons)


class TextOrSpan(SpanMatcher):
    """A label without a span is identified by its words."""

    needs_span = False

    def similarities(self, pairs: Sequence[tuple[Finding, ErrorLabel]]) -> Floats:
        found = [e.span_id in f.span_ids or f.explanation == e.description for f, e in pairs]
        return np.array(found, dtype=np.float64)


def test_who_cites_every_span_points_at_none() -> None:
    rows = make_rows(160)
    rows = [
        replace(
            row,
            trace=replace(
                row.trace,
                spans=tuple(
                    Span(f"{row.trace_id}-{s}", None, f"step {s}", SpanKind.TOOL, outputs=f"{row.trace_id} {s}")
                    for s in range(20)
                ),
            ),
        )
        for row in rows
    ]
    rows = [
        replace(row, errors=tuple(replace(e, span_id=f"{row.trace_id}-{7 + i % 12}") for e in row.errors))
        for i, row in enumerate(rows)
    ]
    champion = judge(rows, 0, 0.6, 0.0)
    everything = [
        Judgment(row.trace_id, D, "p", r, Outcome.SCORED, 0 if row.errors else 3, found)
        for row in rows
        for r in range(3)
        for found in [
            (Finding(D, tuple(span.span_id for span in row.trace.spans), "off", severity=Impact.HIGH),)
            if row.errors
            else ()
        ]
    ]
    table = match_judgments(rows, everything, SpanMatcher())
    assert validate(champion, table, {}, None, FAST).verdict is Verdict.FAIL


def test_a_judge_that_fails_on_the_few_traces_with_most_labels_is_not_proved() -> None:
    """A twentieth of the traces, half of the labels."""
    rows = make_rows(170)
    heavy = [row.trace_id for row in rows if row.errors][:8]
    rows = [
        replace(
            row, errors=tuple(ErrorLabel(f"{row.trace_id}-{s}", (D,), f"kind {s}", Impact.HIGH) for s in range(5)) * 2
        )
        if row.trace_id in heavy
        else row
        for row in rows
    ]
    champion, challenger = judge(rows, 0, 0.7, 0.2), judge(rows, 1, 0.95, 0.0)
    failing = challenger.where(np.array([[[row.trace_id not in heavy] * 3] for row in rows]))
    result = validate(champion, failing, {}, None, FAST)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("of the labels of what the challenger read can be used" in reason for reason in result.reasons)


def test_a_gain_over_a_judge_that_always_says_the_same_can_pass() -> None:
    """It has no alpha; the agreement of its repeats is compared."""
    rows = make_rows(160)
    silent, perfect = judge(rows, 0, 0.0, 0.0), judge(rows, 1, 1.0, 0.0)
    result = validate(silent, perfect, {}, None, FAST)
    assert result.verdict is Verdict.PASS
    assert any(reason.startswith("raw_agreement did not change") for reason in result.reasons)
    wavering = judge(rows, 1, 0.7, 0.0)
    assert validate(silent, wavering, {}, None, FAST).verdict is not Verdict.PASS


def test_without_clean_traces_the_way_out_is_said() -> None:
    rows = [row for row in make_rows(160) if row.errors]
    result = validate(judge(rows, 0, 0.3, 0.0), judge(rows, 1, 0.95, 0.0), {}, None, FAST)
    assert any(
        "no clean traces (without this guard: gates: {margins: {false_alarms: null}})" in r for r in result.reasons
    )


@pytest.mark.parametrize(
    ("labelled", "clean", "what", "needed"), [(3, 40, "with a label", 101), (40, 3, "without an error", None)]
)
def test_a_handful_of_tasks_proves_nothing(labelled: int, clean: int, what: str, needed: int | None) -> None:
    """A perfect judge against one that is always wrong, with intervals of no width."""
    rows = make_rows(80)
    chosen = [*[row for row in rows if row.errors][:labelled], *[row for row in rows if not row.errors][:clean]]
    champion, challenger = judge(chosen, 0, 0.0, 1.0), judge(chosen, 1, 1.0, 0.0)
    result = validate(champion, challenger, {}, Gates(margins={"false_alarms": 0.5}), FAST)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert f"3 independent tasks {what}, at least 10 are needed" in result.reasons
    assert result.labels_needed == needed
    assert validate(champion, challenger, {}, Gates(margins={}, least_groups=2), FAST).verdict is Verdict.PASS


def test_copies_of_a_task_are_no_further_tasks() -> None:
    rows = [replace(row, group=f"task {i % 6 // 2}") for i, row in enumerate(make_rows(80))]
    result = validate(judge(rows, 0, 0.1, 0.9), judge(rows, 1, 1.0, 0.0), {}, None, FAST)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("3 independent tasks with a label, at least 10 are needed" in reason for reason in result.reasons)


def test_an_undefined_guard_does_not_pass_in_silence() -> None:
    """One reading of each trace: consistency over repeats cannot be known."""
    rows = make_rows(80)
    result = validate(
        judge(rows, 0, 0.4, 0.5, repeats=1), judge(rows, 1, 0.95, 0.05, repeats=1), controls_of(rows, 1), None, FAST
    )
    assert result.verdict is Verdict.INCONCLUSIVE
    assert len(result.reasons) == 1
    assert result.reasons[0].startswith("alpha cannot be compared: ")
    assert result.labels_needed is None


def test_a_guard_without_variation_on_either_side_passes() -> None:
    """Both report an error on every trace, every time: nothing varies, all repeats agree."""
    rows = [row for row in make_rows(80) if row.errors]
    clean = [row for row in make_rows(81)[::2]]
    both = [*rows, *clean]
    champion = everywhere(both, lambda row: [f"{row.trace_id}-3", f"{row.trace_id}-1"])
    challenger = everywhere(both, lambda row: [f"{row.trace_id}-1"])
    result = validate(champion, challenger, {}, Gates(margins={"alpha": 0.1}), FAST)
    assert result.verdict is Verdict.PASS
    assert any("raw_agreement did not change" in reason for reason in result.reasons)


def everywhere(rows: Sequence[LabeledTrace], spans: Callable[[LabeledTrace], list[str]], name: str = D) -> MatchTable:
    judgments = [
        Judgment(
            row.trace_id, name, "p", repeat, Outcome.SCORED, 0, tuple(Finding(name, (s,), "off") for s in spans(row))
        )
        for row in rows
        for repeat in range(3)
    ]
    return match_judgments(rows, judgments, SpanMatcher())


def test_another_primary_metric() -> None:
    result = verdict((0.9, 0.6), (0.9, 0.1), gates=Gates(primary="false_alarms", margins={"coverage": 0.2}))
    assert result.differences["false_alarms"].high is not None
    assert result.differences["false_alarms"].high < 0
    # The silent control has no false alarm at all, so this metric alone cannot carry a verdict.
    assert result.verdict is Verdict.INCONCLUSIVE
    assert [reason.partition(":")[0] for reason in result.reasons] == ["false_alarms against the control 'silent'"]


def test_tables_of_different_rows_are_refused() -> None:
    rows = make_rows(10)
    with pytest.raises(PipelineError, match="differ"):
        validate(judge(rows, 0, 0.5, 0.5), judge(rows[:8], 0, 0.5, 0.5), {})


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"primary": "f2"}, "f2"),
        ({"margins": {"recall": 0.1}}, "recall"),
        ({"margins": {"coverage": -0.1}}, "0 or more"),
        ({"scored_share": 1.5}, "0 to 1"),
        ({"dimension_margin": -0.1}, "dimension_margin is -0.1: accepted is 0 or more"),
        ({"least_groups": 1}, "least_groups is 1: accepted is 2 or more"),
        ({"margin": {}}, "margin"),
    ],
)
def test_bad_gates_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        Gates.parse(options)


def test_gates_from_plain_values_keep_the_other_guards() -> None:
    gates = Gates.parse({"margins": {"alpha": 0.2, "agreement": None}})
    assert gates.margins == {"coverage": 0.05, "localization": 0.05, "false_alarms": 0.05, "alpha": 0.2}
    assert replace(gates, margins=Gates().margins) == Gates()


def test_every_condition_is_said_those_that_did_not_hold_first() -> None:
    rows = make_rows(80)
    better = validate(judge(rows, 0, 0.3, 0.3), judge(rows, 1, 0.95, 0.02), controls_of(rows), None, FAST)
    assert (better.verdict, better.conditions["held"]) == (Verdict.PASS, better.reasons)
    worse = validate(judge(rows, 0, 0.3, 0.0), judge(rows, 1, 0.95, 0.9), controls_of(rows), None, FAST)
    assert list(worse.conditions) == ["failed", "open", "held"]
    assert (worse.verdict, worse.conditions["failed"]) == (Verdict.FAIL, worse.reasons)
    assert any(said.startswith("coverage rose") for said in worse.conditions["held"])
