"""What people said in an observability product, joined with the traces that it is about.

Names and values are read as those of MLflow's feedback: `gpa_<dimension>` (0-3) and `gpa_error` (the value is the
category, the comment the description). Besides, a value that is a category of the taxonomy is an error of that
category, and so is a yes under the name of one; a no under such a name says that the person looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.labels.joining import Unknown, refuse_unknown
from labeled_traces.readers.labels.mlflow import ERROR, NO_ERROR, PREFIX
from labeled_traces.readers.report import ReadOptions
from labeled_traces.trace import JSON, TraceError

NO_CATEGORY = "person's feedback that is no category of the taxonomy, left out"
_YES, _NO = ("true", "yes", "1"), ("false", "no", "0")


@dataclass(frozen=True)
class Said:
    """One thing that a person said. `choice`: whether 1 and 0 as its value mean yes and no."""

    id: str
    name: str
    value: JSON
    rater: str
    span_id: str | None
    comment: JSON = None
    time: JSON = None
    metadata: JSON = None
    choice: bool = True


class Feedback:
    """Records of feedback by the id of what they are about, each with its place; those of label files from the start.

    `is_feedback`: whether a record is one. `about`: the id of what it is about. `accepted`: how a record looks.
    """

    def __init__(
        self, options: ReadOptions, is_feedback: Callable[[JSON], bool], about: Callable[[JSON], str], accepted: str
    ) -> None:
        """Raises: TraceError for label files without feedback."""
        self._options, self._about = options, about
        self._known: dict[str, dict[str, tuple[str, JSON]]] = {}
        self._used: set[str] = set()
        for where, record in read_files(options.labels, options.report):
            if is_feedback(record):
                self.add(record, where)
            else:
                options.report.leave_out(TraceError(f"{where}: no labels of this format: accepted is {accepted}"))
        options.need_labels(bool(self._known))

    def add(self, record: JSON, where: str) -> None:
        """Keeps a record; one that is there already, by its id, is the same."""
        known = self._known.setdefault(self._about(record), {})
        first, same = known.setdefault(str(record.get("id") or where), (where, record))
        other = {**same, "traceId": None} != {**record, "traceId": None}
        self._options.report.add("label with the id of another, left out", f"{where}, as at {first}", other)

    def take(self, ids: Iterable[str]) -> list[tuple[str, JSON]]:
        """(place, record) pairs about these ids."""
        wanted = list(dict.fromkeys(ids))
        self._used.update(wanted)
        return [pair for key in wanted for pair in self._known.get(key, {}).values()]

    def refuse_unknown(self) -> None:
        """To be called when all traces are read. Raises: TraceError if nobody took some of it, see `joining`."""
        unused = ((key, [*found.values()]) for key, found in self._known.items() if key not in self._used)
        refuse_unknown(self._options, (Unknown(found[0][0], key, len(found)) for key, found in unused))


def as_assessments(said: Iterable[tuple[str, Said]], options: ReadOptions) -> list[JSON]:
    """(place, what was said) pairs as assessments of MLflow; what says nothing that is read is counted."""
    found = []
    for place, one in said:
        name, value = one.name, one.value
        if not name.startswith(PREFIX):
            value = _category(one, options)
            if value is None:
                options.report.add(NO_CATEGORY, f"{place}: {name!r}")
                continue
            name = f"{PREFIX}{ERROR}"
        found.append(
            {
                "assessment_id": one.id,
                "assessment_name": name,
                "feedback": {"value": value},
                "source": {"source_type": "HUMAN", "source_id": one.rater},
                "span_id": one.span_id,
                "rationale": one.comment,
                "create_time": one.time,
                "metadata": one.metadata,
            }
        )
    return found


def _category(one: Said, options: ReadOptions) -> str | None:
    """The category that is named, `none` for a no under the name of one, None if none is named."""
    if isinstance(one.value, str) and options.taxonomy.find(one.value) is not None:
        return one.value
    if not one.choice or options.taxonomy.find(one.name) is None:
        return None
    number = isinstance(one.value, float) and one.value.is_integer()
    answer = str(int(one.value) if number or isinstance(one.value, bool) else one.value).strip().lower()
    return one.name if answer in _YES else NO_ERROR if answer in _NO else None
