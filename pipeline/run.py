"""One experiment end to end: prepare, tune, prove, report. Stopped anywhere, the same call goes on from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from judges.budget import Budget, Price, Usage
from judges.connect import Models
from judges.ledger import LedgerLM
from judges.program import JudgeSuite
from pipeline.config import ExperimentConfig, PipelineError
from pipeline.cost import Cost, suite_cost
from pipeline.metrics.estimate import Estimate
from pipeline.prepare import Run, Say, prepare, reopen
from pipeline.prove import prove
from pipeline.report.page import write_report
from pipeline.results import Result
from pipeline.run_folder import ARTIFACTS, RunFolder
from pipeline.tracking import Tracker
from pipeline.tune import METRICS, load_tuned, tune

VALIDATION = "validation.json"
REPORT = "report.html"


def run_experiment(config: ExperimentConfig, say: Say) -> Result:
    """Everything: data to verdict.

    Raises:
        PipelineError, JudgeError, TraceError: bad input, before the first call.
        LeakageError: the testset would reach an optimiser or a prompt.
        BudgetExhausted, LMError: as their names say; what was paid is kept, and the same call resumes the run.
    """
    run = prepare(config, say)
    with _tracked(run) as tracker, run.open_lm() as lm:
        _announce(run, say)
        tuned = _tune(run, lm, tracker, say)
        return _prove(run, tuned, lm, tracker, say)


def optimize(config: ExperimentConfig, say: Say) -> tuple[Run, JudgeSuite, Usage]:
    """Up to the tuned programs, with what was spent; the testset is not touched. Raises as `run_experiment`."""
    run = prepare(config, say)
    with _tracked(run) as tracker, run.open_lm() as lm:
        _announce(run, say)
        return run, _tune(run, lm, tracker, say), lm.spent()


def validate_run(path: Path, say: Say) -> Result:
    """The verdict on a run that `optimize` has tuned. Raises as `run_experiment`."""
    run = reopen(*RunFolder.open(path), say)
    tuned = load_tuned(run.folder)
    with _tracked(run) as tracker, run.open_lm() as lm:
        return _prove(run, tuned, lm, tracker, say)


def plan_cost(run: Run) -> Cost:
    """What the whole run may cost at most, if nothing of it is in the ledger yet."""
    config = run.config
    models = Models(Price.parse(config.prices), config.judges.timeout)
    development, testset = list(run.development_rows), list(run.manifest.testset_of(run.dataset))
    # The most judge calls that one dimension's search may take; an optimizer without settings takes none.
    searched = getattr(getattr(run.optimizer, "settings", None), "max_calls", 0)
    readings = searched / len(development) + (config.rule.repeats if config.rule.enabled else 0)
    cost = suite_cost(run.suite, development, readings, models)
    cost += suite_cost(run.suite, testset, 2 * config.validation.repeats, models)
    if run.holistic is not None:
        cost += suite_cost(run.holistic, testset, config.validation.repeats, models)
    return cost


def _announce(run: Run, say: Say) -> None:
    say(f"run: {run.folder.path}")
    say(plan_cost(run).in_words(Budget(**run.config.budget.model_dump())))


def _tune(run: Run, lm: LedgerLM, tracker: Tracker | None, say: Say) -> JudgeSuite:
    tuned = tune(run, lm, say)
    if tracker is not None:
        metrics = run.folder.read_json(METRICS)
        tracker.log(metrics=_numbers("development", metrics.get("development", {})))
    return tuned


def _prove(run: Run, tuned: JudgeSuite, lm: LedgerLM, tracker: Tracker | None, say: Say) -> Result:
    result = prove(run, tuned, lm, say)
    run.folder.write_json(VALIDATION, result.to_json())
    write_report(result, run.folder[REPORT])
    if tracker is not None:
        metrics: dict[str, float | None] = {}
        for name, side in result.sides.items():
            metrics |= _bounds(name, side.metrics)
        metrics |= _bounds("difference", result.differences)
        usage = {"calls": float(result.usage.calls), "tokens": float(result.usage.tokens), "cost": result.cost}
        tracker.log(metrics={**metrics, **usage}, tags={"verdict": result.verdict, "test_uses": result.test_uses})
    return result


@contextmanager
def _tracked(run: Run) -> Iterator[Tracker | None]:
    """The MLflow run around the work, where one is wanted; it ends with what the folder holds, also after an error."""
    settings = run.config.tracking
    if not settings.enabled:
        yield None
        return
    tracker = Tracker.open(run.folder.path, settings, run.config.output, run.folder.name)
    tracker.log(params=_params(run), tags={"simulated": str(run.simulated).lower(), "run_dir": run.folder.path})
    try:
        yield tracker
    except BaseException:
        with suppress(PipelineError):
            tracker.finish(run.folder.path, ARTIFACTS, failed=True)
        raise
    tracker.finish(run.folder.path, ARTIFACTS)


def _params(run: Run) -> dict[str, Any]:
    hashes = {
        "data_hash": run.dataset.hash,
        "split_hash": run.manifest.hash,
        "seed_suite_hash": run.suite.hash,
        "model": run.model,
    }
    values = run.config.model_dump(mode="json", exclude={"output", "budget", "tracking", "prices"})
    return {**_flat(values), **hashes}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        elif value is not None:
            flat[f"{prefix}{key}"] = value
    return flat


def _bounds(name: str, metrics: Mapping[str, Estimate]) -> dict[str, float | None]:
    """`coverage/tuned`, and its bounds as `coverage/tuned/low` and `/high`."""
    return _numbers(name, {metric: estimate.to_json() for metric, estimate in metrics.items()})


def _numbers(name: str, metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, float | None]:
    numbers: dict[str, float | None] = {}
    for metric, estimate in metrics.items():
        numbers[f"{metric}/{name}"] = estimate["value"]
        numbers |= {f"{metric}/{name}/{bound}": estimate[bound] for bound in ("low", "high")}
    return numbers
