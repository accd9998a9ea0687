"""What turns the raw findings of a suite into what is reported. Trying a rule costs no call: it replays judgments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from judges.judgment import Finding, Judgment, Outcome
from judges.lm import JudgeError
from labeled_traces.files import read_yaml
from labeled_traces.label import Impact, score_from_impacts
from labeled_traces.trace import TraceError

FILE_NAME = "decision_rule.yaml"


@dataclass(frozen=True)
class DecisionRule:
    """A finding is reported if it is severe and sure enough, if enough judges point at one of its spans, and if it is
    among the `max_per_trace` weightiest of its trace (None: no such limit). The default reports everything."""

    min_severity: Impact = Impact.LOW
    min_confidence: int = 0
    min_judges: int = 1
    max_per_trace: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.min_severity, Impact):
            raise JudgeError(f"min_severity is {self.min_severity!r}: accepted are low, medium and high")
        _check("min_confidence", self.min_confidence, 0, 100)
        _check("min_judges", self.min_judges, 1, 100)
        if self.max_per_trace is not None:
            _check("max_per_trace", self.max_per_trace, 1, 1_000_000)

    @property
    def weighs_judges(self) -> bool:
        """Whether what one judge reports hangs on what the others found: only all of them together are final."""
        return self.min_judges > 1 or self.max_per_trace is not None

    def apply(self, judgments: Sequence[Judgment]) -> list[Judgment]:
        """The judgments in their order, with the findings that are reported.

        Judges are counted per trace and repeat, by the distinct dimensions of the findings that are severe and sure
        enough; a finding keeps those of its spans that enough of them cite. A judgment that lost a finding gets the
        score that follows from the rest.
        """
        groups: dict[tuple[str, int], list[int]] = defaultdict(list)
        for i, judgment in enumerate(judgments):
            groups[judgment.trace_id, judgment.repeat].append(i)
        reported = list(judgments)
        for places in groups.values():
            kept = self._kept([judgments[i].findings for i in places])
            for i, findings in zip(places, kept, strict=True):
                reported[i] = _with_findings(judgments[i], findings)
        return reported

    def _kept(self, groups: Sequence[Sequence[Finding]]) -> list[tuple[Finding, ...]]:
        """What is left of the findings of one trace and repeat, judge by judge."""
        kept = [[finding for finding in findings if self._weighs_enough(finding)] for findings in groups]
        if self.min_judges > 1:
            kept = self._agreed(kept)
        if self.max_per_trace is not None:
            kept = _weightiest(kept, self.max_per_trace)
        return [tuple(findings) for findings in kept]

    def _weighs_enough(self, finding: Finding) -> bool:
        return finding.severity >= self.min_severity and finding.confidence >= self.min_confidence

    def _agreed(self, groups: Sequence[Sequence[Finding]]) -> list[list[Finding]]:
        cited_by: dict[str, set[str]] = defaultdict(set)
        for finding in (finding for findings in groups for finding in findings):
            for span_id in finding.cited:
                cited_by[span_id].add(finding.dimension)
        agreed = {span_id for span_id, dimensions in cited_by.items() if len(dimensions) >= self.min_judges}
        shortened = [[_at(finding, agreed) for finding in findings] for findings in groups]
        return [[finding for finding in findings if finding.span_ids] for findings in shortened]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "min_severity": str(self.min_severity)}

    @classmethod
    def from_json(cls, values: Any, where: str) -> DecisionRule:
        """Reads what `to_json` gives.

        Raises:
            JudgeError: an unknown key or a value out of range; the message begins with `where`.
        """
        try:
            if "min_severity" in values:
                values = {**values, "min_severity": Impact.parse(values["min_severity"])}
            return cls(**values)
        except (TypeError, TraceError, JudgeError) as error:
            accepted = ", ".join(cls.__dataclass_fields__)
            raise JudgeError(f"{where}: not a decision rule: {error}. Its keys are {accepted}") from error

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE_NAME).write_text(yaml.safe_dump(self.to_json(), sort_keys=False), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> DecisionRule:
        """Reads what `save` wrote; without the file it is the default rule.

        Raises:
            JudgeError: the file is there and cannot be used.
        """
        path = folder / FILE_NAME
        if not path.exists():
            return cls()
        try:
            values = read_yaml(path)
        except TraceError as error:
            raise JudgeError(f"not a decision rule: {error}") from error
        return cls.from_json(values, str(path))


def _at(finding: Finding, span_ids: set[str]) -> Finding:
    left = tuple(span_id for span_id in finding.cited if span_id in span_ids)
    return finding if left == finding.span_ids else replace(finding, span_ids=left)


def _weightiest(groups: Sequence[Sequence[Finding]], count: int) -> list[list[Finding]]:
    """The `count` findings of highest severity, then confidence, then earliest place; each group keeps its order."""
    places = [(i, j) for i, findings in enumerate(groups) for j in range(len(findings))]
    places.sort(key=lambda place: _weight(groups[place[0]][place[1]]), reverse=True)
    kept = set(places[:count])
    return [[finding for j, finding in enumerate(findings) if (i, j) in kept] for i, findings in enumerate(groups)]


def _weight(finding: Finding) -> tuple[int, int]:
    return finding.severity, finding.confidence


def _with_findings(judgment: Judgment, findings: tuple[Finding, ...]) -> Judgment:
    if findings == judgment.findings:
        return judgment
    lost = len(findings) < len(judgment.findings)
    if not lost or judgment.outcome is not Outcome.SCORED:
        return replace(judgment, findings=findings)
    return replace(judgment, findings=findings, score=score_from_impacts(finding.severity for finding in findings))


def _check(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise JudgeError(f"{name} is {value!r}: accepted is a whole number from {low} to {high}")
