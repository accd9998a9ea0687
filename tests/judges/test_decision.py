from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.decision import FILE_NAME, DecisionRule
from judges.judgment import Finding, Judgment, Outcome
from judges.lm import JudgeError
from labeled_traces.label import DIMENSIONS, Impact, score_from_impacts

LOW, MEDIUM, HIGH = Impact


def finding(dimension: str, *span_ids: str, severity: Impact = MEDIUM, confidence: int = 80) -> Finding:
    return Finding(dimension, span_ids, "e", severity=severity, confidence=confidence)


def judgment(*findings: Finding, dimension: str = "tool_calling", trace: str = "t", repeat: int = 0) -> Judgment:
    score = score_from_impacts(f.severity for f in findings)
    return Judgment(trace, dimension, "hash", repeat, Outcome.SCORED, score, findings)


JUDGMENTS = st.lists(
    st.builds(
        lambda dimension, findings, trace, repeat: judgment(*findings, dimension=dimension, trace=trace, repeat=repeat),
        st.sampled_from([*DIMENSIONS]),
        st.lists(
            st.builds(
                lambda d, s, i, c: finding(d, *s, severity=i, confidence=c),
                st.sampled_from([*DIMENSIONS]),
                st.lists(st.sampled_from("abc"), max_size=3, unique=True),
                st.sampled_from(Impact),
                st.integers(0, 100),
            ),
            max_size=4,
        ),
        st.sampled_from("xy"),
        st.integers(0, 1),
    ),
    max_size=6,
)
RULES = st.builds(
    DecisionRule, st.sampled_from(Impact), st.integers(0, 100), st.integers(1, 3), st.none() | st.integers(1, 5)
)


@given(JUDGMENTS)
def test_the_default_rule_changes_nothing(judgments: list[Judgment]) -> None:
    assert DecisionRule().apply(judgments) == judgments


def test_severity_and_confidence() -> None:
    findings = [
        finding("tool_calling", "a", severity=LOW, confidence=99),
        finding("tool_calling", "b", severity=MEDIUM, confidence=60),
        finding("tool_calling", "c", severity=HIGH, confidence=59),
    ]
    given_ = judgment(*findings)
    assert DecisionRule(min_severity=MEDIUM).apply([given_])[0].findings == tuple(findings[1:])
    assert DecisionRule(min_confidence=60).apply([given_])[0].findings == tuple(findings[:2])
    reported = DecisionRule(min_severity=MEDIUM, min_confidence=60).apply([given_])[0]
    assert (reported.findings, reported.score, given_.score) == ((findings[1],), 1, 0)


def test_a_judgment_that_loses_all_scores_three_and_one_that_loses_nothing_keeps_its_score() -> None:
    odd = Judgment("t", "tool_calling", "h", 0, Outcome.SCORED, 3, (finding("tool_calling", "a", severity=HIGH),))
    assert DecisionRule(min_severity=HIGH).apply([odd]) == [odd]
    assert DecisionRule(min_confidence=100).apply([judgment(finding("tool_calling", "a"))])[0].score == 3


def test_judges_must_agree_on_a_span() -> None:
    calling = judgment(finding("tool_calling", "a", "b"), finding("tool_calling", "c"))
    logic = judgment(
        finding("logical_consistency", "b"), finding("logical_consistency", "d"), dimension="logical_consistency"
    )
    one, two = DecisionRule(min_judges=2).apply([calling, logic])
    assert one.findings == (finding("tool_calling", "b"),)
    assert two.findings == (finding("logical_consistency", "b"),)
    assert [j.findings for j in DecisionRule(min_judges=3).apply([calling, logic])] == [(), ()]


def test_two_findings_of_one_dimension_are_one_judge() -> None:
    row = judgment(finding("tool_calling", "a"), finding("tool_calling", "a"))
    assert DecisionRule(min_judges=2).apply([row])[0].findings == ()


def test_the_holistic_judge_counts_by_the_dimensions_of_its_findings() -> None:
    row = judgment(finding("tool_calling", "a"), finding("plan_quality", "a"), dimension="holistic")
    assert DecisionRule(min_judges=2).apply([row]) == [row]


def test_a_finding_that_is_too_weak_does_not_count_as_a_judge() -> None:
    strong = judgment(finding("tool_calling", "a", severity=HIGH))
    weak = judgment(finding("plan_quality", "a", severity=LOW), dimension="plan_quality")
    assert [j.findings for j in DecisionRule(min_severity=HIGH, min_judges=2).apply([strong, weak])] == [(), ()]


@pytest.mark.parametrize("other", [{"trace": "u"}, {"repeat": 1}])
def test_traces_and_repeats_do_not_mix(other: dict[str, Any]) -> None:
    calling = judgment(finding("tool_calling", "a"))
    logic = judgment(finding("logical_consistency", "a"), dimension="logical_consistency", **other)
    assert [j.findings for j in DecisionRule(min_judges=2).apply([calling, logic])] == [(), ()]


