"""Stages 2 and 3 of a run: every dimension's program is searched, then the decision rule by replay."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from judges.judgment import Judgment
from judges.lm import LM, BudgetExhausted
from judges.program import JudgeSuite
from labeled_traces.files import write_lines
from labeled_traces.trace import TraceError
from pipeline.config import PipelineError
from pipeline.evaluate import EvaluateSettings, EvaluationStopped, check_replies, evaluate, save_judgments
from pipeline.metrics.suite import suite_metrics
from pipeline.metrics.table import match_judgments
from pipeline.optimizers.base import OptimizationResult, SearchContext
from pipeline.prepare import Run, Say
from pipeline.rule_search import RuleResult, search_rule
from pipeline.run_folder import RunFolder

METRICS = "metrics.json"
TUNED = "tuned"
FRESH_REPEATS = 1000
"""Repeats from here on belong to the rule's readings: no search gets so far, so they are fresh."""


def tune(run: Run, lm: LM, say: Say) -> JudgeSuite:
    """Searches every dimension on the development split, then the rule; writes programs, trials and metrics.json.

    Raises:
        BudgetExhausted: the budget ended; what was found so far is in the folder, `metrics.json` is not.
        LMError: no call succeeded.
    """
    suite, results = _search(run, lm, say)
    summary: dict[str, Any] = {"dimensions": {name: _summary(result) for name, result in results.items()}}
    if run.config.rule.enabled:
        result, judgments = _rule(run, suite, lm, say)
        suite = replace(suite, rule=result.rule)
        suite.save(run.folder.programs(TUNED))
        table = match_judgments(list(run.development_rows), suite.rule.apply(judgments), run.matcher)
        summary["rule"] = {**asdict(result), "rule": result.rule.to_json()}
        summary["development"] = {name: value.to_json() for name, value in suite_metrics(table).items()}
    run.folder.write_json(METRICS, summary)
    return suite


def load_tuned(folder: RunFolder) -> JudgeSuite:
    """What `tune` wrote.

    Raises:
        PipelineError: tuning has not ended in this folder.
    """
    try:
        if folder.read_json(METRICS) is not None:
            return JudgeSuite.load(folder.programs(TUNED))
    except TraceError as error:
        raise PipelineError(f"{folder[METRICS]} is damaged: start `gpa-judges optimize` again ({error})") from error
    raise PipelineError(
        f"tuning has not ended in {folder.path}: start `gpa-judges optimize {folder['config.yaml']}` again; "
        "what was paid is not paid again"
    )


def _search(run: Run, lm: LM, say: Say) -> tuple[JudgeSuite, dict[str, OptimizationResult]]:
    development = run.manifest.development(run.dataset)
    context = SearchContext(
        lm=lm,
        matcher=run.matcher,
        reflection_model=run.reflection_model,
        reflection_endpoint=run.reflection_endpoint,
        evaluate=EvaluateSettings(concurrency=run.config.judges.concurrency, seed=run.config.seed),
        seed=run.config.seed,
        locked=frozenset(run.manifest.testset),
    )
    suite = run.suite
    results: dict[str, OptimizationResult] = {}
    for number, (name, program) in enumerate(run.suite.programs.items(), 1):
        result = run.optimizer.optimize(program, development, context)
        results[name] = result
        suite = suite.with_program(result.program)
        suite.save(run.folder.programs(TUNED))
        _save_trials(run, results)
        say(f"optimize {number}/{len(run.suite.programs)} {name}: {result.reason} (ended: {result.stop_reason})")
        for warning in result.warnings:
            say(f"  warning: {warning}")
        if result.exhausted:
            raise BudgetExhausted(f"the budget ended in the search of {name}: {result.stop_reason}")
    return suite, results


def _rule(run: Run, suite: JudgeSuite, lm: LM, say: Say) -> tuple[RuleResult, list[Judgment]]:
    rows = list(run.development_rows)
    settings = EvaluateSettings(
        repeats=run.config.rule.repeats,
        first_repeat=FRESH_REPEATS,
        concurrency=run.config.judges.concurrency,
        seed=run.config.seed,
        progress="decision rule",
    )
    path = run.folder.judgments("development-tuned")
    try:
        judgments = evaluate(suite, rows, lm, settings)
    except EvaluationStopped as stop:
        save_judgments(path, stop.judgments)
        raise
    save_judgments(path, judgments)
    check_replies(judgments)
    result = search_rule(judgments, rows, run.matcher)
    say(f"decision rule: {result.reason}")
    return result, judgments


def _save_trials(run: Run, results: dict[str, OptimizationResult]) -> None:
    lines = [json.dumps(row, ensure_ascii=True) for name, result in results.items() for row in _trials(name, result)]
    write_lines(run.folder["trials.jsonl"], lines)


def _trials(dimension: str, result: OptimizationResult) -> Sequence[dict[str, Any]]:
    return [
        {
            "dimension": dimension,
            "number": trial.number,
            "program": trial.program and trial.program.hash,
            "parent": trial.parent,
            "accepted": trial.accepted,
            "reason": trial.reason,
            "scores": dict(trial.scores),
            "gain": trial.gain,
            "calls": trial.calls,
            "parts": None if trial.program is None else trial.program.parts,
        }
        for trial in result.trials
    ]


def _summary(result: OptimizationResult) -> dict[str, Any]:
    return {
        "program": result.program.hash,
        "improved": result.improved,
        "reason": result.reason,
        "stop_reason": result.stop_reason,
        "optimizer": result.optimizer,
        "versions": dict(result.versions),
        "gain": result.gain and result.gain.to_json(),
        "trials": len(result.trials),
        "accepted": dict(Counter(trial.accepted for trial in result.trials)).get(True, 0),
        "judge_calls": result.judge_calls,
        "reflection_calls": result.reflection_calls,
        "warnings": list(result.warnings),
    }
