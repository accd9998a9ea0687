"""What an export leaves on record, so that no re-calibration holds out what the judges were tuned or proved on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from labeled_traces.raters import load
from labeled_traces.split import SplitManifest
from labeled_traces.stable_split import Place, places_of
from labeled_traces.trace import TraceError
from pipeline.config import ExperimentConfig, PipelineError
from pipeline.export.records import EXPORT, Ending, Record, Records, Used
from pipeline.held_out import TEST_USES
from pipeline.prepare import DATA
from pipeline.run_folder import PLACES, SPLIT, RunFolder


def used_by(folder: RunFolder, config: ExperimentConfig) -> tuple[Used, str]:
    """The traces of a run, and what is not known of them, for people ("": nothing). Of what task each was says the
    run's folder, or its data while that is what was split."""
    try:
        manifest = SplitManifest.load(folder[SPLIT])
    except (TraceError, OSError):
        missing = f"{folder[SPLIT]} is missing or damaged: a re-calibration may hold out what these were tuned on"
        return Used(), missing
    places = _noted(folder, manifest)
    if places is not None:
        return Used.at(manifest, places), ""
    try:
        dataset = load(config.data.path or folder[DATA], config.data.raters)
        manifest.check(dataset)
    except (TraceError, OSError) as error:
        unknown = (
            f"{folder[PLACES]} is missing or damaged, and the data is not there as it was split ({error}): the ids and "
            "contents of the traces are on record, but not their tasks, so a re-calibration may hold out other runs of "
            "tasks that these were tuned on; put the data back and export again"
        )
        return Used.of(manifest, None), unknown
    return Used.of(manifest, dataset), ""


def _noted(folder: RunFolder, manifest: SplitManifest) -> tuple[Place, ...] | None:
    """What tuning noted of this very split; None: nothing that can be relied on."""
    try:
        found = folder.read_sealed(PLACES)
        places = tuple(Place(*row) for row in found["places"]) if found else ()
    except (TraceError, PipelineError, OSError, KeyError, TypeError):
        return None
    same = tuple(replace(place, group="", task="") for place in places) == places_of(manifest)
    return places if same else None


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
