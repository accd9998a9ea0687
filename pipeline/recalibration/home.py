"""What passes and rollbacks share: the champions of one experiment, and the decisions about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judges.models.connect import is_simulated
from pipeline.config import PipelineError
from pipeline.export.exported import Exported, versions_of
from pipeline.export.records import Ending, Record, Records
from pipeline.export.registry import GoneError, Registry
from pipeline.held_out import TEST_USES
from pipeline.recalibration.config import MlflowConfig


@dataclass(frozen=True)
class Passed:
    """What one pass did. `more` is how many more labelled traces it waits for; `run_id` its record, if it made one."""

    decision: str
    reasons: tuple[str, ...]
    champions: Mapping[str, Exported]
    new_labels: int = 0
    more: int = 0
    run_id: str = ""
    resumed: bool = False
    document: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "decision": self.decision,
            "reasons": list(self.reasons),
            "champions": {name: judge.uri for name, judge in self.champions.items()},
            "simulated": any(is_simulated(judge.program.knobs.model) for judge in self.champions.values()),
            "newly_labelled_traces": self.new_labels,
            "more_labels_needed": self.more,
            "run_id": self.run_id,
            "resumed": self.resumed,
            **({"details": dict(self.document)} if self.document else {}),
        }


def was_read(folder: Path) -> bool:
    """Whether a gate was given what the pass of this folder holds out, or may have been: the folder is gone. That use
    of it was recorded first."""
    return not folder.is_dir() or any(folder.rglob(TEST_USES))


class Home:
    """Where the champions of one prefix live.

    Raises (every method): PipelineError, where MLflow refuses, and at first where there is no champion.
    """

    def __init__(self, mlflow: MlflowConfig) -> None:
        self.registry = Registry(mlflow.uri, mlflow.home, mlflow.prefix)
        if not self.registry.champions():
            raise PipelineError(
                f"experiment {mlflow.home!r} has no champion with the prefix {mlflow.prefix!r}: accepted is one to "
                "which `gpa-judges export RUN --to mlflow` exported judges that passed their validation"
            )
        self.records = Records(mlflow.uri, mlflow.home, mlflow.prefix)

    def versions(self) -> dict[str, int]:
        """Dimension -> version of its champion of now."""
        return versions_of(self.registry.champions())

    def judges(self, versions: Mapping[str, int]) -> dict[str, Exported]:
        """
        Raises:
            GoneError: one of them is gone.
        """
        found = {}
        for name, number in versions.items():
            judge = next((one for one in self.registry.versions(name) if one.version == number), None)
            if judge is None:
                raise GoneError(f"version {number} of the {name} judge was deleted")
            found[name] = judge
        return found

    def withdraw(self, record: Record) -> tuple[str, ...]:
        """Takes back what a pass that was stopped had promoted already, and the scorers that it had made live. Returns
        what cannot be taken back, one line each."""
        left = []
        for judge in self._promoted(record):
            try:
                self.registry.rollback([judge])
            except GoneError as error:
                left.append(f"{judge.uri}, which the pass had promoted, stays champion: {error}")
        for name, number in record.before.items():
            for judge in self.registry.versions(name):
                if judge.version != number and judge.tags.get("run_id") == record.run_id:
                    self.registry.forget(judge, since=number)
        self.registry.promote(self.registry.champions().values())
        return tuple(left)

    def overrule(self, record: Record, *, read: bool) -> bool:
        """Ends a pass that was stopped, so that none will go on with it. What it had promoted stands, on record.
        `read`: a gate may have read its held-out labels. Returns whether it had promoted anything."""
        promoted = bool(self._promoted(record))
        self.registry.promote(self.registry.champions().values())
        after = self.versions()
        document = {"decision": "overruled", "before": dict(record.before), "after": after}
        self.records.end(record, Ending("overruled", after, document=document, spent=read or promoted))
        return promoted

    def _promoted(self, record: Record) -> list[Exported]:
        """The champions of now that a pass that was stopped had made."""
        return [
            judge
            for name, judge in self.registry.champions().items()
            if judge.version != record.before.get(name) and judge.tags.get("run_id") == record.run_id
        ]
