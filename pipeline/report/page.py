"""The report: one HTML file that needs nothing else, readable offline and printed."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from labeled_traces.files import write_lines
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import HIGHER_IS_BETTER
from pipeline.report import plots
from pipeline.report.details import Details, details_html
from pipeline.report.table import (
    INTERVAL,
    MARK,
    STEP_COLUMNS,
    changes,
    conditions,
    metrics_shown,
    money,
    notes,
    seconds,
    short,
    verdict_line,
    with_interval,
)
from pipeline.report.words import CONTROLS, METRICS, ONE_NUMBER, by_span, judges
from pipeline.results import SIDES, Result, counted_labels

_CSS = """
body{font:15px/1.5 system-ui,sans-serif;color:#1c1f24;max-width:68rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;border-bottom:1px solid #e2e4e8;text-align:left;vertical-align:top}
th{font-weight:600}.better,.held{color:#0b6e4f}.worse,.failed{color:#a3261c}.open{color:#8a6d1f}.dim{color:#6b7079}
.banner{background:#fff4d6;border:1px solid #e4c36a;padding:.5rem .8rem;margin:1rem 0}
.verdict{display:inline-block;padding:.1rem .7rem;border-radius:.3rem;color:#fff;font-weight:600}
.PASS{background:#0b6e4f}.FAIL{background:#a3261c}.INCONCLUSIVE{background:#8a6d1f}
small{white-space:nowrap;font-size:.76em}
pre{white-space:pre-wrap;overflow-wrap:anywhere}summary{cursor:pointer}blockquote{margin:.3rem 0 .3rem 1rem}
svg{max-width:100%;height:auto}code{font-size:.9em;overflow-wrap:anywhere}
"""


def write_report(result: Result, path: Path, details: Details | None = None) -> None:
    """Writes the page, whole or not at all."""
    write_lines(path, [_safe(report_html(result, details))])


def report_html(result: Result, details: Details | None = None) -> str:
    origin = {} if details is None else {"date": details.date, "code": details.code}
    parts = [
        f"<h1>{_text(result.name)}</h1>",
        _banner(result),
        _verdict(result),
        *(_measured(result) if result.sides else [_steps(result)]),
        *(details_html(details) if details else []),
        "<h2>Cost</h2>",
        _rows([("calls", f"{result.usage.calls:,}"), ("tokens", f"{result.usage.tokens:,}"), ("cost", _cost(result))]),
        *(["<h2>What was judged</h2>", _outcomes(result)] if result.sides else []),
        "<h2>Provenance</h2>",
        _rows([(name, value) for name, value in {**origin, **result.provenance}.items()]),
    ]
    head = f"<meta charset=utf-8><meta name=viewport content='width=device-width'><title>{_text(result.name)}</title>"
    return f"<!doctype html><html lang=en><head>{head}<style>{_CSS}</style></head><body>{''.join(parts)}</body></html>"


def _measured(result: Result) -> list[str]:
    """What the testset showed."""
    return [
        "<h2>Before and after, on the testset</h2>",
        f"<p class=dim>{_text(judges(result))} In brackets: {_text(INTERVAL)}.</p>",
        plots.intervals(result),
        _headline(result),
        "<h2>Free-response curves</h2>",
        "<p class=dim>Each point is one strictness of the decision rule: how many false alarms a clean trace gets, and "
        "which share of the labels is found at its span. Up and to the left is better; a curve that runs above another "
        "one finds more at the same false alarms. The area up to one false alarm per trace is the FROC area.</p>",
        plots.curves(result),
        _dimensions(result),
        _steps(result),
        "<h2>Controls</h2>",
        f"<p class=dim>{_text(CONTROLS)}</p>",
        _controls(result),
    ]


def _banner(result: Result) -> str:
    if not result.simulated:
        return ""
    return (
        f"<p class=banner><b>Simulated model.</b> The judge model was <code>{_text(result.model)}</code>, a stand-in. "
        "These numbers say that the machinery works; they say nothing of a real model.</p>"
    )


def _verdict(result: Result) -> str:
    read = f"read by {result.model}" if result.sides else "not read"
    about = f"{result.traces} held-out traces with {counted_labels(result.labels, result.outside_gpa)}, {read}"
    line = _text(verdict_line(result)).removeprefix(result.verdict).removeprefix(": ")
    held = _table([], [[f"<span class={state}>{state}</span>", _text(said)] for state, said in conditions(result)])
    items = "".join(f"<li>{_text(note)}</li>" for note in notes(result))
    return (
        f"<p><span class='verdict {_text(result.verdict)}'>{_text(result.verdict)}</span> <b>{line}</b></p>"
        f"<p class=dim>{_text(about)}</p>{held}<ul>{items}</ul>"
    )


def _headline(result: Result) -> str:
    sides = [name for name in SIDES if name in result.sides]
    rows = []
    for metric in metrics_shown(result):
        cells = [_cell(with_interval(result.sides[name].metrics.get(metric))) for name in sides]
        meaning = f"<span class=dim>{_text(METRICS[metric].text)}</span>"
        rows.append([_text(metric.replace("_", " ")), *cells, _difference(result, metric), meaning])
    heading = ["metric", *(result.names[name] for name in sides), f"tuned - {result.before}", "what it says"]
    return _table(heading, rows) + (f"<p class=dim>{_text(ONE_NUMBER)}.</p>" if by_span(result) else "")


def _cell(value: str) -> str:
    """A value, and its interval below."""
    known, _, interval = value.partition(" ")
    return _text(known) + (f"<br><small class=dim>{_text(interval)}</small>" if interval else "")


def _difference(result: Result, metric: str) -> str:
    estimate = result.differences.get(metric)
    shown = _cell(with_interval(estimate, "+"))
    if estimate is None or estimate.low is None or estimate.high is None or estimate.low <= 0 <= estimate.high:
        return shown
    better = (estimate.low > 0) == HIGHER_IS_BETTER[metric]
    return f"<span class={'better' if better else 'worse'}>{shown}</span>"


def _dimensions(result: Result) -> str:
    before, after = result.sides["seed"].dimensions, result.sides["tuned"].dimensions
    if not before:
        return ""
    names = ("coverage", "localization", "precision", "false_alarms")
    rows = []
    for dimension, metrics in before.items():
        tuned = after.get(dimension, {})
        cells = [_change(metrics.get(name), tuned.get(name)) for name in names]
        labels = metrics["coverage"].n if "coverage" in metrics else 0
        rows.append([_text(dimension.replace("_", " ")), str(labels), *cells])
    plot = plots.dimensions(result, "localization")
    return f"<h2>Dimensions</h2>{plot}" + _table([f"{result.before} \u2192 tuned", "labels", *names], rows)


def _change(before: Estimate | None, after: Estimate | None) -> str:
    """Two values, and their intervals below."""
    known = [side for side in (before, after) if side is not None and side.low is not None]
    below = " \u2192 ".join(f"[{side.low:.2f}, {side.high:.2f}]" for side in known) if len(known) == 2 else ""
    return f"{short(before)} \u2192 {short(after)}" + (f"<br><small class=dim>{below}</small>" if below else "")


def _steps(result: Result) -> str:
    if len(result.steps) < 2:
        return ""
    rows = []
    for step in result.steps:
        changed, kept = ([name.replace("_", " ") for name in names] for names in (step.changed, step.kept))
        lost = [f"<s>{_text(name)}</s>" for name in changed if name not in kept]
        cells = [
            _text(cell.replace("->", "\u2192").replace(" ", "\u00a0"))
            for cell in changes(step.before, step.after, step.gain)
        ]
        names = ", ".join([*map(_text, kept), *lost]) or "-"
        rows.append([_text(step.optimizer), names, *cells, f"{step.calls:,}", seconds(step)])
    about = (
        f"On {result.steps[0].traces} validation traces, read anew. The searches have seen these traces, so only the "
        "testset says how large the gain is. Kept: the dimensions whose change the selection found better; struck "
        "through: changed by the step, and not kept."
    )
    table = _table([name.replace("gain", "gain in f1") for name in STEP_COLUMNS], rows)
    return f"<h2>What each step of the search added</h2><p class=dim>{_text(about)}</p>{table}"


def _controls(result: Result) -> str:
    names = [name for name in metrics_shown(result) if name != "scored_share"]
    rows = []
    for control in result.controls:
        marks = ["*" if control in result.beaten.get(name, ()) else "" for name in names]
        cells = [short(result.sides[control].metrics.get(name)) for name in names]
        rows.append(
            [_text(control.replace("_", " ")), *(_text(cell + mark) for cell, mark in zip(cells, marks, strict=True))]
        )
    return _table(["control", *names], rows) + f"<p class=dim>{_text(MARK)}</p>"


def _outcomes(result: Result) -> str:
    sides = {name: side.outcomes for name, side in result.sides.items() if side.outcomes}
    outcomes = sorted({outcome for counts in sides.values() for outcome in counts})
    rows = [
        [_text(result.names[name]), *(str(counts.get(outcome, 0)) for outcome in outcomes)]
        for name, counts in sides.items()
    ]
    repaired = [
        [_text(result.names[name]), _text(kind), str(count)]
        for name, side in result.sides.items()
        for kind, count in side.warnings.items()
    ]
    warnings = _table(["replies that were repaired in reading", "how", "judgments"], repaired) if repaired else ""
    return _table(["judgments", *outcomes], rows) + warnings


def _cost(result: Result) -> str:
    return money(result.cost, result.simulated, result.usage.doubt)


def _rows(pairs: Iterable[tuple[str, str]]) -> str:
    return _table([], [[_text(name), f"<code>{_text(value)}</code>"] for name, value in pairs])


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are HTML already; headings are not."""
    head = "".join(f"<th>{_text(cell.replace('_', ' '))}</th>" for cell in heading)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: str) -> str:
    return html.escape(value)


def _safe(text: str) -> str:
    """Lone surrogates and control characters cannot stand in a UTF-8 page."""
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" or (c < " " and c not in "\n\t") else c for c in text)
