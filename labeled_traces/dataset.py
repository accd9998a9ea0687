"""Labelled traces by id; JSON Lines in and out, one labelled trace a line, streamed."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from labeled_traces.files import parse_json, read_lines, write_lines
from labeled_traces.json_record import error_from, filled, get, score_from, span_from
from labeled_traces.label import DIMENSIONS, NOT_PLACED, SCORES, ErrorLabel, ScoreLabel
from labeled_traces.quick_json import dumps
from labeled_traces.same_trace import TwiceError, timed_as
from labeled_traces.trace import JSON, Trace, TraceError, text_hash

_Placed: TypeAlias = "Iterable[tuple[str, LabeledTrace]]"
_Refuse: TypeAlias = Callable[[TraceError], None]
CLEAN = ("checked", "presumed", "partial", "unknown")


@dataclass(frozen=True)
class LabeledTrace:
    """A trace with what people said of it.

    `group` holds the traces of one task together in a split. `clean`: what no errors mean, `checked` (people looked),
    `presumed` (it reached its goal, nobody looked), `partial` (people named some errors, as the decisive one: there may
    be others) or `unknown` (nobody looked; it may have failed). `reference` is the answer, never shown to a judge
    unless the user allows it. All raters' labels are kept. `raters`: who read the whole run, so that errors that they
    did not mark are errors that they did not see.

    Raises:
        TraceError: another value of `clean`, or an error label at a span that the trace does not have.
    """

    trace: Trace
    errors: tuple[ErrorLabel, ...] = ()
    scores: tuple[ScoreLabel, ...] = ()
    group: str = ""
    clean: str = "checked"
    reference: str | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)
    raters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.clean not in CLEAN:
            raise TraceError(f"trace {self.trace_id!r}: clean is {self.clean!r}: accepted are {', '.join(CLEAN)}")
        for error in self.errors:
            if error.span_id is not None and error.span_id not in self.trace.by_id:
                raise TraceError(f"trace {self.trace_id!r}: an error label names the unknown span {error.span_id!r}")

    @property
    def trace_id(self) -> str:
        return self.trace.trace_id

    @property
    def is_clean(self) -> bool:
        """Clean of all dimensions."""
        return self.is_clean_of(DIMENSIONS)

    def is_clean_of(self, dimensions: Collection[str]) -> bool:
        """Whether a finding of these dimensions is a false alarm here.

        No label of theirs, none outside GPA (a finding may well be that error), no score below the best (an error that
        nobody has described), and a reason to believe it: people looked (who marks an error has read the run; who gives
        a score has judged one dimension), or the run reached its goal.
        """
        names = set(dimensions)
        if any(not error.dimensions or names & set(error.dimensions) for error in self.errors):
            return False
        scores = [label for label in self.scores if label.dimension in names]
        if any(label.score < max(SCORES) for label in scores):
            return False
        looked = self.clean in ("checked", "presumed")
        if self.clean == "unknown":
            looked = any(error.category != NOT_PLACED for error in self.errors)
        return looked or names == {label.dimension for label in scores}

    @cached_property
    def distinct_errors(self) -> tuple[ErrorLabel, ...]:
        """The error labels, those of several raters at one span, of one category and the same dimensions as one, with
        its highest impact. What one rater labels twice is two errors."""
        found: dict[tuple[object, ...], ErrorLabel] = {}
        seen: Counter[tuple[object, ...]] = Counter()
        for error in self.errors:
            kind = (error.span_id, error.category.strip().casefold(), frozenset(error.dimensions))
            seen[error.rater, kind] += 1
            key = (kind, seen[error.rater, kind])
            if key not in found or error.impact > found[key].impact:
                found[key] = error
        return tuple(found.values())

    def errors_of(self, dimension: str) -> tuple[ErrorLabel, ...]:
        """The distinct errors of a dimension."""
        return tuple(error for error in self.distinct_errors if dimension in error.dimensions)

    def can_judge(self, dimension: str) -> bool:
        """Whether it is known which errors of a dimension there are, so that a finding is right or wrong."""
        return self.clean != "partial" and (bool(self.errors_of(dimension)) or self.is_clean_of((dimension,)))

    @cached_property
    def hash(self) -> str:
        """sha256 (hex) of everything: trace, labels, group, reference and metadata."""
        return text_hash(json.dumps(to_json(self), sort_keys=True))


class Dataset:
    """Labelled traces by trace id, in the order in which they came. Ids lose their outer white space.

    A row that comes twice is kept once and warned about.

    Raises:
        TraceError: one id with two different rows; the message names both places.
    """

    def __init__(self, rows: Iterable[LabeledTrace]) -> None:
        self._rows = _by_id(((f"row {number}", row) for number, row in enumerate(rows, 1)), _warn, _refuse)

    @classmethod
    def from_places(
        cls,
        rows: Iterable[tuple[str, LabeledTrace]],
        warn: Callable[[str], None],
        leave_out: Callable[[TraceError], None] | None = None,
    ) -> Dataset:
        """As the constructor, for (place, row) pairs: places are named in errors and in what `warn` receives.

        Where `leave_out` is given it gets the errors, and the row that came later is left out.
        """
        dataset = cls(())
        dataset._rows = _by_id(rows, warn, leave_out or _refuse)
        return dataset

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._rows)

    def __getitem__(self, trace_id: str) -> LabeledTrace:
        return self._rows[trace_id.strip()]

    def __contains__(self, trace_id: object) -> bool:
        return isinstance(trace_id, str) and trace_id.strip() in self._rows

    def __iter__(self) -> Iterator[LabeledTrace]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def subset(self, ids: Iterable[str]) -> Dataset:
        """The rows of these ids, in the order of `ids`. Raises: TraceError, an id that is not there."""
        wanted = list(ids)
        missing = [trace_id for trace_id in wanted if trace_id not in self]
        if missing:
            raise TraceError(f"{len(missing)} traces are not in this dataset, the first is {missing[0]!r}")
        return Dataset(self[trace_id] for trace_id in wanted)

    @property
    def hash(self) -> str:
        """sha256 (hex) over every id and row, whatever their order."""
        return text_hash(json.dumps(sorted([trace_id, row.hash] for trace_id, row in self._rows.items())))

    def save(self, path: Path) -> None:
        """Writes one row a line; the file appears as a whole or not at all.

        Raises:
            TraceError: a value that JSON does not have (NaN, a set ...).
        """
        write_lines(Path(path), (line(row).decode() for row in self))

    @classmethod
    def load(cls, path: Path) -> Dataset:
        """Reads what `save` wrote. Raises: TraceError, not such a file, or a file without rows."""
        dataset = cls.from_places(_placed_rows(Path(path)), _warn)
        if not dataset:
            raise TraceError(f"{path}: holds no labelled trace")
        return dataset


def read_rows(path: Path) -> Iterator[LabeledTrace]:
    """The rows of a file that `Dataset.save` wrote, one in memory at a time; ids may come twice.

    Raises:
        TraceError: a line that is not a labelled trace.
    """
    return (row for _, row in _placed_rows(Path(path)))


def to_json(row: LabeledTrace) -> dict[str, JSON]:
    """One JSON object; fields that hold their default are left out of spans and labels."""
    return {
        "trace": {
            "trace_id": row.trace_id,
            "spans": [filled(span, kind=str(span.kind)) for span in row.trace.spans],
            "metadata": dict(row.trace.metadata),
        },
        "errors": [filled(error, dimensions=list(error.dimensions), impact=str(error.impact)) for error in row.errors],
        "scores": [filled(score) for score in row.scores],
        "group": row.group,
        "clean": row.clean,
        "reference": row.reference,
        "metadata": dict(row.metadata),
        **({"raters": list(row.raters)} if row.raters else {}),
    }


def from_json(record: JSON, where: str) -> LabeledTrace:
    """The inverse of `to_json`. Raises: TraceError, names `where` and the field that is missing or of a wrong type."""
    trace = get(record, "trace", dict, where)
    spans = get(trace, "spans", list, f"{where}, trace")
    errors = get(record, "errors", list, where, [])
    scores = get(record, "scores", list, where, [])
    raters = get(record, "raters", list, where, [])
    if not all(isinstance(rater, str) for rater in raters):
        raise TraceError(f"{where}, raters: accepted is a list of names")
    reference = record.get("reference")
    if not isinstance(reference, str | None):
        raise TraceError(f"{where}, reference: is {type(reference).__name__}: accepted are text and null")
    try:
        return LabeledTrace(
            trace=Trace(
                trace_id=get(trace, "trace_id", str, f"{where}, trace"),
                spans=tuple(span_from(span, f"{where}, spans[{i}]") for i, span in enumerate(spans)),
                metadata=get(trace, "metadata", dict, f"{where}, trace", {}),
            ),
            errors=tuple(error_from(error, f"{where}, errors[{i}]") for i, error in enumerate(errors)),
            scores=tuple(score_from(score, f"{where}, scores[{i}]") for i, score in enumerate(scores)),
            group=get(record, "group", str, where, ""),
            clean=get(record, "clean", str, where, "checked"),
            reference=reference,
            metadata=get(record, "metadata", dict, where, {}),
            raters=tuple(raters),
        )
    except TraceError as error:
        raise error if str(error).startswith(where) else TraceError(f"{where}: {error}") from None


def _by_id(rows: _Placed, warn: Callable[[str], None], leave_out: _Refuse) -> dict[str, LabeledTrace]:
    found: dict[str, tuple[str, LabeledTrace]] = {}
    for place, row in with_plain_ids(rows, leave_out):
        if row.trace_id in found:
            twice(*found[row.trace_id], place, row, warn, leave_out)
        found.setdefault(row.trace_id, (place, row))
    return {trace_id: row for trace_id, (_, row) in found.items()}


def with_plain_ids(rows: _Placed, leave_out: _Refuse) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs whose ids have no outer white space; `leave_out` is told of one that has none left."""
    for place, row in rows:
        if trace_id := row.trace_id.strip():
            yield place, row if trace_id == row.trace_id else replace(row, trace=replace(row.trace, trace_id=trace_id))
        else:
            leave_out(TraceError(f"{place}: the trace_id is blank"))


def twice(
    first_place: str,
    first: LabeledTrace,
    place: str,
    row: LabeledTrace,
    say: Callable[[str], None],
    refuse: _Refuse,
) -> None:
    """Says that a second row has the id of the first."""
    same = f"trace {row.trace_id!r} is at {first_place} and"
    row = replace(row, trace=timed_as(first.trace, row.trace))
    if first.hash == row.hash:
        return say(f"{same}, unchanged, at {place}: kept once")
    what = "labels" if first.trace == row.trace else "content"
    left_out = len(row.errors) + len(row.scores)
    return refuse(TwiceError.of(f"{same}, with other {what}, at {place}", left_out))


def _refuse(error: TraceError) -> None:
    raise error


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)


def _placed_rows(path: Path) -> Iterator[tuple[str, LabeledTrace]]:
    for number, text in read_lines(path):
        where = f"{path}, line {number}"
        yield where, from_json(parse_json(text, where), where)


def line(row: LabeledTrace) -> bytes:
    """Without the end of the line. Raises: TraceError, as `Dataset.save` does."""
    try:
        return dumps(to_json(row))
    except (TypeError, ValueError) as error:
        raise TraceError(f"trace {row.trace_id!r}: cannot be written as JSON ({error})") from None
