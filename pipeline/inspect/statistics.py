"""Numbers of a data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from labeled_traces.groups import connected
from labeled_traces.label import DIMENSIONS, Impact
from labeled_traces.trace import Span, SpanKind
from pipeline.inspect.contents import Contents, raters_of, tokens_of

_LONGEST = 5
NO_NAME = "(no name)"


def statistics(data: Sequence[Contents]) -> dict[str, Any]:
    """As one JSON document; `text.py` shows it to people."""
    rows = [one.row for one in data]
    errors = [error for row in rows for error in row.errors]
    longest = sorted(data, key=lambda one: -one.whole.tokens)
    return {
        "traces": len(data),
        "groups": len(set(connected(rows))),
        "clean": sum(row.is_clean for row in rows),
        "looked_at": dict(Counter(row.clean for row in rows)),
        "spans": _spread([len(row.trace.spans) for row in rows]),
        "tokens": _spread([one.whole.tokens for one in data]),
        "longest": [_size(one) for one in longest[:_LONGEST]],
        "too_long": [
            {**_size(one), "cut": one.fitted.cut, "spans_left_out": len(one.whole.span_ids) - len(one.fitted.span_ids)}
            for one in longest
            if one.fitted.cut or len(one.fitted.span_ids) < len(one.whole.span_ids)
        ],
        "labels": {
            name: {str(impact): sum(name in e.dimensions and e.impact is impact for e in errors) for impact in Impact}
            for name in DIMENSIONS
        },
        "outside_gpa": sum(not error.dimensions for error in errors),
        "error_labels": len(errors),
        "errors": sum(len(row.distinct_errors) for row in rows),
        "scores": {name: sum(s.dimension == name for row in rows for s in row.scores) for name in DIMENSIONS},
        "raters": _raters(data),
        **_spans([span for row in rows for span in row.trace.spans]),
    }


def _size(one: Contents) -> dict[str, Any]:
    return {"trace_id": one.row.trace_id, "tokens": one.whole.tokens, "spans": len(one.trace.spans)}


def _spread(values: Sequence[int]) -> dict[str, Any]:
    ordered = sorted(values)

    def quantile(share: float) -> int:
        return ordered[round(share * (len(ordered) - 1))]

    return {
        "total": sum(values),
        "min": ordered[0],
        "median": quantile(0.5),
        "p90": quantile(0.9),
        "max": ordered[-1],
        "histogram": [list(bar) for bar in _histogram(ordered)],
    }


def _histogram(values: Sequence[int]) -> list[tuple[int, int, int]]:
    """(from, below, count) in ranges that double, since lengths of traces spread over orders of magnitude."""
    low = 1 << max(0, max(1, min(values)).bit_length() - 1)
    bars: list[tuple[int, int, int]] = []
    while low <= max(values):
        first = low if bars else 0
        bars.append((low, 2 * low, sum(first <= value < 2 * low for value in values)))
        low *= 2
    return bars


def _raters(data: Iterable[Contents]) -> dict[str, dict[str, int]]:
    found: dict[str, Counter[str]] = {}
    for one in data:
        for rater in raters_of(one.row):
            about = found.setdefault(rater or NO_NAME, Counter())
            about["traces"] += 1
            about["errors"] += sum(error.rater == rater for error in one.row.errors)
            about["scores"] += sum(score.rater == rater for score in one.row.scores)
    return {name: dict(found[name]) for name in sorted(found)}


def _spans(spans: Sequence[Span]) -> dict[str, Any]:
    models: dict[str, Counter[str]] = {}
    tools: dict[str, Counter[str]] = {}
    for span in spans:
        if span.kind is SpanKind.TOOL:
            tools.setdefault(span.name, Counter()).update(calls=1, failed=int(_has_failed(span)))
        elif span.kind is SpanKind.LLM:
            name = str(span.attributes.get("llm.model_name") or NO_NAME)
            tokens = {key: count for key, count in tokens_of(span).items() if key in ("prompt", "completion")}
            models.setdefault(name, Counter()).update(calls=1, counted=int(bool(tokens)), **tokens)
    agents = Counter(span.name for span in spans if span.kind is SpanKind.AGENT)
    return {
        "kinds": dict(Counter(str(span.kind) for span in spans).most_common()),
        "failed_spans": sum(map(_has_failed, spans)),
        "agents": dict(agents.most_common()),
        "tools": _by_calls(tools),
        "models": _by_calls(models),
    }


def _has_failed(span: Span) -> bool:
    return span.status == "ERROR" or bool(span.error)


def _by_calls(counts: dict[str, Counter[str]]) -> dict[str, dict[str, int]]:
    return {name: dict(counts[name]) for name in sorted(counts, key=lambda name: (-counts[name]["calls"], name))}
