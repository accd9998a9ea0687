"""Which labelled traces a pass works with.

The new ones say whether the champion has drifted. Of the traces of earlier passes, those that no pass tuned or tested
on are as good as new for a search and for a gate: a pass that found all fine has read nothing of its held-out part, and
of its development part nothing but the champion's score. A task is in the same part of every pass, so what was held out
then is held out now. So that old runs of the agent do not outweigh the new ones, there are never more of them than of
those, and the newest come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judges.program import JudgeSuite
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.readers.mlflow import read_row
from labeled_traces.readers.mlflow_labels import is_labelled
from labeled_traces.readers.report import ReadOptions
from labeled_traces.stable_split import stable_split
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import TraceError
from pipeline.held_out import leaks
from pipeline.mlflow_traces import MlflowTraces
from pipeline.prepare import Say
from pipeline.recalibration.config import RecalibrationConfig
from pipeline.recalibration.records import Record


@dataclass(frozen=True)
class PassLabels:
    """The rows of one pass; `fresh` are the ids of those that no earlier pass had."""

    dataset: Dataset
    fresh: frozenset[str]

    @property
    def older(self) -> int:
        return len(self.dataset) - len(self.fresh)


@dataclass(frozen=True)
class LabelSource:
    """People's labels in MLflow, and the records of the passes so far."""

    config: RecalibrationConfig
    traces: MlflowTraces
    past: Sequence[Record]
    say: Say

    def next(self, champion: JudgeSuite) -> PassLabels:
        """What a new pass works with. A trace that the champion's texts were copied from tests nothing: one that would
        be held out is left out."""
        had = {trace_id for record in self.past for trace_id in record.traces}
        spent = {trace_id for record in self.past if record.spent for trace_id in record.traces}
        rows = self._read(spent)
        fresh = [row for row in rows if row.trace_id not in had]
        older = [row for row in rows if row.trace_id in had][: len(fresh)]
        dataset = self._without_leaks(_dataset([*fresh, *older]), champion)
        return PassLabels(dataset, frozenset(row.trace_id for row in fresh if row.trace_id in dataset))

    def of(self, record: Record) -> PassLabels:
        """What a pass that was stopped began with, as far as MLflow still says the same."""
        rows = [row for row in self._read(set()) if row.trace_id in record.traces]
        return PassLabels(_dataset(rows), self.fresh(record))

    def fresh(self, record: Record) -> frozenset[str]:
        """The traces that this record was the first to have."""
        others = {trace_id for one in self.past if one.run_id != record.run_id for trace_id in one.traces}
        return frozenset(record.traces) - others

    def more_needed(self, labels: PassLabels) -> int:
        """How many more newly labelled traces a pass waits for."""
        new = labels.dataset.subset(sorted(labels.fresh))
        parts = stable_split(new, self.config.seed, self.config.labels.fractions).parts
        return max(self.config.labels.least_traces - len(new), 0 if all(parts.values()) else 1)

    def _without_leaks(self, dataset: Dataset, champion: JudgeSuite) -> Dataset:
        manifest = stable_split(dataset, self.config.seed, self.config.labels.fractions)
        leaking = dict(leaks(dataset, manifest, champion))
        if leaking:
            self.say(
                f"labels: {len(leaking)} x held-out trace that the champion's prompts share words with, left out; "
                f"first: {next(iter(leaking.values()))}"
            )
        return dataset.subset([trace_id for trace_id in dataset.ids if trace_id not in leaking])

    def _read(self, without: set[str]) -> list[LabeledTrace]:
        """The labelled traces, the newest first."""
        options = ReadOptions(load_taxonomy(self.config.labels.taxonomy))
        rows: list[LabeledTrace] = []
        for record in self.traces.records(self.config.mlflow.filter):
            trace_id = str(record["info"].get("trace_id"))
            if trace_id not in without:
                try:
                    rows.append(read_row(record, trace_id, options, self.config.mlflow.prefix))
                except TraceError as error:
                    options.report.add("trace that cannot be read", str(error))
        for line in options.report.lines():
            self.say(f"labels: {line}")
        return [row for row in rows if is_labelled(row)]


def _dataset(rows: Sequence[LabeledTrace]) -> Dataset:
    return Dataset(sorted(rows, key=lambda row: row.trace_id))
