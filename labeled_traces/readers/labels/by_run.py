"""Files with one set of labels for each run, which they name as `trajectory_id`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from labeled_traces.readers.labels.joining import Unknown
from labeled_traces.readers.report import ReadOptions
from labeled_traces.trace import JSON, TraceError


@dataclass
class RunLabels:
    """The labels by trajectory id, each with its place. One set that stands in several files counts once."""

    options: ReadOptions
    by_run: dict[str, tuple[str, Mapping[str, JSON]]] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(
        cls, records: Iterable[tuple[str, JSON]], options: ReadOptions, is_labels: Callable[[JSON], bool], accepted: str
    ) -> RunLabels:
        """Records that are no labels are left out. `accepted`: what they look like, for the error.

        Raises:
            TraceError: a run with two different sets of labels.
        """
        labels = cls(options)
        for where, record in records:
            if not is_labels(record):
                options.report.leave_out(TraceError(f"{where}: no {accepted}"))
                continue
            key = str(record["trajectory_id"]).strip()
            first, known = labels.by_run.setdefault(key, (where, record))
            if known != record:
                raise TraceError(f"trajectory {key!r} has labels at {first} and other ones at {where}")
        return labels

    def use(self, key: str, trace_id: str, where: str) -> None:
        """Notes that a run took its labels.

        Raises:
            TraceError: another run took them before.
        """
        first = self.used.setdefault(key, trace_id)
        if first != trace_id:
            raise TraceError(
                f"{where}: labels of {key!r} fit {first!r} and {trace_id!r}: name the run in trajectory_id"
            )

    def unused(self, name: str) -> Iterator[Unknown]:
        """The labels that no run took. `name`: of the list of labels in a record."""
        for key, (where, record) in self.by_run.items():
            if key not in self.used:
                given = record.get(name)
                yield Unknown(where, key, len(given) if isinstance(given, list) and given else 1)
