"""Which column of a table of labels holds what: as the user says, else by its name, and what was guessed is told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from labeled_traces.names import did_you_mean, unknown
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import TraceError

NOT_READ = "column of labels that is not read"
FIELDS: dict[str, tuple[str, ...]] = {
    "trace_id": ("trace", "run_id", "run", "trajectory_id", "trajectory"),
    "span_id": ("span", "location", "error_span", "span_ids"),
    "step": ("step_number", "step_index", "step_id", "mistake_step", "turn", "message_index"),
    "dimensions": ("dimension", "gpa_dimension", "gpa_dimensions"),
    "category": ("error_category", "failure_category", "error_type", "failure_type", "label"),
    "impact": ("severity", "error_impact"),
    "description": ("rationale", "explanation", "comment", "comments", "reason", "notes", "note", "details"),
    "evidence": ("quote", "quoted", "snippet"),
    "rater": ("annotator", "labeler", "labeller", "reviewer", "author", "annotated_by", "source_id", "who"),
    "time": ("timestamp", "created_at", "updated_at", "labeled_at", "annotated_at", "date", "create_time", "when"),
    "score": ("rating", "grade"),
}
"""What a row may hold, and other names by which its column is recognised."""
SAYS = ("category", "dimensions", "score")
"""At least one of them is needed."""


@dataclass(frozen=True)
class TableForm:
    """How tables of labels are read. `columns`: field -> column, an empty name says that there is none. `steps_from`:
    the number of the first step, 0 or 1, where a column counts steps.

    Raises:
        TraceError: a field that is none of FIELDS, or another first step.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    steps_from: int | None = None

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in FIELDS:
                raise TraceError(f"--columns: {unknown(name, FIELDS)}")
        if self.steps_from not in (None, 0, 1):
            raise TraceError(f"--steps-from {self.steps_from}: accepted are 0 and 1")

    @classmethod
    def parse(cls, columns: Sequence[str], steps_from: int | None = None) -> TableForm:
        """Reads `trace_id=run,span_id=location`, or several such texts. Raises: TraceError."""
        found: dict[str, str] = {}
        # A comma parts two pairs only before the next one: names of columns may have commas.
        for pair in (part for text in columns for part in re.split(r",(?=[^,=]*=|\s*$)", text) if part.strip()):
            name, equals, column = (part.strip() for part in pair.partition("="))
            if not equals:
                raise TraceError(f"--columns {pair.strip()!r}: accepted is FIELD=COLUMN, as in trace_id=run,step=turn")
            if name in found:
                raise TraceError(f"--columns: {name} is there twice: accepted is one column for each field")
            found[name] = column
        return cls(found, steps_from)


def recognised(columns: Iterable[str]) -> bool:
    """Whether these names are those of a table of labels."""
    names = {_plain(column) for column in columns}

    def has(field: str) -> bool:
        return not names.isdisjoint(_plain(name) for name in (field, *FIELDS[field]))

    return has("trace_id") and any(has(field) for field in SAYS)


def assign(path: Path, columns: Sequence[str], form: TableForm, report: ReadReport) -> dict[str, str]:
    """Field -> column of one table. What was guessed by names, and what is not read, goes to `report.notes`.

    Raises:
        TraceError: a column that is not there, several that could be meant, or none for what is needed.
    """
    known = {_plain(column): column for column in (*reversed(columns), *(one for one in columns if one in FIELDS))}
    taken = {known.get(_plain(given), given) if given not in columns else given for given in form.columns.values()}
    result: dict[str, str] = {}
    guessed: list[str] = []
    for name, others in FIELDS.items():
        if name in form.columns:
            given = form.columns[name]
            if given and given not in columns and _plain(given) not in known:
                there = f"the columns are {', '.join(columns)}"
                raise TraceError(f"{path}: no column {given!r} for {name}{did_you_mean(given, columns)}: {there}")
            if given:
                result[name] = given if given in columns else known[_plain(given)]
        elif _plain(name) in known and known[_plain(name)] not in taken:
            result[name] = known[_plain(name)]
        else:
            found = [known[_plain(other)] for other in others if _plain(other) in known]
            found = [column for column in dict.fromkeys(found) if column not in taken]
            if len(found) > 1:
                raise TraceError(
                    f"{path}: {' and '.join(map(repr, found))} may both be {name}: accepted is --columns {name}="
                    f"{found[0]}, or --columns {name}= where it is none of them"
                )
            if found:
                result[name] = found[0]
                guessed.append(f"{name}={found[0]}")
    _check_once(path, result)
    _check_complete(path, columns, result)
    unread = [
        f"{column}{did_you_mean(column, sorted(FIELDS.keys() - result.keys()), 0.8)}"
        for column in columns
        if column and column not in result.values()
    ]
    if guessed:
        report.notes.append(f"{path}: columns recognised by their names: {', '.join(guessed)} (else: --columns)")
    if unread:
        report.add(NOT_READ, f"{path}: {', '.join(unread)}", len(unread))
    return result


def _check_once(path: Path, found: Mapping[str, str]) -> None:
    fields = {column: [name for name, other in found.items() if other == column] for column in found.values()}
    for column, names in fields.items():
        if len(names) > 1:
            raise TraceError(f"{path}: column {column!r} is {' and '.join(names)}: accepted is one field for a column")


def _check_complete(path: Path, columns: Sequence[str], found: Mapping[str, str]) -> None:
    there = f"the columns are {', '.join(columns)}"
    if "trace_id" not in found:
        close = did_you_mean("trace_id", columns)
        raise TraceError(f"{path}: no column for trace_id{close}: {there}: accepted is --columns trace_id=COLUMN")
    if not set(SAYS) & set(found):
        raise TraceError(
            f"{path}: no column for any of {', '.join(SAYS)}: {there}: accepted is --columns category=COLUMN"
        )


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())
