"""After several search steps: which step's program each dimension keeps, and what each step added."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace

from judges.judgment import Judgment
from judges.lm import LM
from judges.program import JudgeProgram, JudgeSuite
from labeled_traces.dataset import LabeledTrace
from pipeline.chain import STAGE_REPEATS, StepResult
from pipeline.evaluate import EvaluateSettings, EvaluationStopped, check_replies, evaluate, save_judgments
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import paired_differences, suite_metrics
from pipeline.metrics.table import MatchTable, match_judgments
from pipeline.optimizers.base import Optimizer
from pipeline.optimizers.objective import SOFT_F1, Objective
from pipeline.optimizers.scoring import Scores
from pipeline.optimizers.selection import compared, in_words
from pipeline.prepare import Run, Say
from pipeline.results import STEP_METRICS, StepReport


def select_steps(run: Run, done: Sequence[StepResult], lm: LM, say: Say) -> tuple[JudgeSuite, list[StepReport]]:
    """Per dimension the program of the last step that proved itself against what was kept before it, the input first.

    Judged on validation traces with fresh repeats, by what the step was to raise. After a single step, whose own
    selection has just said the same, nothing is read.

    Raises:
        BudgetExhausted: the budget ended; the readings so far are in the folder.
        LMError: no call succeeded, or no reply can be used.
    """
    if len(done) == 1:
        return done[0].suite, [_report(done[0], _changed(done[0]))]
    readings = _Readings(run, lm)
    readings.read(run.suite.programs.values())
    kept, reports = run.suite, []
    for step in done:
        before = kept
        readings.read(step.suite.programs.values())
        for name in _changed(step):
            kept = _better(kept, step, name, readings, say)
        names = [name for name, program in kept.programs.items() if program != before.programs[name]]
        reports.append(readings.measured(_report(step, names), before, kept))
    check_replies(readings.judgments)
    return kept, reports


def selection_calls(run: Run) -> int:
    """The most judge calls that the selection can take for one dimension."""
    read = len(run.steps) + 1 if len(run.steps) > 1 else 0
    return read * run.config.selection.repeats * min(len(run.manifest.valset), run.config.selection.traces)


def objective_of(optimizer: Optimizer) -> Objective:
    """What an optimizer is to raise: its `objective` where it has one, else the score."""
    found = getattr(optimizer, "objective", SOFT_F1)
    assert isinstance(found, Objective)
    return found


def _better(kept: JudgeSuite, step: StepResult, name: str, readings: _Readings, say: Say) -> JudgeSuite:
    program, settings = step.suite.programs[name], readings.run.config.selection
    found = compared(
        program,
        readings.scores(program),
        readings.scores(kept.programs[name]),
        objective_of(step.step.optimizer),
        (settings.level, settings.level),
        readings.run.config.seed,
    )
    verdict = "kept" if found.proved else "not kept"
    broken = "".join(f"; {words}: it may have got worse" for words in found.broken)
    say(f"selection {name} ({step.name}): {verdict}, gain {in_words(found.gain, settings.level)}{broken}")
    return kept.with_program(program) if found.proved else kept


class _Readings:
    """What programs say of the validation traces, each read once."""

    def __init__(self, run: Run, lm: LM) -> None:
        self.run = run
        self.judgments: list[Judgment] = []
        self._lm = lm
        self._rows = _validation_rows(run)
        self._tables: dict[str, MatchTable] = {}
        self._metrics: dict[str, dict[str, Estimate]] = {}

    def read(self, programs: Iterable[JudgeProgram]) -> None:
        new = {program.dimension: program for program in programs if program.hash not in self._tables}
        if not new:
            return
        config = self.run.config
        settings = EvaluateSettings(
            repeats=config.selection.repeats,
            first_repeat=len(self.run.steps) * STAGE_REPEATS,
            concurrency=config.judges.concurrency,
            seed=config.seed,
            progress="selection",
        )
        path = self.run.folder.judgments("selection")
        try:
            found = evaluate(JudgeSuite(new), self._rows, self._lm, settings)
        except EvaluationStopped as stop:
            save_judgments(path, [*self.judgments, *stop.judgments])
            raise
        self.judgments += found
        save_judgments(path, self.judgments)
        table = match_judgments(self._rows, found, self.run.matcher)
        self._tables |= {program.hash: table.of(name) for name, program in new.items()}

    def scores(self, program: JudgeProgram) -> Scores:
        return Scores.of(self._tables[program.hash], len(self._rows) * self.run.config.selection.repeats)

    def table(self, suite: JudgeSuite) -> MatchTable:
        """Of all judges of a suite."""
        tables = [self._tables[program.hash] for program in suite.programs.values()]
        cells = {key: cell for table in tables for key, cell in table.cells.items()}
        return replace(tables[0], dimensions=tuple(suite.programs), cells=cells)

    def measured(self, report: StepReport, before: JudgeSuite, after: JudgeSuite) -> StepReport:
        """The report with the metrics of both suites."""
        settings = MetricSettings(seed=self.run.config.seed)
        for suite in (before, after):
            if suite.hash not in self._metrics:
                self._metrics[suite.hash] = suite_metrics(self.table(suite), settings)
        gain = paired_differences(self.table(after), self.table(before), settings)
        if before == after:  # known to be zero, whatever the number of traces
            gain = {name: Estimate(0.0, 0.0, 0.0, value.n) for name, value in gain.items()}
        found = (self._metrics[before.hash], self._metrics[after.hash], gain)
        old, new, gain = ({name: metrics[name] for name in STEP_METRICS} for metrics in found)
        return replace(report, before=old, after=new, gain=gain, traces=len(self._rows))


def _validation_rows(run: Run) -> list[LabeledTrace]:
    """At most so many as the selection may read, drawn with the seed, in their order."""
    rows = list(run.manifest.development(run.dataset).valset)
    most = min(len(rows), run.config.selection.traces)
    draw = random.Random(f"{run.config.seed}/selection")
    chosen = set(draw.sample([row.trace_id for row in rows], most))
    return [row for row in rows if row.trace_id in chosen]


def _changed(step: StepResult) -> list[str]:
    return [name for name, result in step.results.items() if result.improved]


def _report(step: StepResult, kept: Sequence[str]) -> StepReport:
    return StepReport(
        optimizer=step.name,
        changed=tuple(_changed(step)),
        kept=tuple(kept),
        judge_calls=sum(result.judge_calls for result in step.results.values()),
        reflection_calls=sum(result.reflection_calls for result in step.results.values()),
        seconds=step.seconds,
    )
