"""What of a run goes to MLflow: its settings as params, its hashes, a few of its numbers, and its files.

A metric is called `<metric>/<whose>`, and its 95 % bounds `<metric>/<whose>/low` and `/high`. Whose: `seed`, `tuned`,
`holistic` and the controls on the testset, `difference` (tuned - seed, there), and `development` (the tuned judges on
the traces that they were tuned on). MLflow's pages group by what stands before the slash. All other numbers are in the
files: metrics.json, validation.json and the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from judges.program import JudgeSuite
from labeled_traces.trace import text_hash
from pipeline.config import PipelineError
from pipeline.metrics.estimate import Estimate
from pipeline.prepare import Run
from pipeline.results import HEADLINE, SIDES, Result
from pipeline.run_folder import ARTIFACTS, METRICS
from pipeline.tracking import Tracker

_SHOWN = (*HEADLINE, "f1", "froc_area", "scored_share")


@contextmanager
def tracked(run: Run) -> Iterator[Tracker | None]:
    """The MLflow run around the work, where one is wanted; it ends with what the folder holds, also after an error."""
    settings = run.config.tracking
    if not settings.enabled:
        yield None
        return
    tracker = Tracker.open(run.folder.path, settings, run.config.output, run.folder.name)
    tags = {"simulated": str(run.simulated).lower(), "run_dir": run.folder.path, "code_hash": code_hash()}
    tracker.log(params=_params(run), tags=tags)
    try:
        yield tracker
    except BaseException:
        with suppress(PipelineError):
            tracker.finish(run.folder.path, ARTIFACTS, failed=True)
        raise
    tracker.finish(run.folder.path, ARTIFACTS)


def log_tuned(tracker: Tracker, run: Run, tuned: JudgeSuite) -> None:
    """The judges that were found are a tag, not a param, which could not follow a search that went on."""
    development = (run.folder.read_json(METRICS) or {}).get("development", {})
    found = {name: Estimate(**development[name]) for name in _shown(run) if name in development}
    tracker.log(metrics=_named("development", found), tags={"tuned_suite_hash": tuned.hash})


def log_result(tracker: Tracker, run: Run, result: Result) -> None:
    metrics: dict[str, float | None] = {}
    for name, side in result.sides.items():
        # Of a control nothing counts but that it is beaten.
        wanted = _shown(run) if name in SIDES else (run.gates.primary,)
        metrics |= _named(name, {metric: side.metrics[metric] for metric in wanted}, bounds=name == "tuned")
    differences = {name: result.differences[name] for name in _shown(run) if name in result.differences}
    metrics |= _named("difference", differences, bounds=True)
    metrics |= {"calls": float(result.usage.calls), "tokens": float(result.usage.tokens), "cost": result.cost}
    tracker.log(metrics=metrics, tags={"verdict": result.verdict, "test_uses": result.test_uses})


@cache
def code_hash() -> str:
    """Of the sources and prompts that ran."""
    root = Path(__file__).parent.parent
    files = sorted(
        path
        for package in ("labeled_traces", "judges", "pipeline")
        for path in (root / package).rglob("*")
        if path.suffix in {".py", ".md", ".yaml"}
    )
    return text_hash("\n".join(f"{path.relative_to(root)} {text_hash(path.read_text('utf-8'))}" for path in files))[:16]


def _shown(run: Run) -> tuple[str, ...]:
    """The metrics of the tables, and those that this run's gates look at."""
    return tuple(dict.fromkeys((*_SHOWN, run.gates.primary, *run.gates.margins)))


def _named(whose: str, metrics: Mapping[str, Estimate], *, bounds: bool = False) -> dict[str, float | None]:
    numbers: dict[str, float | None] = {}
    for name, estimate in metrics.items():
        numbers[f"{name}/{whose}"] = estimate.value
        if bounds:
            numbers |= {f"{name}/{whose}/low": estimate.low, f"{name}/{whose}/high": estimate.high}
    return numbers


def _params(run: Run) -> dict[str, Any]:
    """The experiment file, with the defaults of the optimizers and gates in full, and what it was run on."""
    values = run.config.model_dump(mode="json", exclude={"output", "budget", "tracking", "prices", "ask_above"})
    values["search"] = [
        {
            "optimizer": step.optimizer.name,
            "reflection_model": step.reflection_model,
            "settings": asdict(settings) if (settings := getattr(step.optimizer, "settings", None)) else {},
        }
        for step in run.steps
    ]
    values["validation"]["gates"] = asdict(run.gates)
    hashes = {
        "data_hash": run.dataset.hash,
        "split_hash": run.manifest.hash,
        "seed_suite_hash": run.suite.hash,
        "model": run.model,
    }
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
