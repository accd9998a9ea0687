from __future__ import annotations

from pathlib import Path

import pytest

from labeled_traces.label import DIMENSIONS
from labeled_traces.taxonomy import FOLDER, Taxonomy, load_taxonomy
from labeled_traces.trace import TraceError

TRAIL_LEAVES = """Language-only, Tool-related, Poor Information Retrieval, Tool Output Misinterpretation,
Incorrect Problem Identification, Tool Selection Errors, Formatting Errors, Instruction Non-compliance,
Tool Definition Issues, Environment Setup Errors, Rate Limiting, Authentication Errors, Service Errors,
Resource Not Found, Resource Exhaustion, Timeout Issues, Context Handling Failures, Resource Abuse, Goal Deviation,
Task Orchestration, Incorrect Memory Usage"""


def test_trail_has_all_21_leaves() -> None:
    leaves = [leaf.strip() for leaf in TRAIL_LEAVES.split(",")]
    assert sorted(load_taxonomy("trail").dimensions) == sorted(leaves)


@pytest.mark.parametrize(
    ("spelling", "category"),
    [
        ("Task Orchestration Errors", "Task Orchestration"),
        ("Tool Selection", "Tool Selection Errors"),
        ("Instruction non complience", "Instruction Non-compliance"),
        ("  tool-related ", "Tool-related"),
        ("TOOL_OUTPUT misinterpretation", "Tool Output Misinterpretation"),
        ("language only", "Language-only"),
        ("Formatting Error", "Formatting Errors"),
        ("Timeout", "Timeout Issues"),
        ("Goal  Deviation error", "Goal Deviation"),
    ],
)
def test_trail_spellings(spelling: str, category: str) -> None:
    assert load_taxonomy("trail").find(spelling) == category


@pytest.mark.parametrize("spelling", ["", "error", "Errors", "Tool", "Span ID not found for this shard", "🙂"])
def test_no_guess_from_a_part_of_a_name(spelling: str) -> None:
    trail = load_taxonomy("trail")
    assert trail.find(spelling) is None
    assert trail.dimensions_of(spelling) == ()


def test_dimensions_and_faults_outside_gpa() -> None:
    trail = load_taxonomy("trail")
    assert trail.dimensions_of("tool selection error") == ("tool_selection",)
    assert trail.dimensions_of("Task Orchestration") == ("plan_quality", "plan_adherence", "execution_efficiency")
    assert trail.find("rate limiting") == "Rate Limiting"
    assert trail.dimensions_of("rate limiting") == ()


def test_agentrx_spellings_and_users() -> None:
    agentrx = load_taxonomy("agentrx")
    assert agentrx.dimensions_of("Intent Plan Misalignment") == ("plan_quality",)
    assert agentrx.dimensions_of("Intent-Plan Misalignment", "Assistant") == ("plan_quality",)
    assert agentrx.dimensions_of("Instruction Adherence Failure") == ("logical_consistency",)
    assert "plan_adherence" in agentrx.dimensions_of("Instruction / Plan Adherence Failure")
    assert agentrx.dimensions_of("Invalid Invocation", " user") == ()
    assert agentrx.dimensions_of("Underspecified User Intent") == ()
    assert agentrx.find("Underspecified User Intent") == "Underspecified User Intent"


@pytest.mark.parametrize("name", [path.stem for path in FOLDER.glob("*.yaml")])
def test_tables_say_that_they_are_our_own_reading(name: str) -> None:
    assert "our own reading" in (FOLDER / f"{name}.yaml").read_text().lower()
    used = {dimension for dimensions in load_taxonomy(name).dimensions.values() for dimension in dimensions}
    assert used <= set(DIMENSIONS)


def test_a_users_own_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("categories:\n  Wrong tool:\n    dimensions: [tool_selection]\n    synonyms: [bad choice]\n")
    mine = load_taxonomy(path)
    assert mine == Taxonomy("mine", {"Wrong tool": ("tool_selection",)}, {"bad choice": "Wrong tool"})
    assert mine.dimensions_of("Bad-Choice") == ("tool_selection",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("categories: 3", "categories: accepted is a mapping"),
        ("[]", "accepted is a YAML mapping"),
        ("name: x", "categories: accepted is a mapping"),
        ("a: [", "line 1: not readable YAML"),
        ("categories: {}\ncolour: red", "unknown key 'colour': accepted are name, note, categories"),
        ("categories:\n  A: [tool_calling]", "category 'A': accepted is a mapping with `dimensions`"),
        ("categories:\n  A: {dimensions: [style]}", "category 'A': dimension 'style' is unknown"),
        ("categories:\n  A: {dimensions: tool_calling}", "category 'A', dimensions: accepted is a list"),
        ("categories:\n  A: {dimensions: [], colour: red}", "category 'A': unknown key 'colour': accepted are"),
        ("categories:\n  A b: {dimensions: []}\n  A-B: {dimensions: []}", "'A-B' means both 'A b' and 'A-B'"),
        (
            "categories:\n  A: {dimensions: [], synonyms: [c]}\n  B: {dimensions: [], synonyms: [c]}",
            "'c' means 'A' already",
        ),
        ("categories:\n  A: {dimensions: [tool_calling]}\n  A: {dimensions: []}", "line 3: .*'A' is there twice"),
        ("categories:\n  2024-01-01: {dimensions: []}", "line 2: .*'2024-01-01'"),
        ("name: 2024-01-01\ncategories: {}", "line 1: .*timestamp"),
        ("categories: " + "[" * 9000, "line 1: nested too deeply"),
        ("categories:\n  A: {dimensions: [plan_quality], synonyms: [2024-01-01]}", "line 2: .*timestamp"),
        ("categories:\n  A: {dimensions: [], synonyms: [c]}\n  B: {dimensions: [], synonyms: [C]}", "means both"),
    ],
)
def test_bad_tables_are_clear_errors(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(TraceError, match=rf"mine\.yaml.*{message}"):
        load_taxonomy(path)


def test_an_unknown_table_names_the_known_ones() -> None:
    with pytest.raises(TraceError, match=r"taxonomy nowhere: .*accepted are .*agentrx, .*trail, .*or a YAML file"):
        load_taxonomy("nowhere")
