"""Judges x traces x repeats -> judgments. The only place with concurrency."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from judges.judge import judge
from judges.judgment import Finding, Judgment, Outcome
from judges.ledger.budget import Usage
from judges.lm import LM, BudgetExhausted, LMError, ProviderDown
from judges.plan import wants_plan
from judges.program import JudgeProgram, JudgeSuite
from labeled_traces.dataset import LabeledTrace
from labeled_traces.files import parse_json, read_lines, write_lines
from labeled_traces.label import Impact
from labeled_traces.trace import TraceError
from pipeline.call_order import CallOrder, Place
from pipeline.own_thread import run_in_thread
from pipeline.progress import Progress

SHORTEN = "--trace-tokens N (in a file judges.trace_tokens) shortens traces"
_WAY_OUT = f"accepted is a smaller trace: {SHORTEN}; or a model with a larger context"
_OTHER_MODEL = "accepted is a model that gives the reply format of the prompt"
FAILED = (Outcome.PROVIDER_ERROR, Outcome.TIMEOUT)


@dataclass(frozen=True)
class EvaluateSettings:
    """`repeats` readings of every trace by every judge, numbered from `first_repeat` (other numbers are fresh calls).

    `concurrency` bounds the judgments in flight; 1 keeps the judges of a trace and the repeats of a judge strictly back
    to back, which is best for a local server with one slot. `progress` is the name under which stderr shows how far it
    is; None: nowhere.
    """

    repeats: int = 1
    first_repeat: int = 0
    concurrency: int = 8
    seed: int = 0
    progress: str | None = None


class EvaluationStopped(BudgetExhausted):
    """The budget ended the evaluation. `judgments` holds all rows; what was prevented has the outcome `not_run`."""

    def __init__(self, message: str, judgments: Sequence[Judgment]) -> None:
        super().__init__(message)
        self.judgments = list(judgments)


def evaluate(
    suite: JudgeSuite, rows: Iterable[LabeledTrace], lm: LM, settings: EvaluateSettings | None = None
) -> list[Judgment]:
    """`evaluate_async` for callers without an event loop; inside a running loop it works in a thread of its own."""
    work = evaluate_async(suite, rows, lm, settings)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return run_in_thread(work)


async def evaluate_async(
    suite: JudgeSuite, rows: Iterable[LabeledTrace], lm: LM, settings: EvaluateSettings | None = None
) -> list[Judgment]:
    """One judgment per trace, judge and repeat, in the order: traces as given, judges as in the suite, repeats.

    The findings are raw: the suite's rule is not applied.

    One judgment of each trace goes first and warms the beginning of the prompt that all of them share, and each judge's
    first one goes before its repeats; the others follow at once, earlier traces first (see `CallOrder`). A failed call
    is a judgment with an outcome; a programming error is not caught.

    Raises:
        EvaluationStopped: the budget ended; it carries all judgments.
        ProviderDown: too many calls in a row have failed.
    """
    return await _Run(suite, [*rows], lm, settings or EvaluateSettings()).all()


class NoUsableReply(LMError):
    """There are replies, and not one can be used: asked again, the model says the same."""


def check_replies(judgments: Sequence[Judgment], *, usable: bool = True) -> None:
    """For results that are worth nothing without a single reply; `usable`: one that can be used.

    Raises:
        LMError: every call failed.
        NoUsableReply: no judgment can be used.
    """
    if judgments and all(judgment.outcome in FAILED for judgment in judgments):
        last = judgments[-1]
        raise LMError(
            str(last.outcome),
            f"{len(judgments)} calls failed and none succeeded; the last one: {last.detail}; mend that (model, "
            "endpoint or key), then start the same command again",
        )
    if usable and judgments and not any(judgment.usable for judgment in judgments):
        first = judgments[0]
        counts = Counter(str(judgment.outcome) for judgment in judgments)
        too_long = Outcome.TOO_LONG in (judgment.outcome for judgment in judgments)
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        raise NoUsableReply(
            str(first.outcome),
            f"not one of {len(judgments)} judgments can be used ({said}); the first one, {first.dimension} on trace "
            f"{first.trace_id}: {first.detail}; {_WAY_OUT if len(counts) == 1 and too_long else _OTHER_MODEL}",
        )


def cached_share(judgments: Sequence[Judgment]) -> float:
    """Of the prompt tokens of these judgments: what the provider's cache served."""
    sent = sum(judgment.prompt_tokens for judgment in judgments)
    return sum(judgment.cached_tokens for judgment in judgments) / sent if sent else 0.0


