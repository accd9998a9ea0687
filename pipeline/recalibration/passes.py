"""One idempotent pass of re-calibration, and the way back.

What is to be done follows from MLflow alone: the champions, people's labels, and the records of decisions. A pass first
opens a record that names its labels and champions; a pass that was killed is ended as it was begun before anything else
is done. Its calls are replayed from the ledger in the state folder. The champions change in the last step but one,
which can be repeated; the last step closes the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judges.connect import is_simulated
from labeled_traces.dataset import Dataset
from labeled_traces.split import LeakageError
from labeled_traces.stable_split import stable_split
from pipeline.config import PipelineError
from pipeline.export.exported import Exported, Provenance, suite_of
from pipeline.export.reference import REFERENCE, Reference
from pipeline.export.registry import Registry
from pipeline.lock import locked
from pipeline.mlflow_traces import MlflowTraces
from pipeline.prepare import Say
from pipeline.recalibration.config import DATA, RecalibrationConfig
from pipeline.recalibration.decide import Decided, Decision, Work, decide
from pipeline.recalibration.labels import LabelSource, PassLabels
from pipeline.recalibration.records import RECALIBRATION, ROLLBACK, Ending, Record, Records


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


def recalibrate(config: RecalibrationConfig, say: Say) -> Passed:
    """One pass; the same call again does nothing until there are new labels.

    Raises:
        PipelineError: MLflow, experiment or champions are not there, or another pass is running.
        BudgetExhausted, LMError: as their names say; the next call goes on with the same labels.
    """
    with locked(config.state):
        return _Pass(config, say).run()


def rollback(config: RecalibrationConfig, say: Say) -> Passed:
    """The champions that the last promotion replaced come back. Called again, it goes one promotion further back.

    Raises:
        PipelineError: there is no earlier champion; or as `recalibrate`.
    """
    with locked(config.state):
        return _Pass(config, say).roll_back()


class _DeletedError(PipelineError):
    """A judge that a record names is gone."""


class _Pass:
    def __init__(self, config: RecalibrationConfig, say: Say) -> None:
        mlflow = config.mlflow
        self.config = config
        self.say = say
        self.registry = Registry(mlflow.uri, mlflow.home, mlflow.prefix)
        self.traces = MlflowTraces(mlflow.uri, mlflow.experiment)
        self.champions = self.registry.champions()
        if not self.champions:
            raise PipelineError(
                f"experiment {mlflow.home!r} has no champion with the prefix {mlflow.prefix!r}: accepted is one to "
                "which `gpa-judges export RUN --to mlflow` exported judges that passed their validation"
            )
        self.records = Records(mlflow.uri, mlflow.home, mlflow.prefix)
        self.past = self.records.all()
        self.labels = LabelSource(config, self.traces, self.past, say)

    def run(self) -> Passed:
        for record in self.past:
            if record.open and record.kind == ROLLBACK:
                self._end_rollback(record)
        stopped = next((record for record in self.past if record.open and record.kind == RECALIBRATION), None)
        if stopped is not None:
            self.say(f"a pass that was stopped is ended first: {stopped.run_id}")
            return self._go_on(stopped)
        labels = self.labels.next(suite_of(self.champions))
        new = len(labels.fresh)
        older = f", and {labels.older} older ones that no pass tuned or tested on" if labels.older else ""
        self.say(f"{new} newly labelled traces{older}")
        if not new:
            return self._nothing(Decision.NOTHING_NEW, "no trace was labelled since the last pass")
        more = self.labels.more_needed(labels)
        if more:
            reason = f"{new} newly labelled traces, {more} more are needed"
            return self._nothing(Decision.NEEDS_LABELS, reason, new, more)
        versions = {name: judge.version for name, judge in self.champions.items()}
        record = self.records.begin(RECALIBRATION, versions, self._known(versions), labels.dataset)
        return self._work(record, labels, resumed=False)

    def _nothing(self, decision: Decision, reason: str, new: int = 0, more: int = 0) -> Passed:
        return Passed(decision, (reason,), self.champions, new, more)

    def _go_on(self, record: Record) -> Passed:
        """With the labels that it began with, even if people changed them since."""
        path = self._folder(record) / DATA
        kept = PassLabels(Dataset.load(path), self.labels.fresh(record)) if path.is_file() else None
        labels = kept or self.labels.of(record)
        reason = "its labels were changed before it ended, and their copy is gone"
        if labels.dataset.hash == record.digest:
            try:
                return self._work(record, labels, resumed=True)
            except (LeakageError, _DeletedError) as error:
                reason = str(error)
        # It would come to the same end for ever.
        reason += ": the pass is given up, its labels count as used"
        after = {name: judge.version for name, judge in self.champions.items()}
        self.records.end(record, Ending("given up", after))
        return Passed("given up", (reason,), self.champions, run_id=record.run_id, resumed=True)

    def _folder(self, record: Record) -> Path:
        return self.config.state / record.run_id

    def _work(self, record: Record, labels: PassLabels, *, resumed: bool) -> Passed:
        champions = self._versions(record.before)
        manifest = stable_split(labels.dataset, self.config.seed, self.config.labels.fractions)
        reference = Reference.parse(record.known)
        work = Work(self.config, suite_of(champions), reference, labels, manifest, self._folder(record))
        found = decide(work, self.say)
        decision, reasons = found.decision, found.reasons
        if decision is Decision.PROMOTED:
            decision, reasons = self._promote(record, found, champions)
        after = self.registry.champions()
        document = found.to_json() | {
            "decision": str(decision),
            "reasons": list(reasons),
            "digest": record.digest,
            "held_out": list(manifest.testset),
            "newly_labelled_traces": len(labels.fresh),
            "older_traces": labels.older,
            "before": {name: judge.uri for name, judge in champions.items()},
            "after": {name: judge.uri for name, judge in after.items()},
            "simulated": any(is_simulated(judge.program.knobs.model) for judge in champions.values()),
        }
        kept = found.reference if decision in (Decision.BASELINE, Decision.PROMOTED) else None
        spent = found.result is not None or found.decision is Decision.PROMOTED
        self.records.end(record, _ending(str(decision), after, kept, document, spent=spent))
        return Passed(
            str(decision), reasons, after, len(labels.fresh), run_id=record.run_id, resumed=resumed, document=document
        )

    def _versions(self, numbers: Mapping[str, int]) -> dict[str, Exported]:
        found = {}
        for name, number in numbers.items():
            judge = next((one for one in self.registry.versions(name) if one.version == number), None)
            if judge is None:
                raise _DeletedError(f"version {number} of the {name} judge was deleted while a pass was under way")
            found[name] = judge
        return found

    def _known(self, versions: Mapping[str, int]) -> str:
        """What these champions were promoted with: as the records say, which also know it of champions that came back;
        else as the champions themselves say."""
        for record in reversed(self.past):
            if record.reference and record.after == versions:
                return record.reference
            if record.known and record.before == versions:
                return record.known
        tags = {judge.tags.get(REFERENCE, "") for judge in self.champions.values()}
        return tags.pop() if len(tags) == 1 else ""

    def _promote(
        self, record: Record, found: Decided, champions: Mapping[str, Exported]
    ) -> tuple[Decision, tuple[str, ...]]:
        """Registers the challenger and makes it champion; both can be repeated. A champion that somebody else put there
        since the pass began is left alone."""
        assert found.challenger is not None
        provenance = Provenance(
            run=f"recalibration {record.run_id[:8]}",
            run_id=record.run_id,
            verdict=found.result.verdict if found.result else "",
            simulated=any(judge.simulated for judge in champions.values()),
            extra={REFERENCE: found.reference.to_text()},
        )
        judges = self.registry.register(found.challenger, provenance)
        for name, present in self.registry.champions().items():
            if name in judges and present.version not in (record.before.get(name), judges[name].version):
                reason = f"the {name} champion was changed while the pass was under way: the challenger waits"
                return Decision.KEPT, (*found.reasons, reason)
        self.registry.promote(judges.values())
        return Decision.PROMOTED, found.reasons

    def roll_back(self) -> Passed:
        stopped = next((record for record in self.past if record.open and record.kind == ROLLBACK), None)
        if stopped is not None:
            return self._end_rollback(stopped)
        leaving = {judge.dimension: judge.version for judge in self._replaced_last()}
        if not leaving:
            raise PipelineError(
                f"experiment {self.config.mlflow.home!r}: no champion stands there that has replaced another, so there "
                "is nothing to go back to; the champions are as they were"
            )
        return self._end_rollback(self.records.begin(ROLLBACK, leaving))

    def _replaced_last(self) -> list[Exported]:
        """The champions that came with the newest promotion that still stands."""
        present = {name: judge.version for name, judge in self.champions.items()}
        promotion = next(
            (one for one in reversed(self.past) if one.decision == Decision.PROMOTED and one.after == present), None
        )
        return [
            judge
            for name, judge in self.registry.replacements().items()
            if promotion is None or promotion.before.get(name) != judge.version
        ]

    def _end_rollback(self, record: Record) -> Passed:
        back = self.registry.rollback(self._versions(record.before).values())
        self.champions = self.registry.champions()
        after = {name: judge.version for name, judge in self.champions.items()}
        document = {"left": dict(record.before), "champions": after}
        self.records.end(record, Ending("rolled back", after, document=document))
        lines = tuple(
            f"{name}: version {record.before[name]} gave way to {judge.version}" for name, judge in back.items()
        )
        return Passed("rolled back", lines, self.champions, run_id=record.run_id, document=document)


def _ending(
    decision: str,
    after: Mapping[str, Exported],
    reference: Reference | None,
    document: Mapping[str, Any],
    *,
    spent: bool,
) -> Ending:
    """What a pass that came to a decision is recorded with."""
    metrics = {f"{name}/champion": row["value"] for name, row in document["measured"].items()}
    gate = document["gate"] or {}
    metrics |= {f"{name}/difference": row["value"] for name, row in gate.get("differences", {}).items()}
    parts = {f"traces.{name}": number for name, number in document["parts"].items()}
    return Ending(
        decision,
        {name: judge.version for name, judge in after.items()},
        reference.to_text() if reference else "",
        {name: value for name, value in metrics.items() if value is not None},
        {"decision": decision, "digest": document["digest"], **parts},
        document,
        spent,
    )
