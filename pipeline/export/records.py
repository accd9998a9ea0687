"""Decisions as runs of MLflow. What was decided, and what a stopped process had begun, is read from them alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field
from typing import Any

from labeled_traces.dataset import Dataset
from labeled_traces.split import PARTS, SplitManifest, manifest_of
from labeled_traces.stable_split import Place, places_of
from labeled_traces.trace import text_hash
from pipeline.config import PipelineError
from pipeline.tracking import connect, find_experiment, refusals

RECALIBRATION, ROLLBACK, EXPORT = "recalibration", "rollback", "export"
_RECORD, _PREFIX, _USED = "gpa.record", "gpa.prefix", "gpa.used"
_BEFORE, _AFTER, _DECISION = "gpa.champions_before", "gpa.champions_after", "gpa.decision"
_KNOWN, _REFERENCE, _SPENT = "gpa.reference_before", "gpa.reference", "gpa.labels_spent"
_TAG_LENGTH = 5000
"""MLflow's limit is 8,000 characters."""


@dataclass(frozen=True)
class Used:
    """The labelled traces of one decision, and the part that each was in. `digest` says which labels these were; `seed`
    and `fractions` are those of the split."""

    digest: str = ""
    seed: int = 0
    fractions: tuple[float, float, float] = (0.0, 0.0, 0.0)
    places: tuple[Place, ...] = ()

    @classmethod
    def of(cls, manifest: SplitManifest, dataset: Dataset | None) -> Used:
        """`dataset`: what the manifest splits; None where it is gone."""
        return cls.at(manifest, places_of(manifest, dataset))

    @classmethod
    def at(cls, manifest: SplitManifest, places: tuple[Place, ...]) -> Used:
        """`places`: those of this manifest."""
        return cls(manifest.dataset_hash, manifest.seed, manifest.fractions, places)

    def split(self, dataset: Dataset) -> SplitManifest:
        """These very traces, as they were split."""
        parts = [[place.trace_id for place in self.places if place.part == part] for part in PARTS]
        return manifest_of(dataset, self.seed, self.fractions, parts)

    def to_text(self) -> str:
        return json.dumps(asdict(self) | {"places": [astuple(place) for place in self.places]}, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> Used:
        """What `to_text` made."""
        row: dict[str, Any] = json.loads(text)
        places = tuple(Place(*place) for place in row.pop("places"))
        return cls(**row | {"fractions": tuple(row["fractions"]), "places": places})


@dataclass(frozen=True)
class Record:
    """One decision, and the traces that were `used` for it, to tune and to test. `before` and `after`: dimension ->
    version of its champion; `after` is empty while the record is `open`: begun, not ended. What the champions of before
    and after were promoted with is in `known` and `reference` (texts of `Reference`, or ""). `spent`: its held-out
    labels were read, so that no later pass can use any of its labels."""

    run_id: str
    kind: str
    used: Used
    before: Mapping[str, int]
    after: Mapping[str, int]
    decision: str
    known: str
    reference: str
    spent: bool

    @property
    def traces(self) -> frozenset[str]:
        return frozenset(place.trace_id for place in self.used.places)

    @property
    def open(self) -> bool:
        return not self.decision


@dataclass(frozen=True)
class Ending:
    """What a record is ended with. `reference`: what the champions of now are compared with from now on. `spent`: the
    held-out labels were read, or may have been."""

    decision: str
    after: Mapping[str, int]
    reference: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)
    spent: bool = True


class Records:
    """The decisions about the champions of one experiment and prefix.

    Raises (every method): PipelineError, where MLflow refuses or cannot be reached.
    """

    def __init__(self, uri: str, experiment: str, prefix: str) -> None:
        self.uri = uri
        self.prefix = prefix
        with refusals(uri):
            self._client = connect(uri)
            self._experiment_id = find_experiment(self._client, experiment)

    def all(self) -> list[Record]:
        """The oldest first."""
        return sorted(self._all(), key=lambda record: self._started[record.run_id])

    def begin(self, kind: str, before: Mapping[str, int], known: str = "", used: Used | None = None) -> Record:
        """A new open record, there as a whole or not at all."""
        text = (used or Used()).to_text()
        tags = {_RECORD: kind, _PREFIX: self.prefix, _BEFORE: json.dumps(before), _KNOWN: known}
        for start in range(0, len(text), _TAG_LENGTH):
            tags[f"{_USED}.{start // _TAG_LENGTH}"] = text[start : start + _TAG_LENGTH]
        name = f"{kind} {text_hash(json.dumps([tags, time.time()]))[:8]}"
        with refusals(self.uri):
            run = self._client.create_run(self._experiment_id, tags=tags, run_name=name)
        return _record(run)

    def end(self, record: Record, ending: Ending) -> None:
        """Writes all that there is to say; the tag that makes it a decision comes last."""
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        with refusals(self.uri):
            self._client.log_batch(
                record.run_id,
                metrics=[Metric(name, value, now, 0) for name, value in ending.metrics.items()],
                params=[Param(name, str(value)[:6000]) for name, value in ending.params.items()],
                tags=[
                    RunTag(_AFTER, json.dumps(ending.after)),
                    RunTag(_REFERENCE, ending.reference),
                    RunTag(_SPENT, str(ending.spent).lower()),
                ],
            )
            if ending.document:
                self._client.log_text(record.run_id, json.dumps(ending.document, indent=1), "decision.json")
            self._client.set_terminated(record.run_id, "FINISHED")
            self._client.set_tag(record.run_id, _DECISION, ending.decision)

    def _all(self) -> Iterator[Record]:
        self._started: dict[str, int] = {}
        wanted = f"tags.`{_PREFIX}` = '{self.prefix}' and tags.`{_RECORD}` != ''"
        token = None
        while True:
            with refusals(self.uri):
                page = self._client.search_runs([self._experiment_id], wanted, page_token=token)
            for run in page:
                self._started[run.info.run_id] = run.info.start_time
                yield _record(run)
            token = page.token
            if not token:
                return


def _record(run: Any) -> Record:
    tags: dict[str, str] = run.data.tags
    pieces = sum(name.startswith(f"{_USED}.") for name in tags)
    try:
        return Record(
            run_id=str(run.info.run_id),
            kind=tags[_RECORD],
            used=Used.parse("".join(tags[f"{_USED}.{number}"] for number in range(pieces))),
            before=json.loads(tags[_BEFORE]),
            after=json.loads(tags.get(_AFTER, "{}")),
            decision=tags.get(_DECISION, ""),
            known=tags.get(_KNOWN, ""),
            reference=tags.get(_REFERENCE, ""),
            spent=tags.get(_SPENT) != "false",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PipelineError(
            f"run {run.info.run_id} is no record of a decision that can be read ({type(error).__name__}: {error}): "
            "accepted are runs as recalibrate, rollback and export left them; delete it, or take another prefix"
        ) from error
