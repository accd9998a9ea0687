"""One idempotent pass of re-calibration.

What is to be done follows from MLflow alone: the champions, people's labels, and the records of decisions. A pass first
opens a record that names its champions, its labels and the part of each trace; a pass that was killed is ended as it
was begun before anything else is done. Its calls are replayed from the one ledger that it has in the state folder. The
champions change in the last step but one, which can be repeated; the last step closes the record. A pass that can never
end is given up, and what it had promoted is taken back.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judges.models.connect import is_simulated
from labeled_traces.dataset import Dataset
from labeled_traces.trace import TraceError
from pipeline.evaluate import NoUsableReply
from pipeline.export.exported import Exported, Provenance, suite_of, versions_of
from pipeline.export.records import RECALIBRATION, ROLLBACK, Ending, Record, Used
from pipeline.export.reference import REFERENCE, Reference
from pipeline.export.registry import GoneError, UnfitError
from pipeline.held_out import TEST_USES
from pipeline.lock import locked
from pipeline.mlflow_traces import MlflowTraces
from pipeline.prepare import Say
from pipeline.recalibration.config import DATA, RecalibrationConfig
from pipeline.recalibration.decide import Decided, Decision, Work, decide
from pipeline.recalibration.home import Home, Passed, was_read
from pipeline.recalibration.labels import LabelSource, PassLabels
from pipeline.recalibration.rollback import end_rollback


def recalibrate(config: RecalibrationConfig, say: Say) -> Passed:
    """One pass; the same call again does nothing until there are new labels.

    Raises:
        PipelineError: MLflow, experiment or champions are not there, or another pass is running.
        BudgetExhausted, LMError: as their names say; the next call goes on with the same labels.
    """
    with locked(config.state):
        return _Pass(config, say).run()


class _Pass:
    def __init__(self, config: RecalibrationConfig, say: Say) -> None:
        self.config = config
        self.say = say
        self.home = Home(config.mlflow)
        self.past = self.home.records.all()
        traces = MlflowTraces(config.mlflow.uri, config.mlflow.experiment)
        self.labels = LabelSource(config, traces, self.past, say)

    def run(self) -> Passed:
        for record in self.past:
            if record.open and record.kind == ROLLBACK:
                try:
                    end_rollback(self.home, record)
                except GoneError as error:
                    self.say(f"a rollback that was stopped cannot be done: {error}")
        stopped = next((record for record in self.past if record.open and record.kind == RECALIBRATION), None)
        if stopped is not None:
            self.say(f"a pass that was stopped is ended first: {stopped.run_id}")
            return self._go_on(stopped)
        champions = self.home.registry.champions()
        labels = self.labels.next(suite_of(champions))
        new = len(labels.fresh)
        older = f", and {labels.older} older ones that no pass tuned or tested on" if labels.older else ""
        self.say(f"{new} newly labelled traces{older}")
        if not new:
            reason = "no newly labelled trace: passes, or the run of exported judges, had all that there are"
            return Passed(Decision.NOTHING_NEW, (reason,), champions)
        more = self.labels.more_needed(labels)
        if more:
            reason = f"{new} newly labelled traces, {more} more are needed"
            return Passed(Decision.NEEDS_LABELS, (reason,), champions, new, more)
        used = Used.of(labels.manifest, labels.dataset)
        record = self.home.records.begin(RECALIBRATION, versions_of(champions), self._known(champions), used)
        self._folder(record).mkdir(parents=True, exist_ok=True)
        return self._work(record, labels, resumed=False)

    def _known(self, champions: Mapping[str, Exported]) -> str:
        """What these champions were promoted with: as the records say, which also know it of champions that came back;
        else as the champions themselves say."""
        versions = versions_of(champions)
        for record in reversed(self.past):
            if record.reference and record.after == versions:
                return record.reference
            if record.known and record.before == versions:
                return record.known
        tags = {judge.tags.get(REFERENCE, "") for judge in champions.values()}
        return tags.pop() if len(tags) == 1 else ""

    def _go_on(self, record: Record) -> Passed:
        """With the labels that it began with, even if people changed them since."""
        folder = self._folder(record)
        if not folder.is_dir():
            # Nobody knows any more whether a gate read what is held out: it counts as read, however often it is lost.
            folder.mkdir(parents=True)
            (folder / TEST_USES).touch()
        path = folder / DATA
        try:
            dataset = Dataset.load(path) if path.is_file() else self.labels.of(record)
        except TraceError:  # its copy is damaged
            dataset = self.labels.of(record)
        fresh = self.labels.fresh(record)
        if dataset.hash != record.used.digest:
            reason = "its labels were changed before it ended, and their copy is gone"
            return self._give_up(record, len(fresh), reason, resumed=True)
        return self._work(record, PassLabels(dataset, record.used.split(dataset), fresh), resumed=True)

    def _folder(self, record: Record) -> Path:
        return self.config.state / record.run_id

    def _work(self, record: Record, labels: PassLabels, *, resumed: bool) -> Passed:
        config = self.config.model_copy(update={"seed": record.used.seed})
        try:
            champions = self.home.judges(record.before)
            reference = Reference.parse(record.known)
            found = decide(Work(config, suite_of(champions), reference, labels, self._folder(record)), self.say)
        except (TraceError, GoneError, NoUsableReply) as error:
            return self._give_up(record, len(labels.fresh), str(error), resumed=resumed)
        decision, reasons = found.decision, found.reasons
        if decision is Decision.PROMOTED:
            decision, reasons = self._promote(record, found, champions)
        if resumed and decision is not Decision.PROMOTED:
            reasons = (*reasons, *self.home.withdraw(record))
        simulated = any(is_simulated(judge.program.knobs.model) for judge in champions.values())
        more = found.to_json() | {"older_traces": labels.older, "simulated": simulated}
        after = self.home.versions()
        # What was measured of the champions that it began with says nothing of those that somebody made meanwhile.
        known = decision is Decision.PROMOTED or (decision is Decision.BASELINE and after == record.before)
        document = more | self._about(record, len(labels.fresh), str(decision), reasons)
        spent = found.decision is Decision.PROMOTED or was_read(self._folder(record))
        ending = _ending(document, after, found.reference if known else None, spent=spent)
        return self._end(record, ending, resumed=resumed)

    def _give_up(self, record: Record, fresh: int, reason: str, *, resumed: bool) -> Passed:
        """It would come to the same end for ever."""
        left = self.home.withdraw(record)
        spent = was_read(self._folder(record))
        labels = "count as used" if spent else "join those of the next pass"
        reasons = (f"{reason}: the pass is given up, its labels {labels}", *left)
        document = self._about(record, fresh, "given up", reasons)
        ending = Ending("given up", self.home.versions(), document=document, spent=spent)
        return self._end(record, ending, resumed=resumed)

    def _about(self, record: Record, fresh: int, decision: str, reasons: tuple[str, ...]) -> dict[str, Any]:
        """What every decision is recorded with."""
        prompts = f"prompts:/{self.config.mlflow.prefix}"
        return {
            "decision": decision,
            "reasons": list(reasons),
            "digest": record.used.digest,
            "held_out": [place.trace_id for place in record.used.places if place.part == "testset"],
            "newly_labelled_traces": fresh,
            "before": {name: f"{prompts}{name}/{version}" for name, version in record.before.items()},
            "after": {name: f"{prompts}{name}/{version}" for name, version in self.home.versions().items()},
        }

    def _end(self, record: Record, ending: Ending, *, resumed: bool) -> Passed:
        self.home.records.end(record, ending)
        about = ending.document
        return Passed(
            ending.decision,
            tuple(about["reasons"]),
            self.home.registry.champions(),
            about["newly_labelled_traces"],
            run_id=record.run_id,
            resumed=resumed,
            document=about,
        )

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
        registry = self.home.registry
        try:
            judges = registry.register(found.challenger, provenance)
        except UnfitError as error:
            return Decision.KEPT, (*found.reasons, f"the challenger cannot run in MLflow: {error}")
        for name, present in registry.champions().items():
            if name in judges and present.version not in (record.before.get(name), judges[name].version):
                reason = f"the {name} champion was changed while the pass was under way: the challenger waits"
                return Decision.KEPT, (*found.reasons, reason)
        registry.promote(judges.values())
        return Decision.PROMOTED, found.reasons


def _ending(
    document: Mapping[str, Any], after: Mapping[str, int], reference: Reference | None, *, spent: bool
) -> Ending:
    """What a pass that came to a decision is recorded with."""
    metrics = {f"{name}/champion": row["value"] for name, row in document["measured"].items()}
    gate = document["gate"] or {}
    metrics |= {f"{name}/difference": row["value"] for name, row in gate.get("differences", {}).items()}
    parts = {f"traces.{name}": number for name, number in document["parts"].items()}
    return Ending(
        document["decision"],
        after,
        reference.to_text() if reference else "",
        {name: value for name, value in metrics.items() if value is not None},
        {"digest": document["digest"], **parts},
        document,
        spent,
    )
