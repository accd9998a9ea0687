"""One reading of one prompt: what is noticed, where it is placed, what is made up, and the score that follows."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from judges.simulated_lm.alarms import THEMES
from judges.simulated_lm.judging import Reader
from judges.simulated_lm.profiles import Profile
from judges.simulated_lm.reading import Texts
from judges.simulated_lm.sight import Sight, Step
from judges.simulated_lm.traits import Traits, read_traits
from labeled_traces.label import DIMENSIONS, Impact
from labeled_traces.simulated.checks import Problem

TEXTS = Texts("tool_calling", "Judge the calls.", "Nothing else.", "", "", "", has_plan=False)
TRAITS = read_traits(TEXTS)
PROBLEM = Problem(
    "misread_output",
    ("logical_consistency", "tool_calling"),
    "cause",
    "symptom",
    Impact.HIGH,
    "The tool output was misread in step 2: db_lookup returned 48.1, but 41.8 was recorded in v1.",
    "v1 = 41.8",
)
STEPS = tuple(
    Step(span_id, f'LLM "{span_id}"', oddness, "some words") for span_id, oddness in (("cause", 0.5), ("symptom", 1.5))
)
SIGHT = Sight(
    problems=(PROBLEM,),
    steps=STEPS,
    places={"root": "AGENT", "cause": "LLM", "symptom": "LLM"},
    neighbours={"cause": ("root",), "symptom": ("root",)},
    plan_source="labelled",
    plans=(),
    tokens=0,
)
CLEAN = replace(SIGHT, problems=())
SURE = Profile(
    skill=100, aim=0, notes_aim=1, template_aim=0.5, slip=0, leak=0, alarm_rate=0, severity_noise=0, score_noise=0
)


def replies(
    profile: Profile = SURE, texts: Texts = TEXTS, traits: Traits = TRAITS, sight: Sight = SIGHT, n: int = 400
) -> list[dict[str, Any]]:
    return [json.loads(Reader(profile, texts, traits, sight, random.Random(seed)).reply()) for seed in range(n)]


def findings(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (finding for row in rows for finding in row["findings"])


def test_a_sure_reader_reports_the_error_with_its_values_and_a_score_that_follows() -> None:
    row = replies(n=1)[0]
    assert list(row) == ["rationale", "findings", "score"]
    assert row["rationale"].startswith("(simulated)")
    assert row["score"] == 0
    (finding,) = row["findings"]
    assert finding["span_ids"] == ["symptom"]
    assert (finding["evidence"], finding["severity"]) == ("v1 = 41.8", "high")
    assert all(value in finding["explanation"] for value in ("48.1", "41.8", "db_lookup", "step 2", "v1"))
    assert finding["explanation"] not in PROBLEM.description


def test_explanations_are_worded_in_more_than_one_way() -> None:
    assert len({finding["explanation"] for finding in findings(replies(n=50))}) > 1


def test_noticing_follows_the_formula() -> None:
    profile = Profile(skill=2, low_salience=0.5, trace_tokens=1000, described_gain=1, shown_gain=0.5, prompt_tokens=100)
    traits = replace(
        TRAITS, described={**TRAITS.described, "misread_output": 0.5}, shown=frozenset({"misread_output"}), tokens=200
    )
    low = replace(PROBLEM, impact=Impact.LOW)
    reader = Reader(profile, TEXTS, traits, replace(SIGHT, tokens=500), random.Random(0))
    assert reader.notice_probability(low) == pytest.approx(1 - math.exp(-2 * 1 * 0.5 * (1 + 0.5 + 0.5) / (1.5 * 2)))
    medium = replace(PROBLEM, impact=Impact.MEDIUM)
    assert reader.notice_probability(low) < reader.notice_probability(medium) < reader.notice_probability(PROBLEM)


def test_one_prompt_for_all_dimensions_notices_less_and_a_plan_helps() -> None:
    def chance(texts: Texts) -> float:
        return Reader(Profile(), texts, TRAITS, SIGHT, random.Random(0)).notice_probability(PROBLEM)

    holistic = replace(TEXTS, dimension="holistic")
    assert chance(holistic) < chance(TEXTS) < chance(replace(TEXTS, has_plan=True))


def test_how_often_an_error_is_reported_is_the_probability() -> None:
    profile = replace(SURE, skill=0.7)
    expected = Reader(profile, TEXTS, TRAITS, SIGHT, random.Random(0)).notice_probability(PROBLEM)
    seen = sum(bool(row["findings"]) for row in replies(profile, n=4000)) / 4000
    assert seen == pytest.approx(expected, abs=0.03)


def test_notes_and_template_move_the_finding_from_the_symptom_to_the_cause() -> None:
    def share(traits: Traits) -> float:
        spans = [finding["span_ids"][0] for finding in findings(replies(traits=traits))]
        return spans.count("cause") / len(spans)

    assert share(TRAITS) == 0
    assert share(replace(TRAITS, asks_first_span=True)) == pytest.approx(0.5, abs=0.08)
    assert share(replace(TRAITS, notes=0.5)) == pytest.approx(0.5, abs=0.08)
    assert share(replace(TRAITS, notes=1.0)) > 0.95


def test_a_symptom_beside_its_cause_misleads_half_as_often() -> None:
    near = replace(SIGHT, neighbours={"cause": ("symptom",), "symptom": ("cause",)})
    spans = [finding["span_ids"][0] for finding in findings(replies(sight=near))]
    assert spans.count("cause") / len(spans) == pytest.approx(0.5, abs=0.08)


def test_a_judge_leaves_errors_of_other_dimensions_alone_but_for_leaks() -> None:
    efficiency = replace(TEXTS, dimension="execution_efficiency")
    assert not list(findings(replies(texts=efficiency)))
    leaky = replace(SURE, leak=0.2, no_exclusions=2.0)
    assert len(list(findings(replies(leaky, efficiency, n=2000)))) / 2000 == pytest.approx(0.2, abs=0.03)
    open_traits = replace(TRAITS, has_exclusions=False)
    assert len(list(findings(replies(leaky, efficiency, open_traits, n=2000)))) / 2000 == pytest.approx(0.4, abs=0.03)


def test_an_echo_reports_the_error_again_at_a_neighbour() -> None:
    row = replies(replace(SURE, echo=1.0), n=1)[0]
    assert sorted(finding["span_ids"][0] for finding in row["findings"]) == ["root", "symptom"]


def test_the_holistic_judge_names_one_of_the_dimensions() -> None:
    named = {finding["dimension"] for finding in findings(replies(texts=replace(TEXTS, dimension="holistic")))}
    assert named == set(PROBLEM.dimensions)


def test_a_trace_without_a_plan_makes_plan_judges_not_applicable() -> None:
    no_plan = replace(SIGHT, plan_source="none")
    for name in ("plan_quality", "plan_adherence"):
        (row,) = replies(texts=replace(TEXTS, dimension=name), sight=no_plan, n=1)
        assert (row["score"], row["findings"]) == ("not_applicable", [])
    assert replies(sight=no_plan, n=1)[0]["score"] == 0


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_false_alarms_come_at_their_rate_in_the_words_of_a_theme(dimension: str) -> None:
    profile = replace(SURE, alarm_rate=0.1)
    rows = replies(profile, replace(TEXTS, dimension=dimension), sight=CLEAN, n=2000)
    alarms = list(findings(rows))
    assert len(alarms) / len(rows) == pytest.approx(0.1 * (0.5 + 1.5), rel=0.2)
    assert sum(alarm["span_ids"] == ["symptom"] for alarm in alarms) / len(alarms) == pytest.approx(0.75, abs=0.06)
    wordings = {wording for theme in THEMES[dimension] for wording in theme.wordings}
    assert {alarm["explanation"].rpartition(" (")[0] for alarm in alarms} == wordings


def alarms_per_reply(traits: Traits, texts: Texts = TEXTS) -> float:
    profile = replace(SURE, alarm_rate=0.2, no_exclusions=2.0, notes_calm=0.5, clause_calm=0.0)
    return len(list(findings(replies(profile, texts, traits, CLEAN, n=4000)))) / 4000


def test_exclusions_notes_examples_and_clauses_calm_false_alarms() -> None:
    base = alarms_per_reply(TRAITS)
    calmed = {
        "exclusions": alarms_per_reply(replace(TRAITS, has_exclusions=False)) / base,
        "notes": alarms_per_reply(replace(TRAITS, notes=1.0)) / base,
        "example": alarms_per_reply(replace(TRAITS, clean_example=True)) / base,
        "evidence": alarms_per_reply(replace(TRAITS, asks_evidence=True)) / base,
        "clause": alarms_per_reply(replace(TRAITS, denied=frozenset({THEMES["tool_calling"][0].cue}))) / base,
    }
    assert calmed == pytest.approx(
        {"exclusions": 2.0, "notes": 0.5, "example": 0.5, "evidence": 0.75, "clause": 0.4}, rel=0.15
    )


def test_severity_and_confidence_tell_true_findings_from_false_ones_on_average() -> None:
    profile = replace(SURE, alarm_rate=0.3)
    true = list(findings(replies(SURE)))
    false = list(findings(replies(profile, sight=CLEAN)))
    assert all(5 <= finding["confidence"] <= 99 for finding in (*true, *false))

    def mean(rows: list[dict[str, Any]]) -> float:
        return float(sum(row["confidence"] for row in rows)) / len(rows)

    assert 10 < mean(true) - mean(false) < 30
    assert max(row["confidence"] for row in false) > mean(true)


def test_severity_and_score_are_noisy_at_their_rates() -> None:
    noisy = replies(replace(SURE, severity_noise=0.3), n=2000)
    severities = [finding["severity"] for finding in findings(noisy)]
    # High can only fall: one of the two directions stays high.
    assert severities.count("medium") / len(severities) == pytest.approx(0.15, abs=0.03)
    off = [row["score"] for row in replies(replace(SURE, score_noise=0.4), n=2000)]
    assert off.count(1) / len(off) == pytest.approx(0.2, abs=0.03)


def test_a_reply_keeps_to_the_contracts_limits() -> None:
    many = replace(SIGHT, problems=(replace(PROBLEM, evidence="x" * 500, description="step 1 " * 200),) * 30)
    row = replies(sight=many, n=1)[0]
    assert len(row["findings"]) == 10
    assert all(len(finding["explanation"]) <= 300 and len(finding["evidence"]) == 200 for finding in row["findings"])
    assert len(replies(texts=replace(TEXTS, dimension="holistic"), sight=many, n=1)[0]["findings"]) == 24
