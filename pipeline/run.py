"""One experiment end to end: prepare, tune, prove, report. Stopped anywhere, the same call goes on from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from judges.budget import Price, Usage
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
from pipeline.run_folder import ARTIFACTS, METRICS, RunFolder, load_tuned
from pipeline.step_selection import selection_calls
from pipeline.tracking import Tracker
from pipeline.tune import check_split, tune

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
        _announce(run, tuning_cost(run) + testset_cost(run), lm, say)
        tuned = _tune(run, lm, tracker, say)
        return _prove(run, tuned, lm, tracker, say)


def optimize(config: ExperimentConfig, say: Say) -> tuple[Run, JudgeSuite, Usage]:
    """Up to the tuned programs, with what was spent; the testset is not touched. Raises as `run_experiment`."""
    run = prepare(config, say)
    with _tracked(run) as tracker, run.open_lm() as lm:
        _announce(run, tuning_cost(run), lm, say)
        return run, _tune(run, lm, tracker, say), lm.spent()


def validate_run(path: Path, say: Say) -> Result:
    """The verdict on a run that `optimize` has tuned. Raises as `run_experiment`."""
    run = reopen(*RunFolder.open(path), say)
    tuned = load_tuned(run.folder)
    check_split(run)
    with _tracked(run) as tracker, run.open_lm() as lm:
        _announce(run, testset_cost(run), lm, say)
        return _prove(run, tuned, lm, tracker, say)


def tuning_cost(run: Run) -> Cost:
    """What the searches, the selection among their steps and the rule's readings may cost, if nothing of it is in the
    ledger yet."""
    rows = list(run.development_rows)
    # The most judge calls that one dimension's searches may take; an optimizer without settings takes none.
    calls = sum(getattr(getattr(step.optimizer, "settings", None), "max_calls", 0) for step in run.steps)
    readings = (calls + selection_calls(run)) / len(rows) + (run.config.rule.repeats if run.config.rule.enabled else 0)
    return suite_cost(run.suite, rows, readings, _models(run))


def testset_cost(run: Run) -> Cost:
    """What the testset's readings may cost: by generic, tuned and holistic judges."""
    rows, repeats = list(run.manifest.testset_of(run.dataset)), run.config.validation.repeats
    cost = suite_cost(run.suite, rows, 2 * repeats, _models(run))
    return cost if run.holistic is None else cost + suite_cost(run.holistic, rows, repeats, _models(run))


def _models(run: Run) -> Models:
    return Models(Price.parse(run.config.prices), run.config.judges.timeout)


def _announce(run: Run, cost: Cost, lm: LedgerLM, say: Say) -> None:
    say(f"run: {run.folder.path}")
    say(cost.in_words(lm.budget))
    if spent := lm.spent().calls:
        say(f"resumed: {spent:,} calls were made before and are not made again")


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
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            flat |= _flat({str(number): row for number, row in enumerate(value)}, f"{prefix}{key}.")
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