def save_judgments(path: Path, judgments: Iterable[Judgment]) -> None:
    """JSON Lines, one judgment a line, written whole or not at all."""
    write_lines(path, (json.dumps(asdict(judgment), ensure_ascii=True) for judgment in judgments))


def load_judgments(path: Path) -> list[Judgment]:
    """Reads what `save_judgments` wrote.

    Raises:
        TraceError: a line that is no judgment; the message names file and line.
    """
    judgments = []
    for number, line in read_lines(path):
        where = f"{path}, line {number}"
        try:
            judgments.append(_judgment(parse_json(line, where)))
        except (ValueError, TypeError, KeyError) as error:
            raise TraceError(f"{where}: accepted is a judgment as save_judgments writes it: {error}") from error
    return judgments


def _judgment(row: dict[str, Any]) -> Judgment:
    findings = (
        Finding(**{**finding, "span_ids": tuple(finding["span_ids"]), "severity": Impact(finding["severity"])})
        for finding in row["findings"]
    )
    changed = {"outcome": Outcome(row["outcome"]), "findings": tuple(findings), "warnings": tuple(row["warnings"])}
    return Judgment(**{**row, **changed})


class _Run:
    """One evaluation in progress: workers, as many as may be in flight, each of which takes what is to be read next."""

    def __init__(self, suite: JudgeSuite, rows: Sequence[LabeledTrace], lm: LM, settings: EvaluateSettings) -> None:
        self.rows = rows
        self.lm = lm
        self.settings = settings
        repeats = range(settings.first_repeat, settings.first_repeat + settings.repeats)
        self.readings = [(program, repeat) for program in suite.programs.values() for repeat in repeats]
        self.alone = len(self.readings) == 1 and not any(map(wants_plan, suite.programs.values()))
        self.most = max(1, settings.concurrency)
        self.order = CallOrder(len(rows), self.readings, ahead=self.most)
        self.working = 0
        self.stopped: BudgetExhausted | ProviderDown | None = None
        self.done: dict[Place, Judgment] = {}

    async def all(self) -> list[Judgment]:
        total = len(self.rows) * len(self.readings)
        try:
            with Progress(self.settings.progress, total, spent=_spent_by(self.lm)) as self.progress:
                async with asyncio.TaskGroup() as self.workers:
                    self.hire(total)
        except BaseExceptionGroup as errors:
            # The first error as it is; the group has cancelled the others.
            raise errors.exceptions[0] from None
        missing = total - len(self.done)
        if missing and self.stopped is None:
            raise RuntimeError(f"{missing} of {total} judgments were not made: somebody has cancelled their calls")
        judgments = [
            self.done.get((trace, number)) or _not_run(row, *reading)
            for trace, row in enumerate(self.rows)
            for number, reading in enumerate(self.readings)
        ]
        if (stop := self.stopped) is not None:
            said = stop.now() if stop.now else str(stop)
            if isinstance(stop, BudgetExhausted):
                raise EvaluationStopped(f"{said} ({missing} of {total} judgments were not made)", judgments)
            raise ProviderDown(said)
        return judgments

    def hire(self, wanted: int) -> None:
        for _ in range(min(wanted, self.most - self.working)):
            self.working += 1
            self.workers.create_task(self.work())

    async def work(self) -> None:
        while self.stopped is None and (place := self.order.take()) is not None:
            await self.one(place)
            # This worker goes on with one of those that waited.
            self.hire(self.order.ended(place) - 1)
            # A model that answers at once would keep the loop from an interrupt.
            await asyncio.sleep(0)
        self.working -= 1

    async def one(self, place: Place) -> None:
        trace, number = place
        program, repeat = self.readings[number]
        try:
            judgment = await judge(
                program, self.rows[trace].trace, self.lm, repeat, seed=self.settings.seed, alone=self.alone
            )
        except (BudgetExhausted, ProviderDown) as stop:
            # Not raised here: calls in flight end in peace, no new one is made.
            self.stopped = self.stopped or stop
            return
        self.done[place] = judgment
        self.progress.update()


def _not_run(row: LabeledTrace, program: JudgeProgram, repeat: int) -> Judgment:
    detail = "the budget was used up before this call"
    return Judgment(row.trace_id, program.dimension, program.hash, repeat, Outcome.NOT_RUN, detail=detail)


@runtime_checkable
class _Accounted(Protocol):
    def spent(self) -> Usage: ...


def _spent_by(lm: LM) -> Callable[[], str] | None:
    return (lambda: _in_dollars(lm.spent())) if isinstance(lm, _Accounted) else None


def _in_dollars(usage: Usage) -> str:
    """Empty where nothing is known to be spent."""
    return f"{usage.dollars:.2f} dollars so far" if usage.dollars else ""
