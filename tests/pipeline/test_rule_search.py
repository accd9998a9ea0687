from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from judges.decision import DecisionRule
from judges.judgment import Finding, Judgment, Outcome
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import DIMENSIONS, ErrorLabel, Impact
from labeled_traces.trace import Span, SpanKind, Trace
from pipeline.matching import SpanMatcher, build_matcher
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.suite import suite_metrics
from pipeline.metrics.table import match_judgments
from pipeline.rule_search import RuleSettings, _Replay, search_rule

NAMES = tuple(DIMENSIONS)


def make_rows(n: int) -> list[LabeledTrace]:
    """Two of three traces have errors: one of each of two dimensions at span 1, now and then one without a span."""
    rows = []
    for i in range(n):
        spans = tuple(Span(f"t{i}-{s}", None, f"step {s}", SpanKind.TOOL, outputs=f"{i} {s}") for s in range(6))
        errors = [ErrorLabel(f"t{i}-1", NAMES[i % 7 : i % 7 + 2], "slip", Impact.MEDIUM, "a wrong year", "2021")]
        if i % 5 == 0:
            errors.append(ErrorLabel(None, (NAMES[0],), "vague", Impact.LOW, "vague answer"))
        rows.append(LabeledTrace(Trace(f"t{i}", spans), tuple(errors) if i % 3 else ()))
    return rows


def read(rows: Sequence[LabeledTrace], seed: int = 0, repeats: int = 2, sure: float = 90.0) -> list[Judgment]:
    """Judges that find most errors, and report other spans as well, with less confidence (mean 50, sd 10)."""
    draw = np.random.default_rng(seed)

    def confidence(mean: float) -> int:
        return int(np.clip(draw.normal(mean, 10), 0, 100))

    judgments = []
    for row in rows:
        for name in NAMES:
            for repeat in range(repeats):
                found = [
                    Finding(
                        name, (error.span_id or f"{row.trace_id}-0",), "a wrong year", "", Impact.HIGH, confidence(sure)
                    )
                    for error in row.errors_of(name)
                    if draw.random() < 0.9
                ]
                found += [
                    Finding(name, (f"{row.trace_id}-{s}",), "terse", "", Impact.MEDIUM, confidence(50))
                    for s in range(2, 6)
                    if draw.random() < 0.15
                ]
                usable = draw.random() < 0.97
                outcome = Outcome.SCORED if usable else Outcome.TIMEOUT
                judgments.append(
                    Judgment(
                        row.trace_id, name, "p", repeat, outcome, 0 if usable else None, tuple(found) if usable else ()
                    )
                )
    return judgments


def of_one_severity(judgments: Sequence[Judgment]) -> list[Judgment]:
    return [
        replace(judgment, findings=tuple(replace(finding, severity=Impact.MEDIUM) for finding in judgment.findings))
        for judgment in judgments
    ]


@pytest.mark.parametrize("kind", ["span", "text"])
@pytest.mark.parametrize(
    "rule",
    [
        DecisionRule(),
        DecisionRule(min_confidence=70),
        DecisionRule(Impact.HIGH, max_per_trace=1),
        DecisionRule(min_judges=2, max_per_trace=2),
    ],
)
def test_replayed_counts_are_those_of_the_metrics(kind: str, rule: DecisionRule) -> None:
    rows = make_rows(40)
    judgments = read(rows)
    matcher = build_matcher(kind, rows)
    replay = _Replay(match_judgments(rows, judgments, matcher), matcher)
    for _ in range(2):  # what is remembered counts as what is new
        counted = replay.counts(rule.apply(judgments)).metrics
        exact = suite_metrics(match_judgments(rows, rule.apply(judgments), matcher), MetricSettings(resamples=2))
        assert counted == {name: pytest.approx(exact[name].value) for name in ("f1", "coverage", "localization")}


def test_a_rule_that_drops_false_alarms_is_found() -> None:
    rows = make_rows(60)
    judgments = read(rows)
    result = search_rule(judgments, rows, SpanMatcher())
    assert result.improved
    assert result.rule != DecisionRule()
    assert result.gain is not None
    assert result.gain.low is not None
    assert result.gain.low > 0
    assert result.after["f1"] > result.before["f1"] + 0.2
    for name in ("coverage", "localization"):
        assert result.after[name] >= 0.95 * result.before[name]
    assert result.tried == 3 * 7 * 2 * 4
    assert "f1 " in result.reason


def test_errors_are_not_traded_for_false_alarms() -> None:
    """True and false findings are equally sure: every rule that helps the F1 loses too many errors."""
    rows = make_rows(60)
    judgments = of_one_severity(read(rows, sure=50.0))
    result = search_rule(judgments, rows, SpanMatcher(), RuleSettings(judges=(1,), per_trace=(None,)))
    assert not result.improved
    assert result.rule == DecisionRule()


def test_a_gain_within_noise_is_not_taken() -> None:
    rows = make_rows(9)
    judgments = of_one_severity(read(rows, repeats=1, sure=52.0))
    settings = RuleSettings(judges=(1,), per_trace=(None,), keep=0.8)
    result = search_rule(judgments, rows, SpanMatcher(), settings)
    assert not result.improved
    assert result.rule == DecisionRule()
    assert result.reason.startswith("no gain shown: f1 0.")
    assert result.gain is not None
    assert result.after["f1"] > result.before["f1"]


@pytest.mark.parametrize("seed", range(3))
def test_rules_that_are_passed_over_would_not_have_won(seed: int) -> None:
    rows = make_rows(30)
    judgments = read(rows, seed=seed, sure=65.0)
    settings = RuleSettings(confidences=(0, 50, 60), per_trace=(None, 2, 1))
    replay = _Replay(match_judgments(rows, judgments, SpanMatcher()), SpanMatcher())
    raw = replay.counts(judgments).metrics
    tried = [replay.counts(rule.apply(judgments)).metrics for rule in settings.rules]
    kept = [m["f1"] for m in tried if all(m[name] >= 0.95 * raw[name] for name in ("coverage", "localization"))]
    assert search_rule(judgments, rows, SpanMatcher(), settings).after["f1"] == max(kept)


def test_of_equal_rules_the_laxest_is_taken() -> None:
    """All false findings have a confidence of 10, all true ones 100: any threshold between does the same."""
    rows = make_rows(60)
    judgments = [
        replace(
            judgment,
            findings=tuple(
                replace(f, severity=Impact.HIGH, confidence=100 if f.explanation == "a wrong year" else 10)
                for f in judgment.findings
            ),
        )
        for judgment in read(rows)
    ]
    result = search_rule(judgments, rows, SpanMatcher())
    assert result.rule == DecisionRule(min_confidence=40)


def test_without_findings_or_labels_nothing_changes() -> None:
    rows = make_rows(9)
    silent = [replace(judgment, findings=(), score=3) for judgment in read(rows)]
    assert not search_rule(silent, rows, SpanMatcher()).improved
    clean = [replace(row, errors=()) for row in rows]
    assert not search_rule(read(clean), clean, SpanMatcher()).improved


def test_140_traces_seven_judges_and_three_repeats_take_seconds() -> None:
    rows = make_rows(140)
    judgments = read(rows, repeats=3)
    start = time.process_time()
    search_rule(judgments, rows, SpanMatcher())
    assert time.process_time() - start < 10
