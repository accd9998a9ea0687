"""The champions over the traces of an MLflow experiment. What is scored already is not scored again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judges.decision import DecisionRule
from judges.judgment import Judgment
from judges.ledger.budget import Budget, Price, Usage
from judges.lm import LM
from judges.models.connect import Models, check_keys, is_simulated, open_lm
from judges.models.limits import Limits
from judges.program import JudgeSuite
from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.mlflow import read_trace
from labeled_traces.readers.report import ReadOptions, ReadReport
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import JSON, TraceError, text_hash
from pipeline.assessments import AGAIN, Voice
from pipeline.config import PipelineError
from pipeline.cost import Cost, Kept, announce, asked_by, suite_cost
from pipeline.evaluate import EvaluateSettings, EvaluationStopped, check_replies, evaluate
from pipeline.export.exported import Exported, suite_of
from pipeline.export.registry import PREFIX, Registry
from pipeline.lock import locked
from pipeline.mlflow_traces import MlflowTraces, assessments_of, without_assessments
from pipeline.pace import tell_limits
from pipeline.prepare import Say
from pipeline.read_warnings import warning_kinds

_BATCH = 50
"""Traces that are judged before their assessments are logged."""


@dataclass(frozen=True)
class Scoring:
    """`experiment` holds the traces, `judges` the champions (None: the same one). `filter_string` is MLflow's.

    `newest`: only so many of the newest traces. `budget` is that of one day (UTC), however often it is scored. `out`:
    where the call ledger is kept, and the lock.
    """

    uri: str
    experiment: str
    judges: str | None = None
    prefix: str = PREFIX
    filter_string: str | None = None
    newest: int | None = None
    budget: Budget = field(default_factory=Budget)
    price: Price | None = None
    timeout: float = 60.0
    limits: Limits = field(default_factory=Limits)
    settings: EvaluateSettings = field(default_factory=EvaluateSettings)
    out: Path = Path("runs/score")


@dataclass(frozen=True)
class Scored:
    """`traces` that were looked at, of which `new` ones had a score missing. `outcomes` and `warnings` (what was
    repaired in reading a reply, by kind) of the judgments of now.

    `usage` and `cost` (in dollars, None where a price is unknown) are the day's.
    `unreadable`: why traces could not be read.
    """

    champions: Mapping[str, Exported]
    traces: int
    new: int
    scores: int
    findings: int
    outcomes: Mapping[str, int]
    warnings: Mapping[str, int]
    usage: Usage
    cost: float | None
    unreadable: tuple[str, ...]

    @property
    def simulated(self) -> bool:
        return any(is_simulated(judge.program.knobs.model) for judge in self.champions.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "champions": {name: judge.uri for name, judge in self.champions.items()},
            "traces": self.traces,
            "new": self.new,
            "scores": self.scores,
            "findings": self.findings,
            "outcomes": dict(self.outcomes),
            "warnings": dict(self.warnings),
            "simulated": self.simulated,
            "calls": self.usage.calls,
            "tokens": self.usage.tokens,
            "cost": self.cost,
            "unreadable": list(self.unreadable),
        }


def score(work: Scoring, say: Say) -> Scored:
    """Judges what is new, and logs it.

    Raises:
        PipelineError: no MLflow, experiment or champion there; or another process scores this experiment.
        BudgetExhausted: the budget ended; what was judged is logged, and the same call goes on.
        LMError: no call succeeded, or no reply can be used (which is logged too).
    """
    champions = Registry(work.uri, work.judges or work.experiment, work.prefix).champions()
    if not champions:
        raise PipelineError(
            f"experiment {work.judges or work.experiment!r} has no champion with the prefix {work.prefix!r}: accepted "
            "is one to which `gpa-judges export RUN --to mlflow` exported judges that passed their validation"
        )
    suite = suite_of(champions)
    store = MlflowTraces(work.uri, work.experiment)
    # Before it is read what is missing: two at once would both log it.
    with locked(work.out / f"experiment-{text_hash(f'{work.uri} {work.experiment}')[:16]}"):
        return _score(work, store, champions, suite, say)


def _score(
    work: Scoring, store: MlflowTraces, champions: Mapping[str, Exported], suite: JudgeSuite, say: Say
) -> Scored:
    voices = Voice.of(champions, work.prefix)
    found = _Found.of(store.records(work.filter_string, work.newest), voices, suite.rule)
    say(f"{found.traces} traces, {len(found.new)} with a score missing")
    models = {program.knobs.model for program in suite.programs.values()}
    prices = {} if work.price is None else dict.fromkeys(models, work.price)
    today = f"score {datetime.now(UTC):%Y-%m-%d}"
    with open_lm(work.out / "ledger.sqlite", today, work.budget, prices, work.timeout, limits=work.limits) as lm:
        if found.new:
            kept = Kept(lm.ledger.find, work.settings.seed)
            cost = found.cost(suite, Models(prices, work.timeout), kept)
            if cost.calls:
                check_keys(asked_by(suite))
            tell_limits(cost, work.limits, say)
            announce(cost, work.budget, say)
        writer = _Writer(store, voices, suite)
        try:
            for batch in found.batches():
                writer.judge_and_log(batch, lm, work.settings)
                say(f"{writer.logged} of {len(found.new)} traces judged")
        finally:
            usage = lm.spent()
    check_replies(writer.judgments)
    return Scored(
        champions=champions,
        traces=found.traces,
        new=len(found.new),
        scores=writer.scores,
        findings=writer.findings,
        outcomes=dict(Counter(str(judgment.outcome) for judgment in writer.judgments)),
        warnings=warning_kinds(writer.judgments),
        usage=usage,
        cost=usage.dollars,
        unreadable=tuple(found.unreadable),
    )


@dataclass(frozen=True)
class _New:
    """A trace without labels, the dimensions that are to be scored, and what these judges have said of it so far: what
    a stopped attempt left; and scores that were weighed against those of a judge that is no champion any more."""

    row: LabeledTrace
    missing: tuple[str, ...]
    left_overs: tuple[str, ...]


@dataclass
class _Found:
    traces: int = 0
    new: list[_New] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, records: Iterator[dict[str, JSON]], voices: Mapping[str, Voice], rule: DecisionRule) -> _Found:
        found = cls()
        options = ReadOptions(load_taxonomy("trail"), ReadReport())
        for record in records:
            found.traces += 1
            said = assessments_of(record)
            missing = tuple(name for name, voice in voices.items() if not voice.has_score(said))
            if not missing:
                continue
            if rule.weighs_judges:
                missing = tuple(voices)
            try:
                # What people and judges said is gone before anything else is done with the trace.
                trace = read_trace(without_assessments(record), str(record["info"].get("trace_id")), options)
            except TraceError as error:
                found.unreadable.append(str(error))
                continue
            stale = tuple(i for name in missing for i in voices[name].left_overs(said))
            found.new.append(_New(LabeledTrace(trace, clean="unknown"), missing, stale))
        return found

    def groups(self) -> dict[tuple[str, ...], list[_New]]:
        """The traces that lack the same scores, by these scores."""
        groups: dict[tuple[str, ...], list[_New]] = defaultdict(list)
        for new in self.new:
            groups[new.missing].append(new)
        return groups

    def batches(self) -> Iterator[list[_New]]:
        """Traces that lack the same scores, at most `_BATCH` at a time."""
        for group in self.groups().values():
            for start in range(0, len(group), _BATCH):
                yield group[start : start + _BATCH]

    def cost(self, suite: JudgeSuite, models: Models, kept: Kept) -> Cost:
        total = Cost()
        for missing, group in self.groups().items():
            total += suite_cost(_part(suite, missing), [new.row for new in group], 1, models, kept)
        return total


@dataclass
class _Writer:
    """Judges batches and logs what was said."""

    store: MlflowTraces
    voices: Mapping[str, Voice]
    suite: JudgeSuite
    logged: int = 0
    scores: int = 0
    findings: int = 0
    judgments: list[Judgment] = field(default_factory=list)

    def judge_and_log(self, batch: Sequence[_New], lm: LM, settings: EvaluateSettings) -> None:
        """What was judged before the budget ended is logged too, trace by trace."""
        suite = _part(self.suite, batch[0].missing)
        rows = [new.row for new in batch]
        try:
            judgments = evaluate(suite, rows, lm, settings)
        except EvaluationStopped as stop:
            self._log(batch, stop.judgments)
            raise
        check_replies(judgments, usable=False)
        self._log(batch, judgments)

    def _log(self, batch: Sequence[_New], judgments: Sequence[Judgment]) -> None:
        """A trace of which a judgment is to be made again is left as it is where the judges are weighed together."""
        said: dict[str, list[Judgment]] = defaultdict(list)
        for judgment in self.suite.rule.apply(judgments):
            said[judgment.trace_id].append(judgment)
        self.judgments += judgments
        for new in batch:
            if self.suite.rule.weighs_judges and any(one.outcome in AGAIN for one in said[new.row.trace_id]):
                continue
            for stale in new.left_overs:
                self.store.delete(new.row.trace_id, stale)
            for judgment in said[new.row.trace_id]:
                self._log_one(judgment)
            self.logged += 1

    def _log_one(self, judgment: Judgment) -> None:
        made = list(self.voices[judgment.dimension].to_assessments(judgment))
        for assessment in made:
            self.store.log(judgment.trace_id, assessment)
        self.scores += bool(made)
        self.findings += max(0, len(made) - 1)


def _part(suite: JudgeSuite, missing: Sequence[str]) -> JudgeSuite:
    return replace(suite, programs={name: suite.programs[name] for name in missing})
