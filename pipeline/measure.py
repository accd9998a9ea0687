"""One suite of judges on labelled traces: judgments, metrics, cost. No tuning."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from judges.judgment import HOLISTIC, Judgment
from judges.ledger.budget import OWN, Budget, Price, Usage
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.ledger.place import Place
from judges.models.connect import Models, check_keys, is_simulated, open_lm
from judges.models.limits import Limits
from judges.program import JudgeSuite, seed_suite
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.files import parse_json, read_text, write_lines
from labeled_traces.held_out_use import HeldOutUse, read_before
from labeled_traces.split import PARTS, SplitManifest
from labeled_traces.trace import text_hash
from pipeline.config import PipelineError
from pipeline.consent import Consent
from pipeline.cost import Cost, Kept, announce, asked_by, check_models, compared, suite_cost
from pipeline.earlier_replies import earlier_replies
from pipeline.evaluate import EvaluateSettings, EvaluationStopped, cached_share, check_replies, evaluate, save_judgments
from pipeline.held_out import TEST_USES, check_leak, record_use, seal_of, uses_beside, uses_known
from pipeline.matching import build_matcher
from pipeline.metrics.bootstrap import MetricSettings
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import dimension_metrics, suite_metrics
from pipeline.metrics.table import match_judgments
from pipeline.pace import tell_limits
from pipeline.prepare import Say, with_knobs
from pipeline.read_warnings import warning_kinds
from pipeline.replay import explained_replay, open_kept
from pipeline.run_folder import open_judges
from pipeline.tuned_on import check_tuned_on, tuned_on


@dataclass(frozen=True)
class Measurement:
    """What to measure. `judges` None: the generic ones as shipped, or the holistic one. `parts` of `split`; empty: all.

    `out` None: a folder in `runs` whose name follows from judges, data and settings, so that a stopped one is resumed.
    `force`: also into the folder of another measurement. `ledger`: one that may be shared with others; None: a file in
    the folder. `replay`: it alone answers.
    """

    data: Path
    judges: Path | None = None
    holistic: bool = False
    knobs: Mapping[str, Any] = field(default_factory=dict)
    split: Path | None = None
    parts: tuple[str, ...] = ()
    matcher: str = "span"
    settings: EvaluateSettings = field(default_factory=EvaluateSettings)
    timeout: float = 60.0
    limits: Limits = field(default_factory=Limits)
    budget: Budget = field(default_factory=Budget)
    prices: Mapping[str, Price] = field(default_factory=dict)
    out: Path | None = None
    force: bool = False
    ledger: Place | None = None
    replay: bool = False
    consent: Consent = field(default_factory=Consent)


@dataclass(frozen=True)
class Measured:
    """`warnings`: kind of what was repaired or dropped in reading a reply -> judgments. `cost` is in dollars, None
    where a price is unknown. `cached`: the share of the judgments' prompt tokens that the provider's cache served.
    `test_uses`: which use of the held-out traces this was, from 1; 0: none was read."""

    model: str
    traces: int
    labels: int
    outside_gpa: int
    metrics: Mapping[str, Estimate]
    dimensions: Mapping[str, Mapping[str, Estimate]]
    outcomes: Mapping[str, int]
    warnings: Mapping[str, int]
    usage: Usage
    cost: float | None
    cached: float
    test_uses: int
    judgments: Path

    @property
    def simulated(self) -> bool:
        return is_simulated(self.model)

    def to_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "simulated": self.simulated,
            "traces": self.traces,
            "labels": self.labels,
            "outside_gpa": self.outside_gpa,
            "metrics": {name: value.to_json() for name, value in self.metrics.items()},
            "dimensions": {
                name: {metric: value.to_json() for metric, value in metrics.items()}
                for name, metrics in self.dimensions.items()
            },
            "outcomes": dict(self.outcomes),
            "warnings": dict(self.warnings),
            "calls": self.usage.calls,
            "tokens": self.usage.tokens,
            "cost": self.cost,
            "cached": self.cached,
            "test_uses": self.test_uses,
            "judgments": str(self.judgments),
        }


@dataclass(frozen=True)
class Evaluation:
    """What a measurement reads, and the folder where its calls and results are kept. `held_out`: those of its traces
    that are a testset's."""

    work: Measurement
    suite: JudgeSuite
    rows: Dataset
    held_out: Sequence[LabeledTrace]
    out: Path
    models: Models

    @property
    def model(self) -> str:
        return ", ".join(sorted({program.knobs.model for program in self.suite.programs.values()}))

    @property
    def content(self) -> list[Any]:
        return _content(self.work, self.suite, self.rows)

    @property
    def ledger(self) -> Place:
        return self.work.ledger or self.out / "ledger.sqlite"

    @property
    def run(self) -> str:
        """Its account in the ledger, which follows from what it is: the same evaluation again goes on with it."""
        return OWN if self.work.ledger is None else f"evaluate-{text_hash(json.dumps(self.content))[:16]}"

    def cost(self) -> Cost:
        """What is still to be paid: what its ledger holds is not."""
        settings = self.work.settings
        with open_kept(self.ledger) as ledger:
            kept = Kept(ledger.find if ledger else None, settings.seed, earlier_replies(self.out.parent))
            return suite_cost(self.suite, list(self.rows), settings.repeats, self.models, kept)

    def spent(self) -> Usage:
        """What is on its account already."""
        with open_kept(self.ledger) as ledger:
            return ledger.spent(self.run) if ledger else Usage()

    def open_lm(self) -> LedgerLM:
        """The way to its model; from here on the folder is this evaluation's."""
        work = self.work
        mode: Literal["live", "replay"] = "replay" if work.replay else "live"
        if work.replay:  # a ledger that is not there leaves no folder behind
            Ledger(self.ledger, read_only=True).close()
        write_lines(self.out / _CONTENT, [json.dumps(self.content)])
        return open_lm(self.ledger, self.run, work.budget, work.prices, work.timeout, mode, limits=work.limits)


