"""What a reader repaired or left out, by kind and with a count; and what a reader is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from labeled_traces.taxonomy import Taxonomy
from labeled_traces.trace import JSON


@dataclass
class ReadReport:
    """Warnings of one read. `counts`: kind -> how often; `examples`: kind -> where and what, the first time."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, example: str, count: int = 1) -> None:
        if count:
            self.counts[kind] = self.counts.get(kind, 0) + count
            self.examples.setdefault(kind, example)

    def lines(self) -> list[str]:
        """One line for each kind, as people read it."""
        return [f"{count} x {kind}; first: {self.examples[kind]}" for kind, count in self.counts.items()]

    def to_json(self) -> list[JSON]:
        return [{"kind": kind, "count": count, "first": self.examples[kind]} for kind, count in self.counts.items()]


@dataclass(frozen=True)
class ReadOptions:
    """What a reader is told beside the trace files.

    `labels`: the files with people's labels. `report` receives the warnings. `longest_text`: characters of one text
    beyond which its middle is left out.
    """

    taxonomy: Taxonomy
    report: ReadReport = field(default_factory=ReadReport)
    labels: tuple[Path, ...] = ()
    longest_text: int = 1_000_000
