"""The tuned judges of a run, on their way to MLflow or to a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.models.connect import is_simulated
from judges.program import MLFLOW, JudgeSuite
from judges.redact import hide_in_uri
from pipeline.config import ExperimentConfig, PipelineError
from pipeline.export.exported import Exported, Provenance, versions_of
from pipeline.export.exports import begin_export, end_export, spent_by, used_by
from pipeline.export.records import Records
from pipeline.export.reference import REFERENCE, Reference
from pipeline.export.registry import CHALLENGER, CHAMPION, PREFIX, Registry
from pipeline.metrics.estimate import Estimate
from pipeline.prepare import Say, with_knobs
from pipeline.run import VALIDATION
from pipeline.run_folder import SEED, RunFolder, load_tuned
from pipeline.tracking import RUN_FILE, default_uri
from pipeline.validate import Verdict


@dataclass(frozen=True)
class TunedRun:
    """A run's tuned judges, the verdict on exactly these ("" where there is none), and how good they were then.

    `unchanged`: they are the judges that the search began with.
    """

    folder: RunFolder
    config: ExperimentConfig
    suite: JudgeSuite
    verdict: str
    reference: Reference | None = None
    unchanged: bool = False

    @classmethod
    def open(cls, path: Path) -> TunedRun:
        """
        Raises:
            PipelineError: no run, its tuning has not ended, or its verdict was changed after it was written.
        """
        folder, config = RunFolder.open(path)
        suite = load_tuned(folder)
        found = folder.read_sealed(VALIDATION) or {}
        same = found.get("provenance", {}).get("tuned judges") == suite.hash
        began = folder.programs(SEED)
        unchanged = began.is_dir() and JudgeSuite.load(began).hash == suite.hash
        if not same:
            return cls(folder, config, suite, "", unchanged=unchanged)
        measured = found.get("testset", {}).get("tuned", {})
        reference = Reference.of(
            found["provenance"].get("matcher", ""), {name: Estimate(row["value"]) for name, row in measured.items()}
        )
        return cls(folder, config, suite, str(found["verdict"]), reference if measured else None, unchanged)

    @property
    def simulated(self) -> bool:
        models = [program.knobs.model for program in self.suite.programs.values()]
        return self.config.data.simulated is not None or any(map(is_simulated, models))

    @property
    def cautions(self) -> tuple[str, ...]:
        """What whoever uses these judges has to know, one line each; none after a PASS."""
        lines = []
        if self.unchanged:
            which = (
                "the generic ones, as shipped" if self.config.judges.programs is None else "those of judges.programs"
            )
            lines.append(f"nothing was changed: the search found no better judges, so these are {which}")
        if not self.verdict:
            lines.append("not validated: nothing shows yet that these judges are better than those they came from")
        elif self.verdict != Verdict.PASS:
            lines.append(
                f"validated with {self.verdict}: the held-out traces do not show that these judges are better than "
                "those they came from"
            )
        return tuple(lines)


@dataclass(frozen=True)
class Target:
    """Where in MLflow the judges go; None: where the run itself was tracked. `model` and `endpoint`: what the judges
    shall run with, None: what they were tuned with. `again`: champions that were replaced become champions again."""

    uri: str | None = None
    experiment: str | None = None
    prefix: str = PREFIX
    model: str | None = None
    endpoint: str | None = None
    again: bool = False


@dataclass(frozen=True)
class MlflowExport:
    """What stands in the registry now. `notes` say, for people, what else there is to know."""

    uri: str
    experiment: str
    alias: str
    verdict: str
    judges: Mapping[str, Exported]
    notes: tuple[str, ...]
    unchanged: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "to": "mlflow",
            "tracking_uri": hide_in_uri(self.uri),
            "experiment": self.experiment,
            "alias": self.alias,
            "verdict": self.verdict or None,
            "unchanged": self.unchanged,
            "simulated": any(judge.simulated for judge in self.judges.values()),
            "judges": {name: _row(judge) for name, judge in self.judges.items()},
            "notes": list(self.notes),
        }


def export_to_mlflow(run: TunedRun, target: Target, say: Say) -> MlflowExport:
    """Registers the judges as challengers and, where the validation of exactly these says PASS, as champions.

    "Exactly these": a judge is proved in one layout, with one model. In another one it is a challenger.

    Raises:
        PipelineError: MLflow refuses; or, and nothing is written then, judges that it cannot hold or run, that this
            run made champions before and that were replaced since, or that would be champions beside ones with another
            decision rule.
    """
    suite = _as_it_will_run(run, target)
    proved = suite.hash == run.suite.hash
    uri = target.uri or run.config.tracking.uri or default_uri(run.config.output)
    experiment = target.experiment or run.config.tracking.experiment
    say(f"experiment {experiment} of MLflow at {uri}")
    registry = Registry(uri, experiment, target.prefix, create=True)
    verdict = run.verdict if proved else ""
    if verdict == Verdict.PASS:
        if not target.again:
            _check_not_replaced(registry, suite, run.folder.name)
        _check_one_rule(registry, suite)
    extra = {REFERENCE: run.reference.to_text()} if proved and run.reference else {}
    provenance = Provenance(run.folder.name, _run_id(run.folder, uri), verdict, run.simulated, extra)
    judges = registry.register(suite, provenance, say)
    notes = _notes(run, suite)
    before = versions_of(registry.champions())
    after = before | versions_of(judges) if verdict == Verdict.PASS else before
    used, unknown = used_by(run.folder, run.config)
    notes += [unknown] if unknown else []
    records = Records(uri, experiment, target.prefix)
    spent = spent_by(run.folder)
    record = begin_export(records, used, before, after, spent=spent)
    alias = CHALLENGER
    if verdict == Verdict.PASS:
        alias = CHAMPION
        judges = registry.promote(judges.values(), say)
    if record is not None:
        end_export(records, record, after, run.folder.name, spent=spent)
    return MlflowExport(uri, experiment, alias, verdict, judges, tuple(notes), run.unchanged)


def _check_not_replaced(registry: Registry, suite: JudgeSuite, run: str) -> None:
    """What took the place of this run's judges, or took them back, knew more than the run does."""
    for name, program in suite.programs.items():
        for judge in registry.versions(name):
            same = (judge.program.hash, judge.rule, judge.tags["run"]) == (program.hash, suite.rule, run)
            if same and registry.was_replaced(judge):
                raise PipelineError(
                    f"{judge.uri} of run {run} was champion and is not any more, because of a promotion or a rollback "
                    f"(now it is {registry.champions()[name].uri}): the same export would undo that. Accepted is a new "
                    "run, or --again to make these judges champions all the same"
                )


