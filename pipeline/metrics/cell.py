"""One judgment against the labels of its dimension."""

from __future__ import annotations

from dataclasses import dataclass

from judges.judgment import Finding
from labeled_traces.label import ErrorLabel


@dataclass(frozen=True)
class Cell:
    """What one judge said of one trace in one repeat, against the labels of its dimension.

    `score` is None where there is none. `pairs` are the matches: positions in `findings` and in `errors`. `complete`:
    people said which errors there are (`LabeledTrace.can_judge`); where they did not, no finding is wrong.
    """

    usable: bool
    score: int | None
    findings: tuple[Finding, ...]
    errors: tuple[ErrorLabel, ...]
    pairs: tuple[tuple[int, int], ...] = ()
    complete: bool = True

    @property
    def matches(self) -> list[tuple[Finding, ErrorLabel]]:
        return [(self.findings[f], self.errors[e]) for f, e in self.pairs]

    @property
    def located(self) -> list[tuple[Finding, ErrorLabel]]:
        """Matches that cite the label's span."""
        return [(finding, error) for finding, error in self.matches if cites(finding, error)]

    @property
    def misplaced(self) -> list[tuple[Finding, ErrorLabel]]:
        """Matches that do not cite the label's span, where it has one."""
        return [(finding, error) for finding, error in self.matches if error.span_id and not cites(finding, error)]

    @property
    def spurious(self) -> list[Finding]:
        """Findings that match no label, where they are known to be wrong."""
        taken = {f for f, _ in self.pairs}
        return [finding for f, finding in enumerate(self.findings) if self.complete and f not in taken]

    @property
    def decided(self) -> int:
        """How many findings are known to be right or wrong."""
        return len(self.findings) if self.complete else 0

    @property
    def placeable(self) -> int:
        """How many of those cite the right span or a wrong one: not those whose label has no span."""
        return self.decided - sum(error.span_id is None for _, error in self.matches)

    @property
    def missed(self) -> list[ErrorLabel]:
        """Labels that no finding matches; none where the judgment cannot be used."""
        taken = {e for _, e in self.pairs}
        return [error for e, error in enumerate(self.errors) if self.usable and e not in taken]


def cites(finding: Finding, error: ErrorLabel) -> bool:
    return error.span_id in finding.cited
