"""Which calls an evaluation still has to make, and replies to them that were had elsewhere.

Both are the evaluation itself, run with an LM that makes no call: it answers from the ledger and from the replies, and
notes what is missing. So what comes after a reply (a plan that other calls are shown, a reply that was cut) is asked
for as soon as that reply is there, and there is no second account of what an evaluation asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

from judges.judgment import Judgment, Outcome
from judges.ledger.budget import Usage, reserved_tokens
from judges.lm import BudgetExhausted, LMRequest
from judges.models.connect import is_simulated
from labeled_traces.files import read_text, write_lines
from pipeline.batch.call_files import CallFiles
from pipeline.batch.elsewhere import Elsewhere, run_elsewhere
from pipeline.batch.prices import BatchPrices
from pipeline.batch.replies import Replies, read_replies, shown
from pipeline.batch.submissions import check_settled
from pipeline.config import PipelineError
from pipeline.dry_run import prompt_tokens
from pipeline.measure import Evaluation, Measurement, open_evaluation
from pipeline.prepare import Say

_AT_ONCE = 32
"""So many replies are filed side by side."""
_EXPORTED = "exported.txt"
"""In the folder of the evaluation: where its calls went last."""
_NAMED = 10
"""So many lines that are wrong are named one by one."""


@dataclass(frozen=True)
class Exported:
    """`calls` in `files`, which take about `prompt_tokens`, and at most `completion_tokens` and `most_dollars` (None:
    unknown). `targets`: the model and endpoint of each file. `over_budget`: calls that a cap left out. `waiting`:
    judgments whose call follows from a plan."""

    files: Sequence[Path]
    targets: Sequence[tuple[str, str]]
    calls: int
    bytes: int
    prompt_tokens: int
    completion_tokens: int
    most_dollars: float | None
    simulated: bool
    waiting: int
    over_budget: int
    results: Path

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "files": [str(path) for path in self.files], "results": str(self.results)}


def export_calls(work: Measurement, path: Path, say: Say) -> Exported:
    """Writes the calls that the evaluation still has to make, those of a trace together.

    A cap of the budget leaves out what could pass it, at the most that each call can cost.

    Raises:
        PipelineError, JudgeError, TraceError, LeakageError: bad input.
        BudgetExhausted: not one call fits into the budget.
    """
    check_settled(path)
    task = open_evaluation(work, say)
    with task.open_lm() as lm, CallFiles(path) as files:
        plan = _Export(task, files, lm.spent())
        asked = Elsewhere(lm, note=plan.add)
        run_elsewhere(task, asked)
        if plan.left and not plan.calls:
            stays = (
                f"; {', '.join(map(str, files.earlier))} of an earlier export is still there" if files.earlier else ""
            )
            raise BudgetExhausted(f"no call is exported: {plan.why}{stays}")
    write_lines(task.out / _EXPORTED, [str(path)])
    return Exported(
        files=tuple(files.files),
        targets=tuple(files.files.values()),
        calls=plan.calls,
        bytes=files.bytes,
        prompt_tokens=plan.prompt,
        completion_tokens=plan.completion,
        most_dollars=plan.dollars,
        simulated=all(is_simulated(one.knobs.model) for one in task.suite.programs.values()),
        waiting=asked.waiting,
        over_budget=plan.left,
        results=task.out,
    )


class _Export:
    """Writes calls as long as all together fit into the budget, and adds up what they are expected to take."""

    def __init__(self, task: Evaluation, files: CallFiles, spent: Usage) -> None:
        self.calls = self.prompt = self.completion = self.left = 0
        self.dollars: float | None = 0.0
        self.why: str | None = None
        self._budget = task.work.budget
        self._cost_of = task.models.cost_of
        self._prices = BatchPrices(task.work.prices)
        self._files = files
        self._taken = spent

    def add(self, request: LMRequest) -> None:
        most = reserved_tokens(request)
        cost = self._cost_of(request, *most) or 0.0
        call = Usage(1, sum(most), cost * self._prices.part(request))
        self.why = self.why or self._budget.excess(self._taken, call)
        if self.why:
            self.left += 1
            return
        taken = self._taken
        self._taken = Usage(taken.calls + 1, taken.tokens + call.tokens, taken.cost + call.cost)
        texts = [message.content for message in request.messages]
        prompt = prompt_tokens(request.model, request.endpoint, texts, request.schema)
        dearest = self._prices.most(request, prompt, request.max_tokens)
        self.calls += 1
        self.prompt += prompt
        self.completion += request.max_tokens
        self.dollars = None if dearest is None or self.dollars is None else self.dollars + dearest
        self._files.add(request)


@dataclass(frozen=True)
class Imported:
    """`filed`: replies that are new to the ledger; `known`: those that it held; `differing`: where those of them stand
    that differ from what it held, which they have `replaced` or not. `unreadable`: what is wrong with replies that were
    filed, now or before, and are no answer to what was asked. `errors`: kind -> calls that the files
    do not answer. `repeated`: replies to a call that had one before in the files. `missing`: calls that still have no
    reply; `waiting`: judgments whose call follows from a plan. `passed`: says which cap of the budget is passed.
    `exported`: where the calls were written; empty: nobody knows."""

    filed: int
    known: int
    differing: Sequence[str]
    replaced: bool
    unreadable: Sequence[str]
    repeated: int
    errors: Mapping[str, int]
    missing: int
    waiting: int
    calls: int
    tokens: int
    cost: float | None
    simulated: bool
    passed: str | None
    exported: str
    results: Path

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "errors": dict(self.errors), "results": str(self.results)}


def import_replies(work: Measurement, paths: Sequence[Path], say: Say, *, replace: bool = False) -> Imported:
    """Files the replies to calls of this evaluation; each is kept as soon as it is filed, so a kill loses none.
    `replace`: also those that differ from what the ledger holds, see `correct`; else they change nothing.

    Raises:
        PipelineError, JudgeError, TraceError, LeakageError: bad input. Lines that cannot be read, and replies to calls
            of another evaluation, are named after all others have been filed.
    """
    replies = read_replies(_there(paths, say))
    task = open_evaluation(work, say)
    with task.open_lm() as lm:
        asked = Elsewhere(lm, replies, BatchPrices(work.prices), replace=replace)
        judgments = run_elsewhere(task, asked, 1 if replace else _AT_ONCE)
        spent = lm.spent()
    _refuse(replies, asked)
    note = task.out / _EXPORTED
    return Imported(
        filed=asked.filed,
        known=asked.known,
        differing=asked.differing,
        replaced=replace,
        unreadable=[*asked.unreadable, *_unreadable(judgments)],
        repeated=replies.repeated,
        errors=Counter(kind for name, kind in replies.errors.items() if name in asked.missing),
        missing=len(asked.missing),
        waiting=asked.waiting,
        calls=spent.calls,
        tokens=spent.tokens,
        cost=spent.dollars,
        simulated=all(is_simulated(one.knobs.model) for one in task.suite.programs.values()),
        passed=work.budget.excess(spent, Usage()),
        exported=read_text(note).strip() if note.is_file() else "",
        results=task.out,
    )


def _there(paths: Sequence[Path], say: Say) -> list[Path]:
    """The files; a pattern that the shell has left as it is, since no file is like it, is none.

    Raises:
        PipelineError: nothing is left.
    """
    found = []
    for path in paths:
        is_pattern = bool(set("*?[") & set(str(path))) and not path.exists()
        alike = sorted(map(Path, glob(str(path)))) if is_pattern else [path]
        if not alike:
            say(f"no file is like {path}")
        found += alike
    if not found:
        raise PipelineError(f"no file of replies is like {', '.join(map(str, paths))}: accepted is one at least")
    return list(dict.fromkeys(found))


def _unreadable(judgments: Sequence[Judgment]) -> Iterator[str]:
    for one in judgments:
        if one.outcome is Outcome.UNPARSEABLE:
            yield f"{one.dimension} on trace {one.trace_id}, repeat {one.repeat}: {one.detail}"


def _refuse(replies: Replies, asked: Elsewhere) -> None:
    """Raises: PipelineError, if lines were no replies, or replies were not to this evaluation."""
    said = []
    foreign = [f"{found.where} ({shown(name)})" for name, found in replies.found.items() if name not in asked.asked]
    if foreign:
        said.append(
            f"{len(foreign)} of {len(replies.found)} replies are to no call of this evaluation: {listed(foreign)}; "
            "accepted are replies to what `batch export` wrote with the same data, judges, model and options"
        )
    if replies.malformed:
        said.append(f"{len(replies.malformed)} lines cannot be read: {listed(replies.malformed)}")
    if said:
        kept = f"{asked.filed} filed, {asked.known} there before"
        if asked.differing:
            did = "were replaced" if asked.replaces else "differ from what is there"
            kept += f", of which {len(asked.differing)} {did}"
        raise PipelineError(f"{'; '.join(said)}. The others are kept: {kept}")


def listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return "; ".join(names[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
