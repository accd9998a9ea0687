"""Where labels meet traces. One that joins no span is listed, one of a trace that was not read is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from labeled_traces.readers.report import ReadOptions, ReadReport
from labeled_traces.trace import TraceError

NO_SPAN = "label that names no span of its trace, kept without one"
UNKNOWN_TRACE = "label of a trace that was not read, left out"
_SHOWN = 10


@dataclass(frozen=True)
class Unknown:
    """`labels` of a trace that was not read, as the source names it, and the place of the first."""

    where: str
    trace_id: str
    labels: int = 1


def no_span(options: ReadOptions, where: str, trace_id: str, given: object) -> None:
    """Notes a label at something that is no span of its trace; it is kept as one of the trace."""
    options.report.add(NO_SPAN, f"{where}: {given!r}")
    options.report.unjoined.append(
        {"where": where, "trace_id": trace_id, "span": str(given), "why": "no such span", "labels": 1}
    )


def refuse_unknown(options: ReadOptions, unknown: Iterable[Unknown]) -> None:
    """To be called when all traces are read, with the labels that none of them took.

    Raises:
        TraceError: there are such labels, and `options.allow_missing` does not say that they are to be counted only.
    """
    found = list(unknown)
    if not found:
        return
    if not options.allow_missing:
        labels = sum(one.labels for one in found)
        first = found[0]
        said = "1 such label" if labels == 1 else f"{labels:,} such labels"
        of = "" if len(found) == 1 else f", of {len(found):,} ids"
        raise TraceError(
            f"{first.where}: labels of {first.trace_id!r}, which is no trace that was read ({said}{of}): accepted are "
            "labels of the traces that are read, or --allow-missing, which leaves the others out and counts them"
        )
    for one in found:
        options.report.add(UNKNOWN_TRACE, f"{one.where}, trace {one.trace_id}", one.labels)
        options.report.unjoined.append(
            {
                "where": one.where,
                "trace_id": one.trace_id,
                "span": None,
                "why": "trace was not read",
                "labels": one.labels,
            }
        )


def unjoined_lines(report: ReadReport) -> list[str]:
    """The labels that joined no span as people read them: the first ones, and how many there are."""
    rows = report.unjoined
    if not rows:
        return []
    count = sum(row["labels"] for row in rows)
    more = f", the first {_SHOWN} places (all: --json)" if len(rows) > _SHOWN else ""
    lines = [f"labels that join no span: {count:,}{more}:"]
    for row in rows[:_SHOWN]:
        span = f", span {row['span']!r}" if row["span"] is not None else ""
        times = f" ({row['labels']} labels)" if row["labels"] > 1 else ""
        lines.append(f"  {row['where']}: trace {row['trace_id']!r}{span}: {row['why']}{times}")
    return lines
