"""The folder of one run: what lies where in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from judges.decision import FILE_NAME as RULE_FILE
from judges.program import JudgeSuite
from judges.redact import HIDDEN, hide_in_uri
from labeled_traces.files import parse_json, read_lines, write_lines
from labeled_traces.trace import TraceError, text_hash
from pipeline.config import ExperimentConfig, PipelineError
from pipeline.config_file import load_config
from pipeline.hints import command

METRICS = "metrics.json"
SPLIT = "split.json"
PLACES = "places.json"
"""Hashes of the contents and the tasks of what was split: they say what a run used when its data is gone."""
SEED = "seed"
"""The judges that tuning starts from: the champion."""
TUNED = "tuned"
SEAL = "hash"
JUDGES, MANIFEST = "judges", "manifest.json"
"""What `gpa-judges export --to folder` writes: the judges, and what they are."""
ARTIFACTS = (
    "config.yaml",
    "split.json",
    "programs",
    "trials.jsonl",
    "judgments",
    "metrics.json",
    "validation.json",
    "report.html",
)
"""What is uploaded to MLflow; the data and the ledger stay."""


@dataclass(frozen=True)
class RunFolder:
    path: Path

    @classmethod
    def of(cls, config: ExperimentConfig, hashes: Mapping[str, str | None]) -> RunFolder:
        """The folder of an experiment on this data with these judges: the same again is the same folder, so resumed.

        What changes no result (budget, limits, prices, ask_above, tracking, ledger, concurrency) does not count.
        """
        free = {"output", "budget", "limits", "prices", "ask_above", "tracking", "ledger"}
        content = config.model_dump(mode="json", exclude=free)
        for key in ("concurrency", "timeout"):
            del content["judges"][key]
        digest = text_hash(json.dumps([content, hashes], sort_keys=True))[:8]
        folder = cls(config.output / f"{config.name}-{digest}")
        folder.path.mkdir(parents=True, exist_ok=True)
        values = config.model_dump(mode="json")
        values["tracking"]["uri"] = config.tracking.uri and hide_in_uri(config.tracking.uri)
        folder.write_yaml("config.yaml", values)
        return folder

    @classmethod
    def open(cls, path: Path) -> tuple[RunFolder, ExperimentConfig]:
        """A run that `optimize` or `demo` made, wherever it lies now.

        Raises:
            PipelineError: not a run folder.
        """
        if not (path / "config.yaml").is_file():
            raise PipelineError(f"{path} is not a run: accepted is a folder that `gpa-judges optimize` or `demo` made")
        config = load_config(path / "config.yaml")
        tracking = config.tracking.model_copy(update={"uri": _whole(config.tracking.uri, path / "config.yaml")})
        config = config.model_copy(update={"tracking": tracking})
        path = path.absolute()
        return cls(path), config.model_copy(update={"output": path.parent})

    def __getitem__(self, name: str) -> Path:
        return self.path / name

    @property
    def ledger(self) -> Path:
        return self["ledger.sqlite"]

    @property
    def name(self) -> str:
        return self.path.name

    def programs(self, kind: str) -> Path:
        return self["programs"] / kind

    def suite(self, kind: str) -> JudgeSuite:
        """The judges in `programs/<kind>`, which the run wrote with their rule.

        Raises:
            PipelineError: there are none, or no rule.
            JudgeError: a program or the rule is damaged.
        """
        rule = self.programs(kind) / RULE_FILE
        if not rule.is_file():
            raise PipelineError(f"{rule} is missing: put it back, or start `gpa-judges optimize` again")
        return JudgeSuite.load(self.programs(kind))

    def judgments(self, name: str) -> Path:
        return self["judgments"] / f"{name}.jsonl"

    def write_json(self, name: str, value: Any) -> None:
        write_lines(self[name], [json.dumps(value, indent=1, ensure_ascii=True, allow_nan=False)])

    def write_yaml(self, name: str, value: Any) -> None:
        write_lines(self[name], [yaml.safe_dump(value, sort_keys=False)])

    def read_json(self, name: str) -> Any:
        """What `write_json` wrote, None where it has not yet."""
        if not self[name].is_file():
            return None
        return parse_json("\n".join(line for _, line in read_lines(self[name])), str(self[name]))

    def write_sealed(self, name: str, value: Mapping[str, Any]) -> None:
        """`write_json`, with a hash that tells a later reader of any change by hand."""
        self.write_json(name, {**value, SEAL: _seal(value)})

    def read_sealed(self, name: str) -> dict[str, Any] | None:
        """What `write_sealed` wrote, None where it has not yet.

        Raises:
            PipelineError: it was changed since.
        """
        found = self.read_json(name)
        if found is not None and not (isinstance(found, dict) and found.pop(SEAL, None) == _seal(found)):
            raise PipelineError(
                f"{self[name]} was changed after it was written ({SEAL}): accepted is what "
                f"`{command('validate', self.path)}` writes (again; what was paid is not paid again)"
            )
        return found

    def summary(self) -> dict[str, Any] | None:
        """What `tune` found, None where it has not ended.

        Raises:
            PipelineError: the file is damaged.
        """
        try:
            found = self.read_json(METRICS)
        except TraceError as error:
            raise self.damaged(METRICS, error) from error
        if found is not None and not (isinstance(found, dict) and isinstance(found.get("dimensions"), dict)):
            raise self.damaged(METRICS, "it holds no dimensions")
        return found

    def check_dimensions(self, kind: str, suite: JudgeSuite, names: Iterable[str]) -> None:
        """
        Raises:
            PipelineError: these judges of `programs/<kind>` are not those of the dimensions that were tuned.
        """
        if set(suite.programs) != set(names):
            raise PipelineError(
                f"{self.programs(kind)} holds judges of {', '.join(suite.programs)}, tuned were {', '.join(names)}: "
                "put them back, or start `gpa-judges optimize` again"
            )

    def damaged(self, name: str, what: object) -> PipelineError:
        return PipelineError(f"{self[name]} is damaged: start `gpa-judges optimize` again ({what})")


def load_tuned(folder: RunFolder) -> JudgeSuite:
    """What `tune` wrote.

    Raises:
        PipelineError: tuning has not ended in this folder, or judges or their rule are missing there.
        JudgeError: a judge or the rule is damaged.
    """
    summary = folder.summary()
    if summary is None:
        raise PipelineError(
            f"tuning has not ended in {folder.path}: start `{command('optimize', folder['config.yaml'])}` again; "
            "what was paid is not paid again"
        )
    suite = folder.suite(TUNED)
    folder.check_dimensions(TUNED, suite, summary["dimensions"])
    return suite


def open_judges(path: Path) -> JudgeSuite:
    """The judges in a folder of programs, in one that `gpa-judges export` wrote, or the tuned ones of a run.

    Raises:
        JudgeError, PipelineError: no judges, or tuning has not ended there.
    """
    if (path / "config.yaml").is_file():
        return load_tuned(RunFolder.open(path)[0])
    return JudgeSuite.load(path / JUDGES if (path / MANIFEST).is_file() else path)


def _seal(value: Mapping[str, Any]) -> str:
    return text_hash(json.dumps(value, sort_keys=True))


def _whole(uri: str | None, path: Path) -> str | None:
    """A tracking URI as it was before its password was hidden: no file keeps that, so it comes from the environment.

    Raises:
        PipelineError: it is not there.
    """
    if uri is None or HIDDEN not in uri:
        return uri
    whole = os.environ.get("MLFLOW_TRACKING_URI", "")
    if hide_in_uri(whole) != uri:
        raise PipelineError(
            f"{path}: the password of tracking.uri is kept nowhere: accepted is the whole URI in MLFLOW_TRACKING_URI"
        )
    return whole
