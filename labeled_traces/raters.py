"""Several raters of one trace: who read the whole run, and the named rules that make one voice of them.

- `majority`: what more than half of those who read the whole run marked at the same span in the same dimension; the
  impact and each score are the median, of two middle ones the worse. Where as many marked an error as did not, the
  trace becomes `partial`: a finding there is neither right nor wrong, and nobody's score says that there is no error.
- `union`: what anyone marked; the worst impact and score.
- `newest`: what the rater said who read the run last; of each dimension the newest score.
- `rater:NAME`: what this rater said. A trace that they did not read counts as one that nobody looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median_high, median_low
from typing import TypeAlias

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import NOT_PLACED, SCORES, ErrorLabel, Impact, ScoreLabel, not_placed
from labeled_traces.names import did_you_mean
from labeled_traces.trace import TraceError

LOOKED_AT = "looked_at"
"""In a row's metadata: rater -> when one who marked nothing read the run, in seconds since the epoch."""
RULES = ("majority", "union", "newest", "rater:NAME")
_OF = "rater:"
_Mark: TypeAlias = tuple[object, ...]


def marked(row: LabeledTrace) -> tuple[ErrorLabel, ...]:
    """The errors that somebody marked, not those that are known by a score alone."""
    return tuple(error for error in row.errors if error.category != NOT_PLACED)


def whole_run(row: LabeledTrace) -> tuple[str, ...]:
    """The raters who read the whole run, in order: who says so, and who marked an error."""
    return tuple(sorted({*row.raters, *(error.rater for error in marked(row))}))


def all_raters(rows: Iterable[LabeledTrace]) -> tuple[str, ...]:
    """Everybody who said anything, in order."""
    return tuple(sorted({name for row in rows for name in (*whole_run(row), *(score.rater for score in row.scores))}))


def check_rule(rule: str) -> str:
    """Returns the rule. Raises: TraceError, none of RULES."""
    if rule not in RULES[:3] and not (rule.startswith(_OF) and len(rule) > len(_OF)):
        raise TraceError(f"rule {rule!r} is unknown{did_you_mean(rule, RULES)}: accepted are {', '.join(RULES)}")
    return rule


def load(path: Path, rule: str | None) -> Dataset:
    """A file's rows, as the rule reduces them if there is one. Raises: as `Dataset.load`, `reduce_all`."""
    dataset = Dataset.load(path)
    return dataset if rule is None else Dataset(reduce_all(dataset, rule))


def reduce_all(rows: Iterable[LabeledTrace], rule: str) -> list[LabeledTrace]:
    """The rows with one voice each; rows that nobody rated stay as they are.

    Raises:
        TraceError: an unknown rule or rater, or no times to tell the newest by.
    """
    check_rule(rule)
    given = list(rows)
    name = rule.removeprefix(_OF)
    names = all_raters(given)
    if rule.startswith(_OF) and name not in names:
        raise TraceError(f"no label is by {name!r}{did_you_mean(name, names)}: {_raters_are(names)}")
    return [_reduced(row, rule) if all_raters([row]) else row for row in given]


def _raters_are(names: Sequence[str]) -> str:
    named = [name for name in names if name]
    return f"the raters are {', '.join(named)}" if named else "the data names no rater"


def _reduced(row: LabeledTrace, rule: str) -> LabeledTrace:
    readers = whole_run(row)
    tied = _tied(row, len(readers)) if rule == "majority" else set()
    if rule in ("majority", "union"):
        least = len(readers) // 2 + 1 if rule == "majority" else 1
        errors = _common(marked(row), least, rule)
        scores = [one for one in _scores(row, rule) if one.dimension not in tied or one.score < max(SCORES)]
        kept = (rule,) if readers else ()
    else:
        voice = _newest(row, readers) if rule == "newest" else rule.removeprefix(_OF)
        errors = [error for error in marked(row) if error.rater == voice]
        newest = _newest_scores(row) if rule == "newest" else row.scores
        scores = [score for score in newest if rule == "newest" or score.rater == voice]
        kept = (voice,) if voice in readers else ()
    reasons = {error.dimensions: error.description for error in row.errors if error.category == NOT_PLACED}
    known = kept or row.clean != "checked"
    clean = row.clean if known else "unknown"
    return replace(
        row,
        errors=(*errors, *not_placed(errors, [(score, reasons.get((score.dimension,), "")) for score in scores])),
        scores=tuple(scores),
        raters=kept,
        clean="partial" if tied else clean,
    )


