"""What a reader repaired or left out, by kind and with a count; and what a reader is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from labeled_traces.json_values import decoded
from labeled_traces.names import did_you_mean
from labeled_traces.same_trace import TwiceError
from labeled_traces.taxonomy import Taxonomy
from labeled_traces.trace import JSON, TraceError

MOST_EXAMPLES = 3
RECORD, FILE, LABEL, SPAN = (f"{what} that cannot be read, left out" for what in ("record", "file", "label", "span"))
INCOMPLETE = "trace that lost a span"
OTHER_TWICE = "trace twice with other content or labels, left out"
NO_CONTENT = "trace without any input or output"


@dataclass
class ReadReport:
    """Warnings of one read.

    `counts`: kind -> how often; `examples`: kind -> where and what, the first times. `unmapped`: category that the
    taxonomy does not have -> how many labels. `stripped`: the name of what holds an answer, as `info.task.actions` ->
    how often it was kept from the judges. `unjoined`: the labels that joined no span, as `joining` lists them.
    `notes`: what was guessed about the tables of labels. `strict`: what cannot be read is an error, not a warning.
    `labelled`: the ids of traces that a table has labels of.
    `taken`: gets how many more bytes of the files have been read.
    """

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    unmapped: Counter[str] = field(default_factory=Counter)
    stripped: Counter[str] = field(default_factory=Counter)
    unjoined: list[JSON] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    labelled: set[str] = field(default_factory=set)
    strict: bool = False
    _unlabelled: list[tuple[str, str, str]] = field(default_factory=list)
    taken: Callable[[int], object] = field(default=bool, compare=False, repr=False)

    def add(self, kind: str, example: str, count: int = 1) -> None:
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count
            examples = self.examples.setdefault(kind, [])
            if len(examples) < MOST_EXAMPLES:
                examples.append(example)

    def strip(self, name: str, count: int = 1) -> None:
        """Notes that something which holds an answer was kept from the judges."""
        if count:
            self.stripped[name] += count

    def mapping(self, value: JSON, name: str, place: str) -> dict[str, JSON]:
        """A mapping, also one that is a JSON text; anything else that is there is counted and holds nothing."""
        value = decoded(value)
        if isinstance(value, dict):
            return value
        self.add(f"{name} that is no mapping, left out", place, value is not None)
        return {}

    def leave_out(self, error: TraceError, kind: str = RECORD) -> None:
        """Counts what cannot be read, or is there twice. Raises: the error, if the read is strict."""
        if self.strict:
            raise error
        self.add(OTHER_TWICE if isinstance(error, TwiceError) else kind, str(error))

    def without_labels(self, kind: str, trace_id: str, where: str) -> None:
        """Notes a trace that should have labels; it is told unless a table, which is joined later, has some."""
        self._unlabelled.append((kind, trace_id, where))

    def tell_unlabelled(self) -> None:
        """To be called when all labels are joined."""
        for kind, trace_id, where in self._unlabelled:
            if trace_id.strip() not in self.labelled:
                self.add(kind, where)
        self._unlabelled.clear()

    def nothing_read(self) -> TraceError | None:
        """Why nothing was read, if something was left out."""
        kind = next((kind for kind in (RECORD, FILE, SPAN) if kind in self.counts), None)
        if kind is None:
            return None
        first, count = self.examples[kind][0], self.counts[kind]
        return TraceError(first if count == 1 else f"nothing could be read, {count} x {kind}; first: {first}")

    def lines(self) -> list[str]:
        """As people read it: a line for each kind, and a line for each further example of what was left out."""
        lines = []
        for kind, count in self.counts.items():
            first, *others = self.examples[kind]
            lines.append(f"{count} x {kind}; first: {first}")
            lines += [f"    also: {other}" for other in others if kind in (RECORD, FILE, LABEL, SPAN, OTHER_TWICE)]
        return lines

    def to_json(self) -> list[JSON]:
        return [
            {"kind": kind, "count": count, "first": self.examples[kind][0], "examples": self.examples[kind]}
            for kind, count in self.counts.items()
        ]


@dataclass(frozen=True)
class ReadOptions:
    """What a reader is told beside the trace files.

    `labels`: the files with people's labels. `report` receives the warnings. `longest_text`: characters of one text
    beyond which its middle is left out. `allow_missing`: labels of traces that were not read are counted, no error.
    """

    taxonomy: Taxonomy
    report: ReadReport = field(default_factory=ReadReport)
    labels: tuple[Path, ...] = ()
    longest_text: int = 1_000_000
    allow_missing: bool = False

    def refuse_labels(self) -> None:
        """Of a format without labels of its own. Raises: TraceError: label files were given."""
        if self.labels:
            raise TraceError(f"{self.labels[0]}: this format has no labels of its own: accepted are its traces alone")

    def need_labels(self, found: bool) -> None:
        """To be called when the label files are read. Raises: TraceError: there are such, and nothing was `found`."""
        if self.labels and not found:
            raise self.report.nothing_read() or TraceError(f"{self.labels[0]}: holds no labels")

    def category(self, name: str, where: str) -> str:
        """A category as the taxonomy writes it; one that it does not have is counted and stays as it is."""
        found = self.taxonomy.find(name)
        if found is None:
            self.report.unmapped[name] += 1
            said = f"{name!r}{did_you_mean(name, self.taxonomy.dimensions)} in {self.taxonomy.name!r}"
            self.report.add("category that the taxonomy does not have, so of no dimension", f"{where}: {said}")
        return found or name