def test_a_finding_without_a_span_agrees_with_nobody() -> None:
    row = judgment(finding("tool_calling"))
    assert DecisionRule().apply([row]) == [row]
    assert DecisionRule(min_judges=2).apply([row])[0].findings == ()


def test_a_judgment_that_lost_only_a_span_keeps_its_score() -> None:
    said = Judgment("t", "tool_calling", "h", 0, Outcome.SCORED, 2, (finding("tool_calling", "a", "b", severity=HIGH),))
    other = judgment(finding("plan_quality", "a"), dimension="plan_quality")
    assert DecisionRule(min_judges=2).apply([said, other])[0].score == 2


def test_the_weightiest_of_a_trace_stay_in_their_places() -> None:
    one = judgment(
        finding("tool_calling", "a", severity=LOW, confidence=100),
        finding("tool_calling", "b", severity=HIGH, confidence=50),
        finding("tool_calling", "c", severity=HIGH, confidence=50),
    )
    two = judgment(
        finding("plan_quality", "d", severity=HIGH, confidence=60),
        finding("plan_quality", "e"),
        dimension="plan_quality",
    )
    for count, kept in ((1, [[], ["d"]]), (2, [["b"], ["d"]]), (3, [["b", "c"], ["d"]]), (4, [["b", "c"], ["d", "e"]])):
        reported = DecisionRule(max_per_trace=count).apply([one, two])
        assert [[f.span_ids[0] for f in j.findings] for j in reported] == kept


@given(JUDGMENTS, RULES)
def test_a_rule_only_takes_away_and_a_second_time_changes_nothing(
    judgments: list[Judgment], rule: DecisionRule
) -> None:
    reported = rule.apply(judgments)
    if rule.max_per_trace is None or rule.min_judges == 1:  # else the cap may have taken what others agreed with
        assert rule.apply(reported) == reported
    for before, after in zip(judgments, reported, strict=True):
        assert len(after.findings) <= len(before.findings)
        assert all(f.severity >= rule.min_severity and f.confidence >= rule.min_confidence for f in after.findings)
        if len(after.findings) < len(before.findings):
            assert after.score == score_from_impacts(f.severity for f in after.findings)
        else:
            assert after.score == before.score
    for key in {(j.trace_id, j.repeat) for j in reported}:
        count = sum(len(j.findings) for j in reported if (j.trace_id, j.repeat) == key)
        assert rule.max_per_trace is None or count <= rule.max_per_trace


def test_outcomes_without_findings_pass_through() -> None:
    rows = [Judgment("t", "tool_calling", "h", 0, outcome) for outcome in Outcome]
    assert DecisionRule(HIGH, 100, 3, 1).apply(rows) == rows
    assert DecisionRule().apply([]) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"min_severity": "high"}, "min_severity is 'high'"),
        ({"min_confidence": 101}, "whole number from 0 to 100"),
        ({"min_confidence": 0.5}, "whole number"),
        ({"min_confidence": True}, "whole number"),
        ({"min_judges": 0}, "from 1 to"),
        ({"max_per_trace": 0}, "from 1 to"),
    ],
)
def test_bad_values(values: dict[str, Any], message: str) -> None:
    with pytest.raises(JudgeError, match=message):
        DecisionRule(**values)


@given(RULES)
def test_json_round_trip(rule: DecisionRule) -> None:
    assert DecisionRule.from_json(rule.to_json(), "here") == rule


def test_file_round_trip(tmp_path: Path) -> None:
    rule = DecisionRule(HIGH, 70, 2, 5)
    rule.save(tmp_path / "new")
    assert DecisionRule.load(tmp_path / "new") == rule
    text = (tmp_path / "new" / FILE_NAME).read_text(encoding="utf-8")
    assert text == "min_severity: high\nmin_confidence: 70\nmin_judges: 2\nmax_per_trace: 5\n"


def test_without_a_file_the_rule_is_the_default(tmp_path: Path) -> None:
    assert DecisionRule.load(tmp_path) == DecisionRule()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("min_severity: hihg\n", "impact 'hihg' is unknown"),
        ("min_severity: 3\n", "impact 3 is unknown"),
        ("min_severitty: high\n", "min_severitty"),
        ("min_judges: two\n", "min_judges is 'two'"),
        ("- high\n", "not a decision rule"),
        ("high\n", "not a decision rule"),
        ("", "not a decision rule"),
        ("a: [", "not a decision rule"),
        ("\x00", "not a decision rule"),
        ("1: 2", "not a decision rule"),
        ("min_severity: 2026-01-01", "line 1"),
        ("min_judges: 1\nmin_judges: 2\n", "line 2"),
        (f"min_judges: {'[' * 3000}", "nested too deeply"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / FILE_NAME).write_text(text, encoding="utf-8")
    with pytest.raises(JudgeError, match=message) as caught:
        DecisionRule.load(tmp_path)
    assert FILE_NAME in str(caught.value)
