"""Stage 2 of a run: the steps of the search, each from the programs that the one before returned."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from judges.lm import LM, BudgetExhausted
from judges.program import JudgeProgram, JudgeSuite
from labeled_traces.files import write_lines
from pipeline.clock import Clock, add
from pipeline.evaluate import EvaluateSettings
from pipeline.optimizers.base import NOT_SEARCHED, OptimizationResult, SearchContext, Trial
from pipeline.prepare import Run, Say, Step

STAGE_REPEATS = 10_000
"""Stage k reads with the repeats from k * STAGE_REPEATS on, so that no reading is another stage's: first the steps of
the search, then the selection among them, then the decision rule."""


@dataclass
class StepResult:
    """What one step did. `suite` holds its programs; of a dimension that it has not reached, the step's before."""

    step: Step
    suite: JudgeSuite
    results: dict[str, OptimizationResult] = field(default_factory=dict)
    seconds: float | None = 0.0
    """Of its searches, over all attempts; None where one was killed, so that nobody knows."""

    @property
    def name(self) -> str:
        return self.step.optimizer.name

    @property
    def calls(self) -> int:
        return sum(result.judge_calls + result.reflection_calls for result in self.results.values())


def run_steps(run: Run, lm: LM, folder: str, say: Say) -> list[StepResult]:
    """Searches every dimension, step by step. `programs/<folder>` holds the latest programs, `trials.jsonl` all trials.

    Raises:
        BudgetExhausted: the budget ended; what was found so far is in the folder.
        LMError: no call succeeded.
    """
    done: list[StepResult] = []
    suite = run.suite
    for number, step in enumerate(run.steps):
        done.append(StepResult(step, suite))
        for name, program in suite.programs.items():
            result = _searched(run, lm, done, program)
            done[-1].suite = suite = suite.with_program(result.program)
            suite.save(run.folder.programs(folder))
            write_lines(run.folder["trials.jsonl"], _trial_lines(done))
            _tell(run, done, name, say)
            if result.exhausted:
                raise BudgetExhausted(f"the budget ended in the search of {name}: {result.stop_reason}")
        if again := [name for name in suite.programs if _as_before(done, name)]:
            say(f"search ({number + 1}/{len(run.steps)}, {step.optimizer.name}): as before, not of {', '.join(again)}")
    return done


def unsearchable(run: Run, lm: LM) -> list[str]:
    """Why no step can search any dimension, a line for each dimension with what hinders the first step; empty where one
    can, or changes programs without a search. Known before the first call."""
    development, reasons = run.manifest.development(run.dataset), dict[str, str]()
    for number, step in enumerate(run.steps):
        hindrance = getattr(step.optimizer, "hindrance", lambda *_: None)
        for name, program in run.suite.programs.items():
            if (why := hindrance(program, development, _context(run, lm, number))) is None:
                return []
            reasons.setdefault(name, why)
    return [f"{name}: {why}" for name, why in reasons.items()]


def _context(run: Run, lm: LM, number: int, bank: tuple[JudgeProgram, ...] = ()) -> SearchContext:
    """What the searches of a step run with."""
    return SearchContext(
        lm=lm,
        matcher=run.matcher,
        reflection_model=run.steps[number].reflection_model,
        reflection_endpoint=run.steps[number].reflection_endpoint,
        evaluate=EvaluateSettings(
            concurrency=run.config.judges.concurrency, seed=run.config.seed, first_repeat=number * STAGE_REPEATS
        ),
        seed=run.config.seed,
        locked=frozenset(run.manifest.testset),
        seal=run.seal,
        bank=bank,
    )


def _searched(run: Run, lm: LM, done: Sequence[StepResult], program: JudgeProgram) -> OptimizationResult:
    """One dimension's search in the latest step."""
    number, current, name = len(done) - 1, done[-1], program.dimension
    context = _context(run, lm, number, bank([step.results[name] for step in done[:-1]]))
    with Clock(run.folder, f"{number + 1}/{name}") as clock:
        result = current.step.optimizer.optimize(program, run.manifest.development(run.dataset), context)
        clock.ended = not result.exhausted
    current.results[name] = result
    current.seconds = add(current.seconds, clock.seconds)
    return result


def bank(results: Sequence[OptimizationResult]) -> tuple[JudgeProgram, ...]:
    """The programs that these searches of one dimension tried, each once: accepted ones first, then later searches',
    then better ones."""

    def worth(found: tuple[int, Trial]) -> tuple[bool, int, float]:
        search, trial = found
        return trial.accepted, search, trial.scores.get("score", -1.0 if trial.gain is None else trial.gain - 1.0)

    trials = [(search, trial) for search, result in enumerate(results) for trial in result.trials]
    ordered = sorted(trials, key=worth, reverse=True)
    return tuple({trial.program.hash: trial.program for _, trial in ordered if trial.program is not None}.values())


def _tell(run: Run, done: Sequence[StepResult], name: str, say: Say) -> None:
    if _as_before(done, name):
        return
    result = done[-1].results[name]
    say(f"search of {_place(run, len(done) - 1, name, result.optimizer)}: {outcome(result)}")
    for warning in result.warnings:
        say(f"  warning: {warning}")


def _as_before(done: Sequence[StepResult], name: str) -> bool:
    """Whether the latest step could not search this dimension, and an earlier one could not either and said why."""
    hindered = [step.results[name].stop_reason == NOT_SEARCHED for step in done]
    return hindered[-1] and any(hindered[:-1])


def outcome(result: OptimizationResult) -> str:
    """A search in one line; `metrics.json` has the whole reason."""
    gain, said = result.gain, result.reason
    if gain is not None and gain.value is not None and gain.low is not None:
        said = f"{'gain' if result.improved else 'no gain found: best'} {gain.value:+.3f}, lower bound {gain.low:+.3f}"
        if gain.low > 0 and not result.improved:
            said += ", but what it must keep may be worse"
    return said if result.stop_reason in (NOT_SEARCHED, said) else f"{said}; {result.stop_reason}"


def _place(run: Run, number: int, name: str, optimizer: str) -> str:
    """A dimension's search, in words."""
    return f"{name} ({number + 1}/{len(run.steps)}, {optimizer})" if len(run.steps) > 1 else name


def _trial_lines(done: Sequence[StepResult]) -> Iterator[str]:
    for number, step in enumerate(done, 1):
        for name, result in step.results.items():
            for trial in result.trials:
                about = {"step": number, "optimizer": step.name, "dimension": name, **_trial(trial)}
                yield json.dumps(about, ensure_ascii=True)


def _trial(trial: Trial) -> dict[str, Any]:
    return {
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


def search_summary(result: OptimizationResult) -> dict[str, Any]:
    """What `metrics.json` keeps of one search."""
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
        "texts": result.texts,
        "useless_texts": len(result.useless),
        "warnings": list(result.warnings),
    }
