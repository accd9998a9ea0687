"""One experiment end to end: prepare, tune, prove, report. Stopped anywhere, the same call goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from judges.ledger.budget import Usage
from judges.ledger.ledger_lm import LedgerLM
from judges.models.connect import check_keys
from judges.models.limits import Limits
from judges.program import JudgeSuite
from pipeline.chain import unsearchable
from pipeline.config import ExperimentConfig, PipelineError
from pipeline.consent import Consent
from pipeline.cost import Cost, announce, suite_cost, uncounted_cost
from pipeline.pace import tell_limits
from pipeline.prepare import Run, Say, asked_by_run, models_of, prepare, reopen
from pipeline.prove import prove
from pipeline.report.details import Details
from pipeline.report.page import write_report
from pipeline.results import Result
from pipeline.run_folder import RunFolder, load_tuned
from pipeline.run_tracking import log_result, log_tuned, tracked
from pipeline.step_selection import selection_calls
from pipeline.tracking import Tracker
from pipeline.tune import check_tuned, tune

VALIDATION = "validation.json"
REPORT = "report.html"


def run_experiment(config: ExperimentConfig, say: Say) -> Result:
    """Everything: data to verdict.

    Raises:
        PipelineError, JudgeError, TraceError: bad input, before the first call.
        LeakageError: the testset would reach an optimiser or a prompt.
        BudgetExhausted, LMError: as their names say; what was paid is kept, and the same call resumes the run.
    """
    run = _prepared(config, say)
    with run.open_lm() as lm:
        _announce(run, tuning_cost(run) + testset_cost(run), lm, say, included=True)
        with tracked(run) as tracker:
            tuned = _tune(run, lm, tracker, say)
            return _prove(run, tuned, lm, tracker, say)


def optimize(config: ExperimentConfig, say: Say, agreed: bool = False) -> tuple[Run, JudgeSuite, Usage]:
    """Up to the tuned programs, with what was spent; the testset is not touched. `agreed`: whatever it is expected to
    cost. Raises as `run_experiment`."""
    run = _prepared(config, say)
    with run.open_lm() as lm:
        _announce(run, tuning_cost(run), lm, say, agreed, included=True)
        with tracked(run) as tracker:
            return run, _tune(run, lm, tracker, say), lm.spent()


def validate_run(
    path: Path,
    say: Say,
    caps: Mapping[str, float] | None = None,
    ask_above: float | None = None,
    agreed: bool = False,
) -> Result:
    """The verdict on a run that `optimize` has tuned. `caps` replace those of the run's budget, `ask_above` the run's.
    `agreed`: whatever it is expected to cost. Raises as `run_experiment`."""
    folder, config = RunFolder.open(path)
    update: dict[str, Any] = {"budget": config.budget.model_copy(update=caps)}
    config = config.model_copy(update=update if ask_above is None else update | {"ask_above": ask_above})
    run = reopen(folder, config, say)
    tuned = load_tuned(run.folder)
    check_tuned(run)
    with run.open_lm() as lm:
        if tuned.hash != run.suite.hash:
            _announce(run, testset_cost(run), lm, say, agreed)
        with tracked(run) as tracker:
            return _prove(run, tuned, lm, tracker, say)


def tuning_cost(run: Run, more: int = 0) -> Cost:
    """What the searches, the selection among their steps, the rule's readings and `more` readings of the development
    split may cost, if nothing of it is in the ledger yet."""
    rows = list(run.development_rows)
    # The most judge calls that one dimension's searches may take; an optimizer without settings takes none.
    calls = sum(getattr(getattr(step.optimizer, "settings", None), "max_calls", 0) for step in run.steps)
    readings = (calls + selection_calls(run)) / len(rows) + (run.config.rule.repeats if run.config.rule.enabled else 0)
    cost = suite_cost(run.suite, rows, readings + more, models_of(run.config))
    asked = {step.reflection_model for step in run.steps if step.reflects}
    return sum((uncounted_cost(model, models_of(run.config)) for model in sorted(asked)), cost)


def testset_cost(run: Run) -> Cost:
    """What the testset's readings may cost: by generic, tuned and holistic judges."""
    rows, repeats = list(run.manifest.testset_of(run.dataset)), run.config.validation.repeats
    cost = suite_cost(run.suite, rows, 2 * repeats, models_of(run.config))
    return cost if run.holistic is None else cost + suite_cost(run.holistic, rows, repeats, models_of(run.config))


def _prepared(config: ExperimentConfig, say: Say) -> Run:
    """
    Raises:
        PipelineError, JudgeError, TraceError, LeakageError: as `prepare`; or nothing can be searched.
    """
    run = prepare(config, say)
    with run.open_lm() as lm:
        if why := unsearchable(run, lm):
            lines = "".join(f"\n  {line}" for line in why)
            raise PipelineError(
                f"nothing can be searched, so nothing was spent: accepted are more labelled traces, or other "
                f"search.settings (min_labels, max_calls){lines}"
            )
    return run


def _announce(run: Run, cost: Cost, lm: LedgerLM, say: Say, agreed: bool = False, *, included: bool = False) -> None:
    say(f"run: {run.folder.path}")
    asked = asked_by_run(run.steps, run.suite)
    if not lm.kept():
        check_keys(asked)
    tell_limits(cost, Limits(**run.config.limits.model_dump()), say)
    consent = Consent(run.config.ask_above, agreed)
    announce(cost, lm.budget, say, consent, asked, lm.spent(), included)
    if kept := lm.kept():
        say(f"resumed: {kept:,} calls were made before and are not made again")


def _tune(run: Run, lm: LedgerLM, tracker: Tracker | None, say: Say) -> JudgeSuite:
    tuned = tune(run, lm, say)
    if tracker is not None:
        log_tuned(tracker, run, tuned)
    return tuned


def _prove(run: Run, tuned: JudgeSuite, lm: LedgerLM, tracker: Tracker | None, say: Say) -> Result:
    result = prove(run, tuned, lm, say)
    run.folder.write_sealed(VALIDATION, result.to_json())
    write_report(result, run.folder[REPORT], Details.of(run, tuned))
    if tracker is not None:
        log_result(tracker, run, result)
    return result
