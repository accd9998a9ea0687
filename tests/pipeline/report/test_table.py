from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.metrics.estimate import Estimate
from pipeline.report.table import columns, metrics_table, money, result_table, steps_table, with_interval
from pipeline.report.words import ONE_NUMBER
from pipeline.results import Result


def test_the_table_says_before_and_after(result: Result) -> None:
    lines = result_table(result).splitlines()
    assert lines[0] == "Held-out testset: 60 traces, 70 error labels (3 more outside GPA: reported apart),"
    assert lines[1] == "read by simulated/default (a simulated model)"
    coverage = next(line for line in lines if line.startswith("coverage"))
    numbers = "0.50 [0.45, 0.55] 0.75 [0.70, 0.80] +0.25 [+0.10, +0.40] 0.25 [0.20, 0.30]"
    assert " ".join(coverage.split()[1:]) == numbers
    assert "undefined" in next(line for line in lines if line.startswith("alpha"))
    assert "  undefined: alpha of the tuned judges: no variation" in lines
    assert "Verdict: PASS: f1 0.50 -> 0.75, +0.25 [+0.10, +0.40], 60 traces; conditions: 2 held" in lines
    assert lines[-3:-1] == ["  held    alpha rose", "  undefined: alpha of the tuned judges: no variation"]
    assert "Cost: 1,234 calls, 56,789 tokens, free: the model is simulated" in lines


def test_what_did_not_hold_stands_first(result: Result) -> None:
    held = {"failed": ("coverage fell",), "open": ("few tasks",), "held": ("f1 rose",)}
    lines = result_table(replace(result, verdict="FAIL", reasons=("coverage fell",), conditions=held)).splitlines()
    start = lines.index(
        "Verdict: FAIL: f1 0.50 -> 0.75, +0.25 [+0.10, +0.40], 60 traces; conditions: 1 failed, 1 open, 1 held"
    )
    assert lines[start + 2 : start + 5] == ["  failed  coverage fell", "  open    few tasks", "  held    f1 rose"]


def test_a_control_that_wins_is_marked(result: Result) -> None:
    lines = result_table(result).splitlines()
    control = next(line for line in lines if line.startswith("flag all"))
    assert control.split()[2:4] == ["1.00*", "0.10"]
    assert any(line.startswith("* better than the tuned judges") for line in lines)


def test_it_says_what_each_step_added(result: Result) -> None:
    lines = [line.split() for line in result_table(result).splitlines()]
    heading = lines.index(["step", "kept", "f1", "gain", "coverage", "alpha", "calls", "seconds"])
    assert " ".join(lines[heading + 2]) == (
        "gepa 2 of 2 0.50 -> 0.70 +0.20 [+0.15, +0.25] 0.50 -> 0.70 0.50 -> 0.70 12,445 22"
    )
    assert " ".join(lines[heading + 3]) == (
        "evolution 0 of 2 0.70 -> 0.70 +0.00 [-0.05, +0.05] 0.70 -> 0.70 0.70 -> 0.70 12,445 22"
    )
    assert " ".join(lines[heading + 4]) == "testset 0.50 -> 0.75 +0.25 [+0.10, +0.40] 0.50 -> 0.75 0.50 -> -"
    assert lines[heading + 5][:4] == ["kept:", "of", "the", "dimensions"]
    assert lines[heading + 6][:4] == ["on", "100", "validation", "traces,"]
    assert " ".join(lines[heading + 7]) == "in brackets: 95 % interval by resampling whole tasks"


def test_judges_of_ones_own_are_not_called_generic(result: Result) -> None:
    text = result_table(replace(result, generic=False))
    assert "generic" not in text
    assert "champion judges" in text
    assert "tuned - champion" in text
    assert "champion -> tuned" in text


def test_a_time_that_nobody_knows_is_no_zero(result: Result) -> None:
    unknown = [replace(step, seconds=None) for step in result.steps]
    rows = [line.split() for line in steps_table(unknown).splitlines()[2:4]]
    assert [row[-2:] for row in rows] == [["12,445", "-"]] * 2


