"""The profiles' measured shape: generic prompts, prompts that a person tuned by hand, and the one holistic prompt.

The bands are broad; what they hold is meant to be so, and published where the comment says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pytest

from judges.judgment import HOLISTIC
from judges.program import JudgeProgram, JudgeSuite, seed_program, seed_suite
from judges.simulated_lm import SimulatedLM
from labeled_traces.simulated import FaultRates, simulate
from pipeline.evaluate import EvaluateSettings, evaluate
from pipeline.matching import build_matcher
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.suite import suite_metrics
from pipeline.metrics.table import match_judgments

RUBRIC_LINES = {
    "goal_fulfillment": """\
- Put the final answer beside the question: the same entity, year and quantity, and not just a value found on the way.
- Not an error: an answer without a source or caveat, or with other rounding.""",
    "logical_consistency": """\
- Compare every recorded value with what the tool returned, digit by digit; a misread figure is an error.
- A step that is skipped because the agent says it already knows the value (from memory, without a tool call) is an \
error even if the value is right.
- Check the format rules in the system message: the plan must end with its end tag.
- Not an error: an unstated assumption that the task makes plain, or a change in wording.""",
    "execution_efficiency": """\
- The same call with identical arguments a second time, when its result was already there, is a repeated call.
- Not an error: separate calls where one merged call might do, and a turn that only records a value.""",
    "plan_quality": """\
- Go through the plan: does it cover every sub-task, none missing, and is every input of a step produced by an earlier \
step? A plan that cannot succeed is an error.
- Not an error: no fallback, no step that verifies.""",
    "plan_adherence": """\
- A planned step that is skipped: the executor recalls the value from memory without a tool call. It is an error even \
if the value is right.
- Not an error: another order of independent steps, or a step that is not mentioned by number.""",
    "tool_selection": """\
- Exact figures belong to the authoritative source: a search of the web where a database holds the figure is the less \
suited alternative.
- Not an error: a tool for something simple, and no rationale for a fitting choice.""",
    "tool_calling": """\
- Check each call's arguments against the schema (required, type) and against the step: year, entity and count must \
match what was asked.
- A tool output that is misread: the value recorded differs from the figure returned, compare them digit by digit.
- Not an error: an optional argument left at its default, another spelling.""",
}
NOTES = """\
The planner writes a numbered plan, and the executor carries it out step by step with tools. The cause of a wrong step \
is often in the plan; then the error belongs to the planner's span. The final answer is written from recorded values."""
TEMPLATE = """
Cite the span where the error first appears, not where it shows later. Report only what you can prove by a quotation."""


def with_notes(program: JudgeProgram) -> JudgeProgram:
    return program.with_parts({"architecture_notes": NOTES}, "hand")


def tuned(program: JudgeProgram) -> JudgeProgram:
    texts = {
        "rubric": f"{program.rubric}\n{RUBRIC_LINES[program.dimension]}",
        "architecture_notes": NOTES,
        "output_template": program.output_template + TEMPLATE,
    }
    return program.with_parts(texts, "hand")


def suite_of(name: str) -> JudgeSuite:
    if name == "holistic":
        return JudgeSuite({HOLISTIC: seed_program(HOLISTIC)})
    change: Callable[[JudgeProgram], JudgeProgram] = {"seed": lambda p: p, "notes": with_notes, "tuned": tuned}[name]
    return JudgeSuite({dimension: change(program) for dimension, program in seed_suite().programs.items()})


@lru_cache
def measured(profile: str, name: str) -> dict[str, float]:
    """The suite's metrics on 100 traces with doubled faults, five repeats, text matcher, true labels."""
    rows = list(simulate(100, seed=23, rates=FaultRates().scaled(2.0)))
    programs = {
        dimension: program.with_knobs(model=f"simulated/{profile}", max_tokens=5_000)
        for dimension, program in suite_of(name).programs.items()
    }
    judgments = evaluate(JudgeSuite(programs), rows, SimulatedLM(), EvaluateSettings(repeats=5))
    table = match_judgments(rows, judgments, build_matcher("text", rows))
    metrics = suite_metrics(table, MetricSettings(resamples=2))
    numbers = {key: estimate.value for key, estimate in metrics.items() if estimate.value is not None}
    clean = {row.trace_id for row in rows if not row.errors}
    alarms = sum(len(cell.findings) for (trace_id, _, _), cell in table.cells.items() if trace_id in clean)
    return {**numbers, "alarms_per_clean": alarms / (5 * len(clean))}


