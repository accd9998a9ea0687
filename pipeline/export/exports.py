"""What an export leaves on record, so that no re-calibration holds out what the judges were tuned or proved on."""

from __future__ import annotations

from collections.abc import Mapping

from labeled_traces.dataset import Dataset
from labeled_traces.split import SplitManifest
from labeled_traces.trace import TraceError
from pipeline.config import ExperimentConfig
from pipeline.export.records import EXPORT, Ending, Record, Records, Used
from pipeline.held_out import TEST_USES
from pipeline.prepare import DATA, SPLIT
from pipeline.run_folder import RunFolder


def used_by(folder: RunFolder, config: ExperimentConfig) -> Used | None:
    """The traces of a run; of what task each was is known only while its data is there. None: its split is gone."""
    try:
        manifest = SplitManifest.load(folder[SPLIT])
    except (TraceError, OSError):
        return None
    try:
        dataset = Dataset.load(config.data.path or folder[DATA])
        manifest.check(dataset)
    except (TraceError, OSError):
        return Used.of(manifest, None)
    return Used.of(manifest, dataset)


def spent_by(folder: RunFolder) -> bool:
    """Whether a gate has read the held-out labels of a run; those that none has read can be used again."""
    return folder[TEST_USES].is_file()


def begin_export(
    records: Records, used: Used, before: Mapping[str, int], after: Mapping[str, int], *, spent: bool
) -> Record | None:
    """The open record of an export that brings the champions from `before` to `after`; one that was stopped goes on.
    None: all that there is to say is on record, `spent` labels too."""
    earlier = [record for record in records.all() if record.kind == EXPORT and record.used == used]
    stopped = next((record for record in earlier if record.open), None)
    if stopped is None and before == after and any(record.spent or not spent for record in earlier):
        return None
    return stopped or records.begin(EXPORT, before, used=used)


def end_export(records: Records, record: Record, after: Mapping[str, int], run: str, *, spent: bool) -> None:
    document = {"decision": "exported", "run": run, "before": dict(record.before), "after": dict(after)}
    records.end(record, Ending("exported", after, document=document, spent=spent))