def test_where_a_step_changed_nothing_nothing_can_be_kept(result: Result) -> None:
    rows = [
        line.split() for line in steps_table([replace(step, changed=(), kept=()) for step in result.steps]).split("\n")
    ]
    assert [row[:2] for row in rows[2:4]] == [["gepa", "-"], ["evolution", "-"]]


def test_a_matcher_that_makes_two_metrics_one_is_told(result: Result) -> None:
    assert ONE_NUMBER not in result_table(replace(result, provenance={"matcher": "text>=0.3"}))
    assert f"\n{ONE_NUMBER}\n" in result_table(replace(result, provenance={"matcher": "span"}))


def test_a_single_step_needs_no_table(result: Result) -> None:
    assert "validation traces" not in result_table(replace(result, steps=result.steps[:1]))
    assert steps_table(()) == ""


def test_it_fits_into_a_hundred_columns(result: Result) -> None:
    assert max(map(len, result_table(result).splitlines())) <= 100


def test_it_is_plain_text(result: Result) -> None:
    assert "\x1b" not in result_table(result)


def test_without_holistic_controls_and_dimensions(result: Result) -> None:
    few = replace(result, sides={name: replace(result.sides[name], dimensions={}) for name in ("seed", "tuned")})
    text = result_table(replace(few, controls=()))
    assert "holistic" not in text
    assert "controls" not in text
    assert "generic ->" not in text


def test_nothing_was_read(result: Result) -> None:
    text = result_table(
        replace(result, sides={}, controls=(), beaten={}, differences={}, reasons=("nothing new",), conditions={})
    )
    assert "gepa" in text
    assert text.endswith("Verdict: PASS\n  nothing new\nCost: 1,234 calls, 56,789 tokens, free: the model is simulated")


def test_what_else_a_reader_must_know(result: Result) -> None:
    text = result_table(replace(result, labels_needed=300, test_uses=2, warnings=("seed: 1 refused",), cost=None))
    assert "about 300 more labelled traces would decide it" in text
    assert "use 2 of this testset: the more uses, the less a PASS says" in text
    assert "warning: seed: 1 refused" in text
    text = result_table(replace(result, simulated=False, cost=None))
    assert "a simulated model" not in text
    assert "unknown: no price is known" in text


@pytest.mark.parametrize(
    ("estimate", "sign", "text"),
    [
        (None, "", "-"),
        (Estimate(None, reason="no labels"), "", "undefined"),
        (Estimate(0.5, n=3), "", "0.50"),
        (Estimate(0.5, 0.25, 0.75, 3), "", "0.50 [0.25, 0.75]"),
        (Estimate(0.5, -0.25, 0.75, 3), "+", "+0.50 [-0.25, +0.75]"),
    ],
)
def test_a_number_with_its_interval(estimate: Estimate | None, sign: str, text: str) -> None:
    assert with_interval(estimate, sign) == text


def test_one_suite_alone() -> None:
    metrics = {"coverage": Estimate(0.5, 0.4, 0.6, 7), "alpha": Estimate(None, n=2, reason="no variation")}
    lines = metrics_table(metrics, ("coverage", "precision", "alpha")).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["coverage", "0.500", "[0.40,", "0.60]", "7", "labels"],
        ["alpha", "undefined", "2", "pairs", "of", "trace", "and", "judge", "no", "variation"],
    ]


def test_columns_are_aligned() -> None:
    assert columns([["a", "bb"], ["ccc", "d"]]).splitlines() == ["a    bb", "-------", "ccc  d"]


@pytest.mark.parametrize(
    ("cost", "simulated", "text"),
    [
        (0.0, True, "free"),
        (1.5, False, "1.5000 dollars"),
        (None, False, "unknown"),
        (0.0, False, "0.0000 dollars"),
        (None, True, "unknown"),
        (1.5, True, "1.5000 dollars"),
    ],
)
def test_money(cost: float | None, simulated: bool, text: str) -> None:
    assert money(cost, simulated).startswith(text)