def open_evaluation(work: Measurement, say: Say) -> Evaluation:
    """Looks at everything before the first call, and writes nothing.

    Raises:
        PipelineError, JudgeError, TraceError: bad input.
        LeakageError: held-out traces would be read, and the judges were tuned on them or a text was copied from them.
    """
    suite = _suite(work)
    models = Models(work.prices, work.timeout)
    check_models(asked_by(suite), work.budget, models)
    rows, held_out = _rows(work, suite, say)
    out = work.out or _folder(work, suite, rows)
    _check_folder(out, _content(work, suite, rows), work.force)
    say(f"results: {out}")
    return Evaluation(work, suite, rows, held_out, out, models)


def measure(work: Measurement, say: Say) -> Measured:
    """Judges the traces, writes `judgments.jsonl` and `metrics.json`, and returns the numbers.

    Raises:
        PipelineError, JudgeError, TraceError: bad input, before the first call.
        LeakageError: held-out traces would be read, and the judges were tuned on them or a text was copied from them.
        BudgetExhausted: the budget ended; the judgments so far are in the folder.
        LMError: no call succeeded, or no reply can be used.
    """
    task = open_evaluation(work, say)
    suite, rows, out = task.suite, task.rows, task.out
    matcher = build_matcher(work.matcher, list(rows))
    cost = task.cost()
    if not work.replay:
        if cost.calls:
            check_keys(asked_by(suite))
        tell_limits(cost, work.limits, say)
        announce(cost, work.budget, say, work.consent, asked_by(suite), task.spent())
    uses = 0
    with task.open_lm() as lm:
        before = lm.spent()
        if task.held_out:
            proof = text_hash(json.dumps(task.content))
            programs = {name: program.hash for name, program in suite.programs.items()}
            use = HeldOutUse(proof, task.model, programs, (), lm.ledger.identity())
            uses = record_use(use, task.held_out, uses_beside(work.data), out / TEST_USES, say)
        with explained_replay(suite, rows, lm.ledger, work.settings):
            judgments = _judge(work, suite, rows, lm, out)
        usage = lm.spent()
    if not work.replay:
        say(compared(cost, before, usage))
    table = match_judgments(list(rows), suite.rule.apply(judgments), matcher)
    settings = MetricSettings(seed=work.settings.seed)
    measured = Measured(
        model=task.model,
        traces=len(rows),
        labels=len(table.labels),
        outside_gpa=sum(not error.dimensions for row in rows for error in row.errors),
        metrics=suite_metrics(table, settings),
        dimensions={name: dimension_metrics(table, name, settings) for name in table.dimensions},
        outcomes=Counter(str(judgment.outcome) for judgment in judgments),
        warnings=warning_kinds(judgments),
        usage=usage,
        cost=usage.dollars,
        cached=cached_share(judgments),
        test_uses=uses,
        judgments=out / "judgments.jsonl",
    )
    write_lines(out / "metrics.json", [json.dumps(measured.to_json(), indent=1, allow_nan=False)])
    return measured


