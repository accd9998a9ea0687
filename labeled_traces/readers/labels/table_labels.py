"""What one person said of one trace, and the trace with all that was said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import NOT_PLACED, ErrorLabel, Impact, ScoreLabel, not_placed
from labeled_traces.raters import LOOKED_AT
from labeled_traces.readers.labels.joining import KnownIds, no_span, unread
from labeled_traces.readers.report import ReadOptions
from labeled_traces.trace import Trace, TraceError


@dataclass(frozen=True)
class TableLabel:
    """`span` is an id in any form, `step` counts from 0; empty and None where no place was named. `nothing`: the rater
    read the whole run and found no error. `is_error`: an error was marked. `score`: of the one dimension."""

    where: str
    trace_id: str
    span: str = ""
    step: int | None = None
    dimensions: tuple[str, ...] = ()
    category: str = ""
    impact: Impact = Impact.MEDIUM
    description: str = ""
    evidence: str = ""
    rater: str = ""
    time: float | None = None
    score: int | None = None
    is_error: bool = False
    nothing: bool = False


def labelled(
    row: LabeledTrace, said: Sequence[TableLabel], lost: bool, options: ReadOptions, bad: list[str]
) -> LabeledTrace:
    """The row with these labels beside its own. `lost`: something that was said of it could not be read; `bad` gets
    what is wrong with what cannot be read here."""
    errors = list(row.errors)
    scores = {(score.dimension, score.rater): score for score in row.scores}
    reasons: dict[tuple[str, str], str] = {}
    known = KnownIds(span.span_id for span in row.trace.spans)
    seen: set[tuple[ErrorLabel, str, int | None]] = set()
    for one in said:
        try:
            if one.is_error:
                error = _error(one, row.trace, known, options)
                same = (error, *(("", None) if error.span_id else (one.span, one.step)))
                if same in seen or error in row.errors:
                    options.report.add("label twice, kept once", one.where)
                else:
                    seen.add(same)
                    errors.append(error)
            if one.score is not None:
                _add_score(one, scores, options)
                reasons[one.dimensions[0], one.rater] = one.description
        except TraceError as damage:
            unread(options, damage, one.where, row.trace_id)
            bad.append(str(damage))
            lost = True
    given = [(score, reasons.get(key, "")) for key, score in scores.items()]
    placed = {name for error in errors if error.category != NOT_PLACED for name in error.dimensions}
    errors = [error for error in errors if error.category != NOT_PLACED or placed.isdisjoint(error.dimensions)]
    looked = [one for one in said if one.is_error or one.nothing]
    found = {one.rater for one in said if one.is_error}
    for one in (one for one in said if one.nothing and one.rater in found):
        options.report.add("`none` of a rater who marks an error in the same trace, the error counts", one.where)
    times = {one.rater: one.time for one in looked if one.nothing and one.time is not None}
    return replace(
        row,
        errors=(*errors, *not_placed(errors, given)),
        scores=tuple(scores.values()),
        clean="unknown" if lost else "checked" if looked else row.clean,
        raters=tuple(dict.fromkeys([*row.raters, *(one.rater for one in looked if one.rater)])),
        metadata={**row.metadata, LOOKED_AT: {**row.metadata.get(LOOKED_AT, {}), **times}} if times else row.metadata,
    )


def _error(said: TableLabel, trace: Trace, known: KnownIds, options: ReadOptions) -> ErrorLabel:
    return ErrorLabel(
        span_id=_span(said, trace, known, options),
        dimensions=said.dimensions,
        category=said.category,
        impact=said.impact,
        description=said.description,
        evidence=said.evidence,
        rater=said.rater,
        time=said.time,
    )


def _span(said: TableLabel, trace: Trace, known: KnownIds, options: ReadOptions) -> str | None:
    try:
        by_id = known.find(said.span) if said.span else None
    except TraceError as error:
        raise TraceError(f"{said.where}: span {error}") from None
    by_step = None if said.step is None else _step(said.step, trace, said.where, options)
    if by_id is not None and by_step is not None and by_id != by_step:
        raise TraceError(
            f"{said.where}: the span {by_id!r} is not the step, which is {by_step!r}: accepted is one of the two"
        )
    found = by_id or by_step
    if found is None and (said.span or said.step is not None):
        no_span(options, said.where, trace.trace_id, said.span or f"step {said.step} (from 0)")
    return found


def _step(number: int, trace: Trace, where: str, options: ReadOptions) -> str | None:
    if (name := f"step-{number}") in trace.by_id:
        return name
    if "step-0" in trace.by_id or not 0 <= number < len(trace.spans):
        return None
    options.report.add("step counted over the spans of its trace, which has no numbered steps", where)
    return trace.spans[number].span_id


def _add_score(said: TableLabel, scores: dict[tuple[str, str], ScoreLabel], options: ReadOptions) -> None:
    new = ScoreLabel(said.dimensions[0], said.score or 0, said.rater, said.time)
    old = scores.setdefault((new.dimension, new.rater), new)
    if old.score == new.score:
        return
    if old.time is None or new.time is None or old.time == new.time:
        raise TraceError(
            f"{said.where}: {said.rater or 'a rater'} scored {new.dimension} {old.score} before and {new.score} here: "
            "accepted is one score, or times that say which is newer"
        )
    options.report.add("score given again, the newest kept", said.where)
    scores[new.dimension, new.rater] = max(old, new, key=lambda score: score.time or 0.0)
