"""The work of one pass, without MLflow: measure the champion, and where it drifted search and prove a challenger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from judges.ledger.budget import Usage
from judges.ledger.ledger_lm import LedgerLM
from judges.program import JudgeSuite
from labeled_traces.split import LeakageError
from pipeline.chain import STAGE_REPEATS, unsearchable
from pipeline.cost import announce
from pipeline.evaluate import EvaluateSettings, EvaluationStopped, check_replies, evaluate, save_judgments
from pipeline.export.reference import Reference
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import suite_metrics
from pipeline.metrics.table import match_judgments
from pipeline.prepare import Run, Say, prepare
from pipeline.prove import prove
from pipeline.recalibration.config import CHAMPION, DATA, LEDGER, SPLIT, RecalibrationConfig
from pipeline.recalibration.drift import find_drift
from pipeline.recalibration.labels import PassLabels
from pipeline.recalibration.report import gate_lines
from pipeline.report.details import Details
from pipeline.report.page import write_report
from pipeline.results import HEADLINE, Result
from pipeline.run import REPORT, VALIDATION, testset_cost, tuning_cost
from pipeline.tune import tune, useless_reflection
from pipeline.validate import Verdict


class Decision(StrEnum):
    NOTHING_NEW = "nothing new"
    NEEDS_LABELS = "needs labels"
    BASELINE = "baseline"
    FINE = "fine"
    KEPT = "kept"
    PROMOTED = "promoted"


@dataclass(frozen=True)
class Work:
    """`champion` is to be measured on the fresh `labels`, a challenger to be tuned and proved on all of them, as they
    are split; what the champion was promoted with is in `reference` (None: nobody knows). `folder` keeps everything:
    the same work again goes on where it was stopped."""

    config: RecalibrationConfig
    champion: JudgeSuite
    reference: Reference | None
    labels: PassLabels
    folder: Path


@dataclass(frozen=True)
class Decided:
    """`PROMOTED` means here: is to be promoted. `measured`: the champion on the development part of the new labels;
    `reference`: what the champion of from now on is to be compared with. `result`: the gate, where it was reached."""

    decision: Decision
    reasons: tuple[str, ...]
    measured: Mapping[str, Estimate]
    reference: Reference
    usage: Usage
    drifted: tuple[str, ...] = ()
    challenger: JudgeSuite | None = None
    result: Result | None = None
    parts: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        result = self.result
        return {
            "decision": str(self.decision),
            "reasons": list(self.reasons),
            "drifted": list(self.drifted),
            "measured": {name: value.to_json() for name, value in self.measured.items()},
            "parts": dict(self.parts),
            "verdict": result and result.verdict,
            "labels_needed": result and result.labels_needed,
            "gate": result and result.to_json(),
            "calls": self.usage.calls,
            "tokens": self.usage.tokens,
            "cost": self.usage.dollars,
        }


def decide(work: Work, say: Say) -> Decided:
    """
    Raises:
        PipelineError, JudgeError, TraceError: bad input, before the first call.
        LeakageError: a text of the champion was copied from a held-out trace.
        BudgetExhausted, LMError: as their names say; the same work goes on from there.
    """
    work.folder.mkdir(parents=True, exist_ok=True)
    work.labels.dataset.save(work.folder / DATA)
    work.labels.manifest.save(work.folder / SPLIT)
    work.champion.save(work.folder / CHAMPION)
    run = prepare(work.config.experiment(work.folder, tuple(work.champion.programs)), say)
    # Of the pass, so that no change of its settings brings it a new budget.
    with run.open_lm(work.folder / LEDGER) as lm:
        announce(tuning_cost(run, work.config.drift.repeats) + testset_cost(run), lm.budget, say)
        measured = _measure(run, work, lm)
        return _decide(run, work, measured, lm, say)


def _decide(run: Run, work: Work, measured: Mapping[str, Estimate], lm: LedgerLM, say: Say) -> Decided:
    now = Reference.of(run.matcher.name, measured)
    parts = {name: len(ids) for name, ids in run.manifest.parts.items()}

    def decided(decision: Decision, reasons: tuple[str, ...], reference: Reference, **more: Any) -> Decided:
        return Decided(decision, reasons, measured, reference, lm.spent(), parts=parts, **more)

    if work.reference is None or work.reference.matcher != run.matcher.name:
        reason = "it was not known how good the champion was, by this matcher: it is now"
        return decided(Decision.BASELINE, (reason,), now)
    drift = find_drift(measured, work.reference, work.config.drift)
    for line in drift.reasons:
        say(line)
    if not drift.drifted:
        return decided(Decision.FINE, drift.reasons, work.reference)
    if why := unsearchable(run, lm):
        return decided(
            Decision.KEPT, (*drift.reasons, "nothing can be searched", *why), work.reference, drifted=drift.drifted
        )
    tuned = tune(run, lm, say)
    more: dict[str, Any] = {"drifted": drift.drifted, "challenger": tuned}
    if tuned.hash == run.suite.hash:
        useless = useless_reflection(run.folder.summary() or {"searches": []})
        found = useless or "the search found no better judges"
        reasons = (*drift.reasons, f"{found}; the held-out labels were not touched")
        return decided(Decision.KEPT, reasons, work.reference, **more)
    try:
        result = prove(run, tuned, lm, say)
    except LeakageError as error:
        # Before anything is read. The same pass would come to the same end again, for ever.
        reasons = (*drift.reasons, f"the challenger cannot be tested: {error}; the held-out labels were not touched")
        return decided(Decision.KEPT, reasons, work.reference, **more)
    run.folder.write_sealed(VALIDATION, result.to_json())
    write_report(result, run.folder[REPORT], Details.of(run, tuned))
    reasons = (*drift.reasons, *gate_lines(result))
    if result.verdict != Verdict.PASS:
        return decided(Decision.KEPT, reasons, work.reference, result=result, **more)
    reference = Reference.of(run.matcher.name, result.sides["tuned"].metrics)
    return decided(Decision.PROMOTED, reasons, reference, result=result, **more)


def _measure(run: Run, work: Work, lm: LedgerLM) -> dict[str, Estimate]:
    """The champion on the fresh rows of the development part, by readings that no stage of the search repeats. The
    held-out part is not looked at: whether to search must not depend on it."""
    rows = [row for row in run.development_rows if row.trace_id in work.labels.fresh]
    settings = EvaluateSettings(
        repeats=work.config.drift.repeats,
        first_repeat=(len(run.steps) + 2) * STAGE_REPEATS,
        concurrency=run.config.judges.concurrency,
        seed=run.config.seed,
        progress="champion",
    )
    path = run.folder.judgments("champion")
    try:
        judgments = evaluate(run.suite, rows, lm, settings)
    except EvaluationStopped as stop:
        save_judgments(path, stop.judgments)
        raise
    save_judgments(path, judgments)
    check_replies(judgments)
    table = match_judgments(rows, run.suite.rule.apply(judgments), run.matcher)
    metrics = suite_metrics(table, MetricSettings(seed=run.config.seed))
    wanted = dict.fromkeys([*HEADLINE, "f1", *work.config.drift.metrics, "scored_share"])
    return {name: metrics[name] for name in wanted}
