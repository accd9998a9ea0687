"""Stages 2 and 3 of a run: every dimension's program is searched, then the decision rule by replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from judges.judgment import Judgment
from judges.lm import LM
from judges.program import JudgeSuite
from labeled_traces.split import LeakageError
from pipeline.chain import STAGE_REPEATS, StepResult, run_steps, search_summary
from pipeline.evaluate import EvaluateSettings, EvaluationStopped, check_replies, evaluate, save_judgments
from pipeline.metrics.suite import suite_metrics
from pipeline.metrics.table import match_judgments
from pipeline.prepare import Run, Say
from pipeline.read_warnings import loud, warning_kinds, warnings_in_words
from pipeline.results import StepReport
from pipeline.rule_search import RuleResult, search_rule
from pipeline.run_folder import METRICS, SEED, TUNED, RunFolder
from pipeline.sealed_lm import SealedLM
from pipeline.step_selection import select_steps


def tune(run: Run, lm: LM, say: Say) -> JudgeSuite:
    """Searches every dimension on the development split, then the rule; writes programs, trials and metrics.json.

    Raises:
        BudgetExhausted: the budget ended; what was found so far is in the folder, `metrics.json` is not.
        LMError: no call succeeded, or no reply can be used.
        LeakageError: what is sent to a model holds what the testset says.
    """
    lm = SealedLM(lm, run.seal)
    # Of an earlier tuning: beside programs that are being written anew it would vouch for half of them.
    run.folder[METRICS].unlink(missing_ok=True)
    done = run_steps(run, lm, TUNED, say)
    suite, steps = select_steps(run, done, lm, say)
    suite.save(run.folder.programs(TUNED))
    summary: dict[str, Any] = {
        "split": run.manifest.hash,
        "dimensions": {name: _summary(name, suite, done, steps) for name in suite.programs},
        "steps": [step.to_json() for step in steps],
        "searches": [{name: search_summary(result) for name, result in step.results.items()} for step in done],
    }
    if run.config.rule.enabled:
        result, judgments = _rule(run, suite, lm, say)
        suite = replace(suite, rule=result.rule)
        suite.save(run.folder.programs(TUNED))
        table = match_judgments(list(run.development_rows), suite.rule.apply(judgments), run.matcher)
        summary["rule"] = {**asdict(result), "rule": result.rule.to_json()}
        summary["development"] = {name: value.to_json() for name, value in suite_metrics(table).items()}
    run.folder.write_json(METRICS, summary)
    return suite


def check_tuned(run: Run) -> None:
    """Holds the tuned judges to the split that they were tuned on, and to the judges that they came from.

    Raises:
        LeakageError: the run has another split now, so its testset may be what they saw.
        PipelineError: one of the judges that tuning began from is missing.
    """
    summary = run.folder.summary() or {"dimensions": {}}
    run.folder.check_dimensions(SEED, run.suite, summary["dimensions"])
    tuned_on = summary.get("split")
    if tuned_on != run.manifest.hash:
        raise LeakageError(
            f"{run.folder.path}: the judges were tuned on another split (hash {tuned_on}) than split.json is now "
            f"(hash {run.manifest.hash}): start `gpa-judges optimize` again"
        )


def useless_reflection(summary: Mapping[str, Any]) -> str | None:
    """What to say where not one text that the reflection models wrote could be tried: then "no gain found" means
    nothing. `summary`: what `tune` wrote."""
    searches = [search for step in summary["searches"] for search in step.values()]
    texts = sum(search.get("texts", 0) for search in searches)
    if not texts or texts > sum(search["useless_texts"] for search in searches):
        return None
    why = next((line for search in searches for line in search["warnings"] if "could not be tried" in line), "")
    return f"not one of {texts} texts of the reflection model could be tried, so nothing was searched: {why}"


def load_steps(folder: RunFolder) -> tuple[StepReport, ...]:
    """What each step of the search added, as `tune` wrote it; empty where it has not."""
    try:
        return tuple(StepReport.from_json(row) for row in (folder.summary() or {}).get("steps", ()))
    except (TypeError, KeyError, AttributeError) as error:
        raise folder.damaged(METRICS, f"its steps: {error!r}") from None


def _summary(name: str, suite: JudgeSuite, done: Sequence[StepResult], reports: Sequence[StepReport]) -> dict[str, Any]:
    """One dimension over all steps. `gain` is what the last step that is kept found, over the program it began with."""
    results = [step.results[name] for step in done]
    kept = [result for result, report in zip(results, reports, strict=True) if name in report.kept]
    return {
        "program": suite.programs[name].hash,
        "improved": bool(kept),
        "changed_by": [result.optimizer for result in kept],
        "gain": kept[-1].gain.to_json() if kept and kept[-1].gain else None,
        "trials": sum(len(result.trials) for result in results),
        "judge_calls": sum(result.judge_calls for result in results),
        "reflection_calls": sum(result.reflection_calls for result in results),
    }


def _rule(run: Run, suite: JudgeSuite, lm: LM, say: Say) -> tuple[RuleResult, list[Judgment]]:
    rows = list(run.development_rows)
    settings = EvaluateSettings(
        repeats=run.config.rule.repeats,
        first_repeat=(len(run.steps) + 1) * STAGE_REPEATS,
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
    if kinds := loud(warning_kinds(judgments), len(judgments)):
        say(f"warning: of {len(judgments)} replies, repaired in reading were {warnings_in_words(kinds)}")
    result = search_rule(judgments, rows, run.matcher)
    say(f"decision rule: {result.reason}")
    return result, judgments
