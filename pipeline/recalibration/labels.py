"""Which labelled traces a pass works with.

The new ones say whether the champion has drifted. Of the traces of earlier passes, those that no pass tuned or tested
on are as good as new for a search and for a gate: a pass that found all fine has read nothing of its held-out part, and
of its development part nothing but the champion's score. A task stays in the part in which it was first, so what was
held out then is held out now. So that old runs of the agent do not outweigh the new ones, there are never more of them
than of those, and the newest come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import takewhile

from judges.program import JudgeSuite
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.readers.labels.mlflow import is_labelled
from labeled_traces.readers.mlflow import read_row
from labeled_traces.readers.report import ReadOptions
from labeled_traces.split import SplitManifest, manifest_of
from labeled_traces.stable_split import content_of, parts_by_key, stable_split
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import TraceError
from pipeline.export.records import Record
from pipeline.held_out import leaks, seal_of
from pipeline.mlflow_traces import MlflowTraces
from pipeline.prepare import Say
from pipeline.recalibration.config import RecalibrationConfig


@dataclass(frozen=True)
class PassLabels:
    """The rows of one pass, and their split; `fresh` are the ids of those that no earlier pass had."""

    dataset: Dataset
    manifest: SplitManifest
    fresh: frozenset[str]

    @property
    def older(self) -> int:
        return len(self.dataset) - len(self.fresh)


@dataclass(frozen=True)
class LabelSource:
    """People's labels in MLflow, and the records of the decisions so far."""

    config: RecalibrationConfig
    traces: MlflowTraces
    past: Sequence[Record]
    say: Say

    def next(self, champion: JudgeSuite) -> PassLabels:
        """What a new pass works with. A trace that the champion's texts were copied from tests nothing: one that would
        be held out is left out."""
        had, spent = _seen(self.past), _seen(record for record in self.past if record.spent)
        rows = [row for row in self._read(spent) if content_of(row) not in spent]
        fresh = frozenset(row.trace_id for row in rows if had.isdisjoint((row.trace_id, content_of(row))))
        older = [row for row in rows if row.trace_id not in fresh][: len(fresh)]
        dataset = _dataset([*older, *(row for row in rows if row.trace_id in fresh)])
        known = parts_by_key(place for record in self.past for place in record.used.places)
        manifest = stable_split(dataset, self.config.seed, self.config.labels.fractions, known)
        labels = PassLabels(dataset, manifest, fresh)
        return self._without_leaks(labels, champion)

    def of(self, record: Record) -> Dataset:
        """What a pass that was stopped began with, as far as MLflow still says the same."""
        return _dataset([row for row in self._read(set()) if row.trace_id in record.traces])

    def fresh(self, record: Record) -> frozenset[str]:
        """The traces that this record was the first to have."""
        earlier = _seen(takewhile(lambda one: one.run_id != record.run_id, self.past))
        places = record.used.places
        return frozenset(place.trace_id for place in places if earlier.isdisjoint((place.trace_id, place.content)))

    def more_needed(self, labels: PassLabels) -> int:
        """How many more newly labelled traces a pass waits for."""
        parts = labels.manifest.parts.values()
        least = self.config.labels.least_traces
        return max(least - len(labels.fresh), 0 if all(labels.fresh.intersection(ids) for ids in parts) else 1)

    def _without_leaks(self, labels: PassLabels, champion: JudgeSuite) -> PassLabels:
        leaking = {leak.trace_id: leak.what for leak in leaks(seal_of(labels.dataset, labels.manifest), champion)}
        if not leaking:
            return labels
        self.say(
            f"labels: {len(leaking)} x held-out trace that the champion's prompts share words with, left out; "
            f"first: {next(iter(leaking.values()))}"
        )
        dataset = labels.dataset.subset([trace_id for trace_id in labels.dataset.ids if trace_id not in leaking])
        old = labels.manifest
        parts = [[trace_id for trace_id in ids if trace_id not in leaking] for ids in old.parts.values()]
        manifest = manifest_of(dataset, old.seed, old.fractions, parts)
        return PassLabels(dataset, manifest, labels.fresh - set(leaking))

    def _read(self, without: Set[str]) -> list[LabeledTrace]:
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


def _seen(records: Iterable[Record]) -> frozenset[str]:
    """Ids and contents: a trace that was exported, or logged again, is not a new one."""
    return frozenset(
        name for record in records for place in record.used.places for name in (place.trace_id, place.content)
    )
