"""The report: one HTML file that needs nothing else, readable offline and printed."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from labeled_traces.files import write_lines
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import HIGHER_IS_BETTER
from pipeline.report import plots
from pipeline.report.details import Details, details_html
from pipeline.report.table import MARK, conditions, metrics_shown, money, notes, seconds, verdict_line, with_interval
from pipeline.results import SIDES, STEP_METRICS, Result, counted_labels

_CSS = """
body{font:15px/1.5 system-ui,sans-serif;color:#1c1f24;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;border-bottom:1px solid #e2e4e8;text-align:left;vertical-align:top}
th{font-weight:600}.better,.held{color:#0b6e4f}.worse,.failed{color:#a3261c}.open{color:#8a6d1f}.dim{color:#6b7079}
.banner{background:#fff4d6;border:1px solid #e4c36a;padding:.5rem .8rem;margin:1rem 0}
.verdict{display:inline-block;padding:.1rem .7rem;border-radius:.3rem;color:#fff;font-weight:600}
.PASS{background:#0b6e4f}.FAIL{background:#a3261c}.INCONCLUSIVE{background:#8a6d1f}
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
        "<p class=dim>Judges that read nothing, through the same code: a metric that one of them wins says little.</p>",
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
        cells = [_text(with_interval(result.sides[name].metrics.get(metric))) for name in sides]
        rows.append([_text(metric.replace("_", " ")), *cells, _difference(result, metric)])
    return _table(["metric", *(result.names[name] for name in sides), f"tuned - {result.before}"], rows)


def _difference(result: Result, metric: str) -> str:
    estimate = result.differences.get(metric)
    shown = _text(with_interval(estimate, "+"))
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
        for label, side in ((result.before, metrics), ("tuned", after.get(dimension, {}))):
            cells = [_text(with_interval(side.get(name))) for name in names]
            labels = side["coverage"].n if "coverage" in side else 0
            rows.append([_text(dimension.replace("_", " ")), label, str(labels), *cells])
    plot = plots.dimensions(before, after, "localization")
    return f"<h2>Dimensions</h2>{plot}" + _table(["dimension", "judge", "labels counted", *names], rows)


def _steps(result: Result) -> str:
    if len(result.steps) < 2:
        return ""
    rows = [[result.names["seed"], "", "", *_metrics(result.steps[0].before, STEP_METRICS), "", "", ""]]
    for step in result.steps:
        names = [", ".join(kept).replace("_", " ") or "-" for kept in (step.changed, step.kept)]
        more = (with_interval(step.gain.get("f1"), "+"), f"{step.calls:,}", seconds(step))
        rows.append([step.optimizer, *names, *_metrics(step.after, STEP_METRICS), *more])
    about = (
        f"On {result.steps[0].traces} validation traces, read anew. The searches have seen these traces, so only the "
        "testset says how large the gain is."
    )
    heading = ["step", "changed", "kept", *STEP_METRICS, "gain in f1", "calls", "seconds"]
    table = _table(heading, [[_text(cell) for cell in row] for row in rows])
    return f"<h2>What each step of the search added</h2><p class=dim>{_text(about)}</p>{table}"


def _metrics(metrics: Mapping[str, Estimate], names: Sequence[str]) -> list[str]:
    return [with_interval(metrics.get(name)) for name in names]


def _controls(result: Result) -> str:
    names = [name for name in metrics_shown(result) if name != "scored_share"]
    rows = []
    for control in result.controls:
        marks = ["*" if control in result.beaten.get(name, ()) else "" for name in names]
        cells = [with_interval(result.sides[control].metrics.get(name)) for name in names]
        rows.append([_text(control), *(_text(cell + mark) for cell, mark in zip(cells, marks, strict=True))])
    return _table(["control", *names], rows) + f"<p class=dim>{_text(MARK)}</p>"


def _outcomes(result: Result) -> str:
    sides = {name: side.outcomes for name, side in result.sides.items() if side.outcomes}
    outcomes = sorted({outcome for counts in sides.values() for outcome in counts})
    rows = [
        [_text(result.names[name]), *(str(counts.get(outcome, 0)) for outcome in outcomes)]
        for name, counts in sides.items()
    ]
    return _table(["judgments", *outcomes], rows)


def _cost(result: Result) -> str:
    return money(result.cost, result.simulated)


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