def _check_one_rule(registry: Registry, suite: JudgeSuite) -> None:
    """Champions are used together, and a suite has one decision rule: of a mix nothing could be scored any more."""
    champions = registry.champions()
    others = [judge for name, judge in champions.items() if name not in suite.programs and judge.rule != suite.rule]
    if others:
        together = dict.fromkeys([*suite.programs, *champions])
        raise PipelineError(
            f"these judges are of {', '.join(suite.programs)} alone, and their decision rule is not that of the "
            f"champions beside them ({', '.join(judge.uri for judge in others)}): scoring needs one rule for all. "
            f"Accepted is a run whose judges.dimensions are all of {', '.join(together)}, or another --name-prefix"
        )


def _as_it_will_run(run: TunedRun, target: Target) -> JudgeSuite:
    knobs = {"model": target.model, "endpoint": target.endpoint}
    if target.model is None:
        if any(is_simulated(program.knobs.model) for program in run.suite.programs.values()):
            raise PipelineError(
                f"the judges of {run.folder.path} were tuned on a simulated model, which MLflow cannot run: accepted "
                "are --model NAME, such as openai/gpt-5, or --to folder (--model simulated/default registers them all "
                "the same, marked as simulated, for gpa-judges alone)"
            )
    elif target.endpoint is None and any(p.knobs.model != target.model for p in run.suite.programs.values()):
        knobs["endpoint"] = ""
    given = {name: value for name, value in knobs.items() if value is not None}
    return with_knobs(run.suite, {**given, "layout": MLFLOW})


def _run_id(folder: RunFolder, uri: str) -> str:
    """The run in this MLflow, "" if it is in another one or in none."""
    try:
        saved = json.loads(folder[RUN_FILE].read_text(encoding="utf-8"))
        return str(saved["run_id"]) if saved["uri"] == hide_in_uri(uri) else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _notes(run: TunedRun, suite: JudgeSuite) -> list[str]:
    notes = list(run.cautions)
    before, after = (
        {(program.knobs.layout, program.knobs.model, program.knobs.endpoint) for program in judges.programs.values()}
        for judges in (run.suite, suite)
    )
    if run.verdict and before != after:
        changed = " and ".join(
            name
            for index, name in enumerate(("layout", "model", "endpoint"))
            if {knobs[index] for knobs in before} != {knobs[index] for knobs in after}
        )
        notes.append(
            f"the run's verdict ({run.verdict}) is of judges with another {changed}, so it is not of these: put "
            "`layout: mlflow` under `judges`, with the model that will run, and validate again"
        )
    endpoints = sorted({program.knobs.endpoint for program in suite.programs.values()} - {""})
    if endpoints:
        notes.append(
            f"MLflow keeps no endpoint: where it runs the judges, the environment must name {', '.join(endpoints)} "
            "(for openai:/ models as OPENAI_API_BASE)"
        )
    if any(is_simulated(program.knobs.model) for program in suite.programs.values()):
        notes.append("simulated: MLflow cannot run these judges, gpa-judges can")
    return notes


def _row(judge: Exported) -> dict[str, Any]:
    return {
        "prompt": judge.uri,
        "scorer": judge.scorer,
        "scorer_version": judge.scorer_version,
        "program": judge.program.hash,
        "model": judge.program.knobs.model,
    }