def _suite(work: Measurement) -> JudgeSuite:
    if work.judges is not None:
        suite = open_judges(work.judges)
    else:
        suite = seed_suite(dimensions=(HOLISTIC,)) if work.holistic else seed_suite()
    return with_knobs(suite, work.knobs)


def _rows(work: Measurement, suite: JudgeSuite, say: Say) -> tuple[Dataset, Sequence[LabeledTrace]]:
    """The rows to read, and those that are held out: the testset's, and without a split those that were
    read as a testset before. No judge holds a text of a testset that it is to read."""
    dataset = Dataset.load(work.data)
    if work.split is None:
        if work.parts:
            raise PipelineError("--part needs --split FILE, the manifest that says which traces are in it")
        return dataset, read_before(dataset, uses_known(uses_beside(work.data), work.out.parent if work.out else _RUNS))
    manifest = SplitManifest.load(work.split)
    manifest.check(dataset)
    parts = work.parts or PARTS
    rows = dataset.subset([i for part in parts for i in manifest.parts[part]])
    if "testset" not in parts:
        return rows, ()
    check_tuned_on(work.judges, tuned_on(work.judges), dataset.subset(manifest.testset), say)
    check_leak(seal_of(dataset, manifest), suite)
    return rows, tuple(dataset.subset(manifest.testset))


def _content(work: Measurement, suite: JudgeSuite, rows: Dataset) -> list[Any]:
    """What the numbers follow from."""
    return [suite.hash, rows.hash, work.matcher, work.settings.repeats, work.settings.seed]


_CONTENT = "measurement.json"
_RUNS = Path("runs")


def _check_folder(out: Path, content: list[Any], force: bool) -> None:
    """Raises: PipelineError, if the folder holds another measurement, which would be written over."""
    known = out / _CONTENT
    if not force and known.is_file() and parse_json(read_text(known), str(known)) != content:
        raise PipelineError(
            f"{out} holds another evaluation: accepted is another --results, or --force to replace it; what was paid "
            "stays in the ledger and is used again, and --ledger FILE shares replies between folders (more repeats, "
            "other options)"
        )


def _folder(work: Measurement, suite: JudgeSuite, rows: Dataset) -> Path:
    return _RUNS / f"evaluate-{text_hash(json.dumps(_content(work, suite, rows)))[:8]}"


def _judge(work: Measurement, suite: JudgeSuite, rows: Dataset, lm: LedgerLM, out: Path) -> Sequence[Judgment]:
    path = out / "judgments.jsonl"
    try:
        judgments = evaluate(suite, rows, lm, work.settings)
    except EvaluationStopped as stop:
        save_judgments(path, stop.judgments)
        raise
    save_judgments(path, judgments)
    check_replies(judgments)
    return judgments