BANDS = {
    # Published: coverage .917 / .554, of low impact .863 / .431, localization .736 without and .893
    # with architecture notes, alpha .769 / .269, agreement .940.
    ("forgetful", "seed"): {
        "coverage": (0.88, 0.96),
        "coverage_low": (0.80, 0.92),
        "localization": (0.68, 0.79),
        "alpha": (0.71, 0.85),
        "agreement": (0.90, 0.97),
        "false_alarms": (0.02, 0.16),
    },
    ("forgetful", "notes"): {"coverage": (0.88, 0.96), "localization": (0.85, 0.94)},
    ("forgetful", "holistic"): {
        "coverage": (0.45, 0.62),
        "coverage_low": (0.36, 0.52),
        "alpha": (0.20, 0.42),
    },
    # A share of both faults; good texts mend them.
    ("default", "seed"): {
        "coverage": (0.74, 0.84),
        "localization": (0.53, 0.65),
        "false_alarms": (0.38, 0.62),
        "alpha": (0.38, 0.58),
    },
    ("default", "tuned"): {
        "coverage": (0.87, 0.97),
        "localization": (0.83, 0.96),
        "false_alarms": (0.01, 0.25),
        "alpha": (0.70, 0.92),
    },
    ("default", "holistic"): {"coverage": (0.28, 0.50), "localization": (0.15, 0.36), "false_alarms": (0.30, 0.65)},
    # A strong model with generic prompts: finds nearly all, flags 7 of 8 clean runs, most findings are unlabelled.
    ("overzealous", "seed"): {
        "coverage": (0.96, 1.0),
        "false_alarms": (0.74, 0.96),
        "alarms_per_clean": (1.8, 3.4),
        "precision": (0.2, 0.4),
    },
    ("overzealous", "tuned"): {"coverage": (0.96, 1.0), "false_alarms": (0.04, 0.40), "precision": (0.45, 0.75)},
    ("overzealous", "holistic"): {"coverage": (0.70, 0.90), "false_alarms": (0.45, 0.85)},
}


@pytest.mark.parametrize(("profile", "name"), BANDS)
def test_a_profile_shows_its_shape(profile: str, name: str) -> None:
    numbers = measured(profile, name)
    outside = {
        key: (low, round(numbers[key], 3), high)
        for key, (low, high) in BANDS[profile, name].items()
        if not low <= numbers[key] <= high
    }
    assert outside == {}


def test_one_judge_per_dimension_beats_the_holistic_one() -> None:
    for profile in ("forgetful", "default", "overzealous"):
        seed, holistic = measured(profile, "seed"), measured(profile, "holistic")
        assert seed["coverage"] > holistic["coverage"] + 0.1
        assert seed["localization"] > holistic["localization"] + 0.1
        if profile != "overzealous":  # its false alarms make both inconsistent
            assert seed["alpha"] > holistic["alpha"] + 0.1


def test_good_texts_raise_localization_and_calm_false_alarms_of_every_profile() -> None:
    for profile in ("forgetful", "default", "overzealous"):
        seed, tuned_ = measured(profile, "seed"), measured(profile, "tuned")
        assert tuned_["localization"] > seed["localization"] + 0.1
        assert tuned_["false_alarms"] < seed["false_alarms"] / 2
        assert tuned_["alpha"] > seed["alpha"]
        assert tuned_["coverage"] > seed["coverage"] - 0.01


def test_low_impact_errors_are_covered_less() -> None:
    for profile in ("forgetful", "default"):
        numbers = measured(profile, "seed")
        assert numbers["coverage_low"] < numbers["coverage_high"] - 0.05
