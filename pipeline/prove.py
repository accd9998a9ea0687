"""Stage 4 of a run: generic and tuned judges, the holistic one and the controls on the testset, and the verdict."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version

from judges.judgment import HOLISTIC, Judgment, Outcome
from judges.ledger.ledger_lm import LedgerLM
from judges.program import JudgeSuite
from labeled_traces.dataset import LabeledTrace
from labeled_traces.held_out_use import HeldOutUse
from labeled_traces.trace import text_hash
from pipeline.controls import ControlInput, beaten_by, control_tables
from pipeline.evaluate import EvaluateSettings, EvaluationStopped, check_replies, evaluate, save_judgments
from pipeline.held_out import TEST_USES, check_leak, record_use, uses_beside
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.froc import curve
from pipeline.metrics.suite import dimension_metrics, suite_metrics
from pipeline.metrics.table import MatchTable, match_judgments
from pipeline.prepare import Run, Say
from pipeline.read_warnings import loud, warning_kinds, warnings_in_words
from pipeline.results import Result, Side, StepReport, side_names
from pipeline.run_folder import SEED, TUNED
from pipeline.tune import load_steps
from pipeline.validate import Validation, Verdict, validate

_USABLE = (Outcome.SCORED, Outcome.NOT_APPLICABLE)
UNCHANGED = "nothing to validate: the tuned judges are the generic ones (the testset was not read)"


def prove(run: Run, tuned: JudgeSuite, lm: LedgerLM, say: Say) -> Result:
    """Judges the testset with fresh repeats, and says whether the tuned judges are better than those they came from.

    Judges that the tuning left as they were are not compared with themselves: the testset is not read then.

    Raises:
        LeakageError: a tuned text was copied from a test trace.
        BudgetExhausted: the budget ended; the judgments so far are in the folder.
        LMError: no call succeeded, or no reply can be used.
        TraceError, PipelineError: a damaged file in the folder, before the first call.
    """
    testset, steps = run.manifest.testset_of(run.dataset), load_steps(run.folder)
    rows = list(testset)
    if tuned.hash == run.suite.hash:
        nothing = Validation(Verdict.INCONCLUSIVE, (UNCHANGED,), {})
        return _result(_Proof(run, tuned, nothing, {}, (), 0, steps), lm, rows)
    check_leak(run.seal, tuned)
    shared = run.config.output / TEST_USES if run.config.data.path is None else uses_beside(run.config.data.path)
    programs = {name: program.hash for name, program in tuned.programs.items()}
    use = HeldOutUse(proof_hash(run, tuned), run.model, programs, (), lm.ledger.identity())
    uses = record_use(use, rows, shared, run.folder[TEST_USES], say)
    judgments = {
        SEED: _judge(run, SEED, run.suite, rows, lm),
        TUNED: _judge(run, TUNED, tuned, rows, lm),
    }
    if run.holistic is not None:
        judgments[HOLISTIC] = _judge(run, HOLISTIC, run.holistic, rows, lm)
    say(f"testset: {len(rows)} held-out traces judged {run.config.validation.repeats} times by each judge")
    tables = {name: _table(run, rows, found) for name, found in judgments.items()}
    metrics, names = _metric_settings(run), side_names(generic=run.config.judges.programs is None)
    controls = _controls(run, rows)
    validation = validate(tables[SEED], tables[TUNED], controls, run.gates, metrics, (names[SEED], names[TUNED]))
    sides = {name: _side(table, metrics, judgments[name]) for name, table in tables.items()}
    sides |= {name: _side(table, metrics) for name, table in controls.items()}
    return _result(_Proof(run, tuned, validation, sides, tuple(controls), uses, steps), lm, rows)


def proof_hash(run: Run, tuned: JudgeSuite) -> str:
    """sha256 (hex) of all that the verdict follows from: data, split, both sides' judges with their rules, gates,
    matcher, metrics, readings. With any other of them it is another proof, and so a further use of the testset."""
    parts = {
        "data": run.dataset.hash,
        "split": run.manifest.hash,
        "judges": [suite and suite.hash for suite in (run.suite, tuned, run.holistic)],
        "gates": asdict(run.gates),
        "matcher": run.config.matcher.model_dump(),
        "metrics": asdict(_metric_settings(run)),
        "repeats": run.config.validation.repeats,
        "seed": run.config.seed,
    }
    return text_hash(json.dumps(parts, sort_keys=True))


def _metric_settings(run: Run) -> MetricSettings:
    return MetricSettings(seed=run.config.seed)


@dataclass(frozen=True)
class _Proof:
    """What a result is made from. `uses` counts those of the testset."""

    run: Run
    tuned: JudgeSuite
    validation: Validation
    sides: Mapping[str, Side]
    controls: tuple[str, ...]
    uses: int
    steps: tuple[StepReport, ...]

    @property
    def generic(self) -> bool:
        """Whether the judges that were tuned are those that are shipped."""
        return self.run.config.judges.programs is None


def _judge(run: Run, name: str, suite: JudgeSuite, rows: Sequence[LabeledTrace], lm: LedgerLM) -> list[Judgment]:
    """What the suite reports by its rule; the raw judgments go to the folder."""
    settings = EvaluateSettings(
        repeats=run.config.validation.repeats,
        concurrency=run.config.judges.concurrency,
        seed=run.config.seed,
        progress=f"testset, {name}",
    )
    path = run.folder.judgments(f"testset-{name}")
    try:
        judgments = evaluate(suite, rows, lm, settings)
    except EvaluationStopped as stop:
        save_judgments(path, stop.judgments)
        raise
    save_judgments(path, judgments)
    # Of the other sides that is a result: theirs is the share that was scored.
    check_replies(judgments, usable=name == SEED)
    return suite.rule.apply(judgments)


def _table(run: Run, rows: Sequence[LabeledTrace], judgments: Sequence[Judgment]) -> MatchTable:
    """About the run's dimensions alone: the holistic judge speaks of all seven."""
    table = match_judgments(rows, judgments, run.matcher)
    wanted = tuple(name for name in table.dimensions if name in run.suite.programs)
    return replace(table, dimensions=wanted, cells={key: cell for key, cell in table.cells.items() if key[1] in wanted})


