"""One trace as a tree in the terminal, with what people said at its spans."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from judges.notation import text_of
from judges.render import estimate_tokens
from labeled_traces.label import ErrorLabel, ScoreLabel
from labeled_traces.trace import Span, Trace
from pipeline.inspect.contents import Contents, tokens_of
from pipeline.inspect.statistics import NO_NAME
from pipeline.inspect.text import asked_and_answered
from pipeline.terminal import Terminal, columns_of, counted, one_line

_COLOURS = {"AGENT": "magenta", "LLM": "blue", "TOOL": "cyan", "RETRIEVER": "cyan"}
_LEAST = 24
"""Columns that a line keeps for its text, however deep it stands."""
_GLYPHS = ("├─ ", "└─ ", "│  ", "   ")
_SIMPLE = ("|- ", "`- ", "|  ", "   ")


def head_text(one: Contents, terminal: Terminal) -> str:
    """Which trace it is, how large, who read it, what was asked and what came out."""
    return "\n".join(_head(one, terminal))


def tree_text(one: Contents, terminal: Terminal) -> str:
    """The spans, each label in short at its span, and then in full."""
    lines = list(_spans(one, terminal))
    if one.row.errors:
        lines += ["", "labels:", *(line for error in one.row.errors for line in _in_full(error, terminal))]
    if one.row.scores:
        lines += ["", terminal.wrap(f"scores: {', '.join(map(_score, one.row.scores))}")]
    return "\n".join(lines)


def tree_json(one: Contents) -> list[dict[str, Any]]:
    """The spans in walk order, each with its depth and what people said there."""
    depths = _depths(one.trace)
    return [
        {
            "span_id": span.span_id,
            "parent_id": span.parent_id,
            "depth": depths[span.span_id],
            "kind": str(span.kind),
            "name": span.name,
            "tokens": _size(span),
            "counted": tokens_of(span),
            "seconds": _seconds(span),
            "status": span.status,
            "error": span.error,
            "shown": span.span_id in one.shown,
            "labels": [_label_json(error) for error in one.row.errors if error.span_id == span.span_id],
        }
        for span in one.trace.walk()
    ]


def _label_json(error: ErrorLabel) -> dict[str, Any]:
    return {**vars(error), "dimensions": list(error.dimensions), "impact": str(error.impact)}


def _head(one: Contents, terminal: Terminal) -> Iterator[str]:
    row = one.row
    yield terminal.paint(f"trace {one_line(row.trace_id)}", "bold")
    starts = [span.start for span in row.trace.spans if span.start is not None]
    ends = [span.end for span in row.trace.spans if span.end is not None]
    took = f", {_duration(max(ends) - min(starts))}" if starts and ends else ""
    fits = "fits" if one.whole.tokens <= one.limit else "does not fit"
    spans = counted(len(row.trace.spans), "span")
    yield terminal.wrap(f"{spans}{took}, about {one.whole.tokens:,} tokens: {fits} the limit of {one.limit:,}")
    said = f"{counted(len(row.errors), 'error label')}; without errors it would be {row.clean}"
    about = [f"group {row.group}" if row.group else "no group", said]
    about += [f"read by {', '.join(row.raters)}"] if row.raters else []
    yield terminal.wrap("; ".join(about))
    first = f" (first of {one.user_turns} turns of the user)" if one.user_turns > 1 else ""
    yield terminal.show(f"goal{first}: {one.goal or '(none recorded)'}")
    yield terminal.show(f"answer: {one.answer or '(none recorded)'}")


def _spans(one: Contents, terminal: Terminal) -> Iterator[str]:
    middle, last, through, nothing = _SIMPLE if terminal.simple else _GLYPHS
    stack = [(span, "", "") for span in reversed(one.trace.roots)]
    labels: dict[str, list[ErrorLabel]] = {}
    for error in one.row.errors:
        labels.setdefault(error.span_id or "", []).append(error)
    while stack:
        span, indent, mark = stack.pop()
        children = one.trace.children(span.span_id)
        yield _line(one, span, indent + mark, terminal)
        below = indent + (through if mark == middle else nothing if mark else "")
        bar = through if children else nothing
        inside = _short(below + bar, terminal) + "  "
        if span.error or span.status == "ERROR":
            text = terminal.fit(f"! {span.error or 'failed'}", terminal.width - columns_of(inside))
            yield inside + terminal.paint(text, "red")
        for error in labels.get(span.span_id, ()):
            yield from _label(error, inside, terminal)
        for number, child in enumerate(reversed(children)):
            stack.append((child, below, last if number == 0 else middle))


def _line(one: Contents, span: Span, indent: str, terminal: Terminal) -> str:
    tokens = tokens_of(span)
    size = f"~{_size(span):,} tokens" if _size(span) else "nothing recorded"
    if "prompt" in tokens or "completion" in tokens:
        size = asked_and_answered(tokens)
    parts = [size, *([_duration(took)] if (took := _seconds(span)) is not None else [])]
    parts += [] if span.span_id in one.rendered else ["a wrapper, not shown"]
    parts += ["left out"] if span.span_id in one.rendered and span.span_id not in one.shown else []
    span_id, about = one_line(span.span_id), ", ".join(parts)
    indent = _short(indent, terminal)
    room = terminal.width - columns_of(indent) - len(span.kind) - 1
    name = terminal.fit(span.name or "(no name)", max(_LEAST // 2, room - columns_of(f"{about}  {span_id}") - 2))
    about = f"{terminal.fit(about, max(0, room - columns_of(f'{name}    {span_id}')))}  {span_id}"
    kind = terminal.paint(str(span.kind), _COLOURS.get(str(span.kind), "green"))
    return f"{indent}{kind} {name}  {terminal.paint(about, 'dim')}"


def _label(error: ErrorLabel, indent: str, terminal: Terminal) -> Iterator[str]:
    mark = "#" if terminal.simple else "✗"
    dimensions = ", ".join(error.dimensions) or "outside GPA"
    said = f"{mark} {error.impact} {error.category or 'no category'} ({dimensions}), by {error.rater or NO_NAME}"
    text = error.description or error.evidence
    line = terminal.fit(f"{said}: {text}" if text else said, terminal.width - columns_of(indent))
    yield indent + terminal.paint(line, "yellow")


def _in_full(error: ErrorLabel, terminal: Terminal) -> Iterator[str]:
    dimensions = ", ".join(error.dimensions) or "outside GPA"
    said = datetime.fromtimestamp(error.time, UTC).isoformat(" ", "minutes") if error.time is not None else ""
    who = " at ".join(filter(None, [error.rater or NO_NAME, said]))
    where = f"span {error.span_id}" if error.span_id is not None else "no span"
    head = f"{where}: {error.impact} {error.category or 'no category'} ({dimensions}), by {who}"
    yield terminal.paint(terminal.wrap(head, "  "), "yellow")
    for name, text in (("", error.description), ("evidence: ", error.evidence)):
        if text.strip():
            yield terminal.wrap(f"{name}{text}", "      ")


def _short(indent: str, terminal: Terminal) -> str:
    """Of deep spans the first part of the indent is left out, so that room for their text stays."""
    most = max(0, terminal.width - _LEAST - 12)
    return indent if len(indent) <= most else f"{'..' if terminal.simple else '⋯ '}{indent[len(indent) - most + 2 :]}"


def _depths(trace: Trace) -> dict[str, int]:
    depths: dict[str | None, int] = {None: -1}
    for span in trace.walk():
        depths[span.span_id] = depths[span.parent_id] + 1
    return {span_id: depth for span_id, depth in depths.items() if span_id is not None}


def _size(span: Span) -> int:
    return sum(estimate_tokens(text_of(value)) for value in (span.inputs, span.outputs) if value is not None)


def _seconds(span: Span) -> float | None:
    return None if span.start is None or span.end is None else span.end - span.start


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _score(score: ScoreLabel) -> str:
    return f"{score.dimension} {score.score}{f' ({score.rater})' if score.rater else ''}"
