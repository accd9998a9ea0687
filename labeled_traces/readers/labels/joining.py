"""Where labels meet traces. One that joins no span is listed, one of a trace that was not read is refused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from labeled_traces.names import did_you_mean
from labeled_traces.readers.mending.repair import canonical_id
from labeled_traces.readers.report import LABEL, ReadOptions, ReadReport
from labeled_traces.trace import TraceError

NO_SPAN = "label that names no span of its trace, kept without one"
UNKNOWN_TRACE = "label of a trace that was not read, left out"
_SHOWN = 10
_COMPARED = 2_000
"""Ids among which one is looked for that may be meant."""


class LabelsError(TraceError):
    """Labels that are not read or join no trace: it is about all traces, not about one of their files."""


@dataclass(frozen=True)
class Unknown:
    """`labels` of a trace that was not read, as the source names it, and the place of the first."""

    where: str
    trace_id: str
    labels: int = 1


def no_span(options: ReadOptions, where: str, trace_id: str, given: object) -> None:
    """Notes a label at something that is no span of its trace; it is kept as one of the trace."""
    options.report.add(NO_SPAN, f"{where}: {given!r}")
    _list(options.report, where, trace_id, "no such span", span=str(given))


def unread(options: ReadOptions, error: TraceError, where: str, trace_id: str) -> None:
    """Notes a label that cannot be read. Raises: the error, if the read is strict."""
    options.report.leave_out(error, LABEL)
    _list(options.report, where, trace_id, str(error).removeprefix(where).lstrip(":, "))


def refuse_unread(options: ReadOptions, bad: Sequence[str]) -> None:
    """To be called when all is read, with what is wrong with the rows of tables that cannot be read.

    Raises:
        TraceError: there are such rows, and `options.allow_missing` does not say that they are to be counted only.
    """
    if not bad or options.allow_missing:
        return
    shown = "".join(f"\n  {one}" for one in bad[:_SHOWN])
    more = f", the first {_SHOWN}" if len(bad) > _SHOWN else ""
    said = "1 label cannot" if len(bad) == 1 else f"{len(bad):,} labels cannot"
    accepted = "accepted are labels that can be read, or --allow-missing, which leaves the others out and counts them"
    raise LabelsError(f"{said} be read: {accepted}{more}:{shown}")


def refuse_unknown(options: ReadOptions, unknown: Iterable[Unknown], read: Sequence[str] = ()) -> None:
    """To be called when all traces are read, with the labels that none of them took. `read`: the ids of the traces.

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
        meant = did_you_mean(first.trace_id, read[:_COMPARED]) or (f"; a trace is {read[0]!r}" if read else "")
        if re.fullmatch(r"[0-9.,]+[eE]\+[0-9]+", first.trace_id):
            meant = "; a spreadsheet has cut digits off: write ids as text"
        raise LabelsError(
            f"{first.where}: labels of {first.trace_id!r}, which is no trace that was read ({said}{of}){meant}: "
            "accepted are labels of the traces that are read, or --allow-missing, which leaves the others out and "
            "counts them"
        )
    for one in found:
        options.report.add(UNKNOWN_TRACE, f"{one.where}, trace {one.trace_id}", one.labels)
        _list(options.report, one.where, one.trace_id, "trace was not read", labels=one.labels)


def _list(report: ReadReport, where: str, trace_id: str, why: str, span: str | None = None, labels: int = 1) -> None:
    report.unjoined.append({"where": where, "trace_id": trace_id, "span": span, "why": why, "labels": labels})


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


_UUID = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def id_forms(given: str) -> frozenset[str]:
    """The numbers that an id may be, without leading zeros: as 9 to 32 hex digits (some writers drop leading zeros) or
    with `0x`, as a UUID, after MLflow's `tr-`, as base64 of 8 or 16 bytes, as a decimal number (below 0: of 64 bits
    with a sign; with `.0`: out of a column of floats). Empty for ids of another kind, which are equal or not.
    """
    text = given.strip().removeprefix("tr-")
    text = text.replace("-", "") if _UUID.fullmatch(text) else text
    forms = set()
    digits = text.lower().removeprefix("0x")
    if re.fullmatch("[0-9a-f]{9,32}", digits) or re.fullmatch("0[xX][0-9a-fA-F]{1,32}", text):
        forms.add(canonical_id(text, "hex"))
    if number := re.fullmatch(r"(-?[0-9]{1,39})(?:\.0+)?", text):  # 128 bits have 39 digits
        value = int(number[1])
        forms.add(canonical_id(str(value if value >= 0 else value + 2**64), "int"))
    if (plain := canonical_id(text, "base64")) != text and len(plain) in (16, 32):
        forms.add(plain)
    return frozenset(form.lstrip("0") for form in forms) - {""}


class KnownIds:
    """Ids of one trace's spans, or of traces, which other spellings of them are to find."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = {known.strip(): known for known in ids}

    @cached_property
    def _by_form(self) -> dict[str, set[str]]:
        forms: dict[str, set[str]] = {}
        for known in self._ids.values():
            for form in id_forms(known):
                forms.setdefault(form, set()).add(known)
        return forms

    def find(self, given: str) -> str | None:
        """The id that is written so, else the one that is the same number in another form; None where there is none.

        Raises:
            TraceError: several ids are that number.
        """
        exact = self._ids.get(given.strip())
        if exact is not None:
            return exact
        found = sorted(set().union(*(self._by_form.get(form, set()) for form in id_forms(given))))
        if len(found) > 1:
            raise TraceError(
                f"{given!r} may be {found[0]!r} and {found[1]!r}: accepted is an id as the trace writes it"
            )
        return found[0] if found else None