def _controls(run: Run, rows: Sequence[LabeledTrace]) -> dict[str, MatchTable]:
    work = ControlInput(
        rows,
        list(run.development_rows),
        repeats=run.config.validation.repeats,
        seed=run.config.seed,
        dimensions=tuple(run.suite.programs),
    )
    return control_tables(work, run.matcher)


def _side(table: MatchTable, settings: MetricSettings, judgments: Sequence[Judgment] = ()) -> Side:
    """`judgments` are given for judges; a control is measured as a whole only."""
    dimensions = table.dimensions if judgments else ()
    return Side(
        metrics=suite_metrics(table, settings),
        dimensions={name: dimension_metrics(table, name, settings) for name in dimensions},
        curve=tuple(curve(table)),
        outcomes=dict(Counter(str(judgment.outcome) for judgment in judgments)),
        warnings=warning_kinds(judgments),
    )


def _result(proof: _Proof, lm: LedgerLM, rows: Sequence[LabeledTrace]) -> Result:
    run, validation = proof.run, proof.validation
    dimensions = set(run.suite.programs)
    usage = lm.spent()
    return Result(
        name=run.config.name,
        run_dir=run.folder.path,
        model=run.model,
        simulated=run.simulated,
        verdict=str(validation.verdict),
        reasons=tuple(validation.reasons),
        sides=proof.sides,
        controls=proof.controls,
        beaten=_beaten(proof),
        differences=validation.differences,
        usage=usage,
        cost=usage.dollars,
        test_uses=proof.uses,
        traces=len(rows),
        labels=sum(bool(dimensions & set(error.dimensions)) for row in rows for error in row.errors),
        outside_gpa=sum(not error.dimensions for row in rows for error in row.errors),
        generic=proof.generic,
        steps=proof.steps,
        labels_needed=validation.labels_needed,
        warnings=tuple(_warnings(proof)),
        provenance=_provenance(proof),
        primary=run.gates.primary,
        conditions=validation.conditions,
    )


def _beaten(proof: _Proof) -> Mapping[str, Sequence[str]]:
    if TUNED not in proof.sides:
        return {}
    return beaten_by(proof.sides[TUNED].metrics, {name: proof.sides[name].metrics for name in proof.controls})


def _warnings(proof: _Proof) -> list[str]:
    lines, names = [], side_names(generic=proof.generic)
    for name, side in proof.sides.items():
        unusable = {kind: count for kind, count in side.outcomes.items() if kind not in _USABLE}
        if unusable:
            counts = ", ".join(f"{count} {kind}" for kind, count in sorted(unusable.items()))
            lines.append(
                f"{names[name]}: {sum(unusable.values())} of {sum(side.outcomes.values())} judgments: {counts}"
            )
        if kinds := loud(side.warnings, sum(side.outcomes.values())):
            lines.append(f"{names[name]}, replies that were repaired in reading: {warnings_in_words(kinds)}")
    return lines


def _provenance(proof: _Proof) -> dict[str, str]:
    run, tuned = proof.run, proof.tuned
    return {
        "run": str(run.folder.path),
        "data": run.dataset.hash,
        "split": run.manifest.hash,
        "seed": str(run.config.seed),
        "repeats": str(run.config.validation.repeats),
        "matcher": run.matcher.name,
        "proof": proof_hash(run, tuned),
        "optimizer": ", ".join(step.optimizer.name for step in run.steps),
        "reflection model": ", ".join(dict.fromkeys(step.reflection_model for step in run.steps)),
        "generic judges": run.suite.hash,
        "tuned judges": tuned.hash,
        "decision rule": ", ".join(f"{key} {value}" for key, value in tuned.rule.to_json().items()),
        **{name: version(name) for name in ("gepa", "litellm", "mlflow", "optuna")},
    }