def _tied(row: LabeledTrace, readers: int) -> set[str]:
    """Of what as many of its readers marked an error as did not: dimensions, and categories outside GPA."""
    parts, marks = _marks(marked(row))
    return {part for own in parts for part, key in own.items() if 2 * len(marks[key]) == readers}


def _common(errors: Sequence[ErrorLabel], least: int, voice: str) -> list[ErrorLabel]:
    """What at least so many raters marked."""
    parts, marks = _marks(errors)
    middle = max if voice == "union" else median_high
    done: set[_Mark] = set()
    result = []
    for error, own in zip(errors, parts, strict=True):
        kept = [part for part, key in own.items() if len(marks[key]) >= least and key not in done]
        if not kept:
            continue
        done.update(own[part] for part in kept)
        impact = middle(int(other.impact) for part in kept for other in marks[own[part]])
        dimensions = tuple(kept) if error.dimensions else ()
        result.append(replace(error, dimensions=dimensions, impact=Impact(impact), rater=voice))
    return result


def _marks(errors: Sequence[ErrorLabel]) -> tuple[list[dict[str, _Mark]], dict[_Mark, list[ErrorLabel]]]:
    """For each label its marks by dimension (outside GPA by category), and who made each: a rater's k-th label at one
    span and dimension meets the others' k-th."""
    seen: Counter[tuple[object, ...]] = Counter()
    marks: dict[_Mark, list[ErrorLabel]] = {}
    parts: list[dict[str, _Mark]] = []
    for error in errors:
        parts.append({})
        for part in error.dimensions or (error.category.strip().casefold(),):
            place = (error.span_id, bool(error.dimensions), part)
            seen[error.rater, place] += 1
            parts[-1][part] = (place, seen[error.rater, place])
            marks.setdefault(parts[-1][part], []).append(error)
    return parts, marks


def _scores(row: LabeledTrace, voice: str) -> list[ScoreLabel]:
    given: dict[str, list[ScoreLabel]] = {}
    for score in row.scores:
        given.setdefault(score.dimension, []).append(score)
    middle = min if voice == "union" else median_low
    return [ScoreLabel(name, middle(one.score for one in found), voice) for name, found in given.items()]


def _newest(row: LabeledTrace, readers: Sequence[str]) -> str:
    """The rater who read the run last; empty where nobody read the whole run."""
    if len(readers) < 2:
        return next(iter(readers), "")
    looked = row.metadata.get(LOOKED_AT) or {}
    times: dict[str, list[float]] = {name: [looked[name]] if name in looked else [] for name in readers}
    for error in marked(row):
        if error.time is not None:
            times[error.rater].append(error.time)
    last = {name: max(found) for name, found in times.items() if found}
    missing = next((name for name in readers if name not in last), None)
    newest = [name for name in last if last[name] == max(last.values())]
    if missing is not None or len(newest) != 1:
        why = (
            f"the time of {missing!r} is unknown" if missing is not None else f"{' and '.join(newest)} are of one time"
        )
        raise TraceError(
            f"trace {row.trace_id!r}: who read it last? {why}: accepted are majority, union and rater:NAME"
        )
    return newest[0]


def _newest_scores(row: LabeledTrace) -> list[ScoreLabel]:
    found: dict[str, ScoreLabel] = {}
    for score in row.scores:
        old = found.setdefault(score.dimension, score)
        if old.score != score.score and (old.time is None or score.time is None or old.time == score.time):
            raise TraceError(
                f"trace {row.trace_id!r}: which score of {score.dimension} is the newest? accepted are scores with "
                "different times, or the rules majority, union and rater:NAME"
            )
        found[score.dimension] = max(old, score, key=lambda one: one.time or 0.0)
    return list(found.values())
