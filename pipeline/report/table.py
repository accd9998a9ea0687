"""Results as plain text: aligned columns, at most 100 wide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipeline.metrics.estimate import Estimate
from pipeline.report.words import METRICS, ONE_NUMBER, by_span
from pipeline.results import HEADLINE, SIDES, Result, StepReport, counted_labels
from pipeline.terminal import columns_of, counted

MEASURED = (*HEADLINE, "f1", "froc_area", "raw_agreement", "scored_share")
"""What is shown of one suite alone."""
INTERVAL = "95 % interval by resampling whole tasks"
STEP_COLUMNS = ("step", "kept", "f1", "gain", "coverage", "alpha", "calls", "seconds")
MARK = "* better than the tuned judges: this metric proves nothing by itself"


def result_table(result: Result) -> str:
    """The before/after table with intervals, the controls, the dimensions, the verdict and the cost."""
    labels = counted_labels(result.labels, result.outside_gpa)
    traces = counted(result.traces, "trace")
    about = f"Held-out testset: {traces}, {labels},\nread by {reader(result.model, result.simulated)}"
    if result.sides:
        parts = [about, _headline(result), _controls(result), _dimensions(result), _steps(result), _verdict(result)]
    else:  # nothing was changed, so nothing was read
        parts = [steps_table(result.steps), _verdict(result)]
    return "\n\n".join(part for part in parts if part)


def metrics_table(metrics: Mapping[str, Estimate], names: Sequence[str]) -> str:
    """One suite alone: value, interval and what it rests on."""
    rows = [["metric", "value", "95 % interval", "of", ""]]
    for name in names:
        if (estimate := metrics.get(name)) is not None:
            interval = "" if estimate.low is None else f"[{estimate.low:.2f}, {estimate.high:.2f}]"
            value = "undefined" if estimate.value is None else f"{estimate.value:.3f}"
            reason = (estimate.reason or "").removeprefix(f"{name} undefined: ")
            rows.append([name, value, interval, f"{estimate.n} {METRICS[name].counted}", reason])
    return columns(rows)


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Left-aligned columns, two blanks apart; the first row is the heading."""
    widths = [max(columns_of(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(cell + " " * (width - columns_of(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(columns_of, lines)), *lines[1:]])


def steps_table(steps: Sequence[StepReport], *more: Sequence[str]) -> str:
    """What each step of a search added, a row each; `more` rows follow. Empty for a single step, which has nothing to
    be compared with."""
    if len(steps) < 2:
        return ""
    rows = []
    for step in steps:
        kept = f"{len(step.kept)} of {len(step.changed)}" if step.changed else "-"
        cells = changes(step.before, step.after, step.gain)
        rows.append([step.optimizer, kept, *cells, f"{step.calls:,}", seconds(step)])
    said = "kept: of the dimensions that the step changed, those that the selection found better\n"
    said += f"on {steps[0].traces} validation traces, read anew by the selection; the searches have seen these traces\n"
    said += f"in brackets: {INTERVAL}"
    return f"{columns([STEP_COLUMNS, *rows, *more])}\n{said}"


def changes(
    before: Mapping[str, Estimate], after: Mapping[str, Estimate], gain: Mapping[str, Estimate]
) -> tuple[str, str, str, str]:
    """f1, its paired gain, coverage and alpha, as cells of `steps_table`."""
    f1, coverage, alpha = (f"{short(before.get(n))} -> {short(after.get(n))}" for n in ("f1", "coverage", "alpha"))
    return f1, with_interval(gain.get("f1"), "+"), coverage, alpha


def with_interval(estimate: Estimate | None, sign: str = "") -> str:
    """`0.74 [0.70, 0.78]`, or why there is no number."""
    if estimate is None:
        return "-"
    if estimate.value is None:
        return "undefined"
    value = format(estimate.value, f"{sign}.2f")
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{format(estimate.low, f'{sign}.2f')}, {format(estimate.high, f'{sign}.2f')}]"


def seconds(step: StepReport) -> str:
    return "-" if step.seconds is None else f"{step.seconds:.0f}"


def reader(model: str, simulated: bool) -> str:
    """The judge model, called simulated where it is."""
    return f"{model} (a simulated model)" if simulated else model


def money(cost: float | None, simulated: bool, doubt: str = "") -> str:
    """`simulated`: the judges are, but a reflection model may not be. `doubt`: see `Usage`."""
    if simulated and cost == 0:
        return "free: the model is simulated"
    return "unknown: no price is known for the model" if cost is None else f"{cost:.4f} dollars{doubt}"


def _headline(result: Result) -> str:
    sides = [name for name in SIDES if name in result.sides]
    before, *others = sides
    heading = ["", *(result.names[name] for name in (before, "tuned")), f"tuned - {result.before}"]
    rest = [name for name in others if name != "tuned"]
    rows = [[*heading, *(result.names[name] for name in rest)]]
    for metric in metrics_shown(result):
        cells = [with_interval(result.sides[name].metrics.get(metric)) for name in (before, "tuned")]
        cells.append(with_interval(result.differences.get(metric), "+"))
        cells += [with_interval(result.sides[name].metrics.get(metric)) for name in rest]
        rows.append([metric, *cells])
    return columns(rows) + (f"\n{ONE_NUMBER}" if by_span(result) else "")


def metrics_shown(result: Result) -> list[str]:
    extra = [name for name in ("f1", "froc_area", "scored_share") if name in result.sides["tuned"].metrics]
    return [*HEADLINE, *extra]


def _controls(result: Result) -> str:
    if not result.controls:
        return ""
    names = [name for name in metrics_shown(result) if name != "scored_share"]
    rows = [["controls", *names]]
    for control in result.controls:
        metrics = result.sides[control].metrics
        cells = [short(metrics.get(name)) + ("*" if control in result.beaten.get(name, ()) else "") for name in names]
        rows.append([control.replace("_", " "), *cells])
    return columns(rows) + f"\n{MARK}"


def _dimensions(result: Result) -> str:
    before, after = result.sides["seed"].dimensions, result.sides["tuned"].dimensions
    if not before:
        return ""
    names = ("coverage", "localization", "precision", "false_alarms")
    rows = [[f"{result.before} -> tuned", "labels", *names]]
    for dimension, metrics in before.items():
        tuned = after.get(dimension, {})
        cells = [f"{short(metrics.get(name))} -> {short(tuned.get(name))}" for name in names]
        labels = metrics["coverage"].n if "coverage" in metrics else 0
        rows.append([dimension, str(labels), *cells])
    return columns(rows)


def _steps(result: Result) -> str:
    return steps_table(result.steps, testset_row(result))


def testset_row(result: Result) -> list[str]:
    """What the testset says of all steps together, below them."""
    cells = changes(result.sides["seed"].metrics, result.sides["tuned"].metrics, result.differences)
    return ["testset", "", *cells, "", ""]


def verdict_line(result: Result) -> str:
    """The verdict in one line: with what gain, on how much, and how many conditions failed, are open and held."""
    if not result.sides:
        return result.verdict
    name = result.primary
    before, after = (short(result.sides[side].metrics.get(name)) for side in ("seed", "tuned"))
    gain = with_interval(result.differences.get(name), "+")
    counts = [f"{len(said)} {state}" for state, said in result.conditions.items() if said]
    held = f"; conditions: {', '.join(counts)}" if counts else ""
    return f"{result.verdict}: {name} {before} -> {after}, {gain}, {counted(result.traces, 'trace')}{held}"


def conditions(result: Result) -> list[tuple[str, str]]:
    """Whether it failed, is open or held, and what: what did not hold comes first. Empty where nothing was read."""
    return [(state, condition) for state, said in result.conditions.items() for condition in said]


def notes(result: Result) -> list[str]:
    """What else a reader must know beside the numbers, a line each: undefined numbers, warnings."""
    lines = [] if result.conditions else list(result.reasons)
    if result.labels_needed is not None:
        lines.append(f"about {result.labels_needed} more labelled traces would decide it")
    if result.test_uses > 1:
        lines.append(
            f"use {result.test_uses} of this testset: the more uses, the less a PASS says; trust a new one more"
        )
    for side in (name for name in SIDES if name in result.sides):
        for metric, estimate in result.sides[side].metrics.items():
            if metric in HEADLINE and estimate.value is None:
                reason = (estimate.reason or "").removeprefix(f"{metric} undefined: ")
                lines.append(f"undefined: {metric} of the {result.names[side]}: {reason}")
    return [*lines, *(f"warning: {warning}" for warning in result.warnings)]


def _verdict(result: Result) -> str:
    cost = money(result.cost, result.simulated, result.usage.doubt)
    lines = [f"Verdict: {verdict_line(result)}"]
    if result.sides:
        lines.append(f"  in brackets: {INTERVAL}, of tuned - {result.before} or tuned - control")
    lines += [f"  {state:<6}  {condition}" for state, condition in conditions(result)]
    lines += [f"  {note}" for note in notes(result)]
    return "\n".join([*lines, f"Cost: {counted(result.usage.calls, 'call')}, {result.usage.tokens:,} tokens, {cost}"])


def short(estimate: Estimate | None) -> str:
    return "-" if estimate is None or estimate.value is None else f"{estimate.value:.2f}"
