"""From what went wrong on a minibatch to a new text: feedback lines that quote no label, and the reflection call."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from judges.judgment import Finding
from judges.ledger.ledger_lm import NotInLedger
from judges.lm import LMError, LMRequest, Message
from judges.program import PROMPTS
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import score_from_impacts
from pipeline.metrics.cell import Cell
from pipeline.optimizers.base import SearchContext
from pipeline.optimizers.proposals import personal_masked
from pipeline.own_thread import run_in_thread

MOST_LINES = {"missed": 14, "misplaced": 10, "spurious": 10, "wrong score": 3, "good": 3}
"""Kind of feedback -> the most lines of it, in the order of the prompt."""
_SAID_CHARS = 240
_TEMPERATURE = 1.0
_GIVE_UP_AFTER = 3
"""So many calls, and not one reply: the reflection model is taken for dead."""
_MAX_TOKENS = 4096
_REPLY = re.compile(r"^<<<[ \t]*\n(.*?)^>>>", re.MULTILINE | re.DOTALL)


def feedback(read: Iterable[tuple[LabeledTrace, Sequence[Cell]]], dimension: str) -> list[str]:
    """One line per trace and thing that went wrong (or well): what happened in several repeats of it counts once.

    A line names categories, impacts and kinds and names of spans; it never quotes a label's description or evidence,
    so that none can be copied into a prompt. `read`: traces, each with what the judge said of it in every repeat.
    """
    found: dict[str, list[str]] = {kind: [] for kind in MOST_LINES}
    for row, cells in read:
        lines = [line for cell in cells if cell.usable for line in _lines(row, cell, dimension)]
        for kind, text in dict.fromkeys(lines):
            found[kind].append(f"- {kind}: {text}")
    return [line for kind, lines in found.items() for line in lines[: MOST_LINES[kind]]]


def _lines(row: LabeledTrace, cell: Cell, dimension: str) -> Iterator[tuple[str, str]]:
    for error in cell.missed:
        yield "missed", f"category={error.category}; impact={error.impact}; at={place(row, error.span_id)}"
    for finding, error in cell.misplaced:
        where = f"reported at={_reported(row, finding)}; belongs at={place(row, error.span_id)}"
        yield "misplaced", f"category={error.category}; {where}"
    for finding in cell.spurious:
        said = personal_masked(" ".join(finding.explanation.split()))[:_SAID_CHARS]
        yield "spurious", f"reported at={_reported(row, finding)} on a trace without this error; the judge said: {said}"
    people = _human_scores(row, dimension)
    if cell.score is not None and cell.score not in people:
        yield "wrong score", f"said={cell.score}; people said={' or '.join(map(str, people))}"
    for finding, error in cell.located:
        yield "good", f"category={error.category}; found at={_reported(row, finding)}"


def _human_scores(row: LabeledTrace, dimension: str) -> list[int]:
    """What people gave, each score once; where they gave none, what follows from their error labels."""
    given = {label.score for label in row.scores if label.dimension == dimension}
    return sorted(given) or [score_from_impacts(error.impact for error in row.errors_of(dimension))]


def _reported(row: LabeledTrace, finding: Finding) -> str:
    return place(row, finding.span_ids[0] if finding.span_ids else None)


def place(row: LabeledTrace, span_id: str | None) -> str:
    """A span as its kind and name: `TOOL "db_lookup"`."""
    span = row.trace.by_id.get(span_id or "")
    return "no span" if span is None else f"{span.kind} {json.dumps(span.name, ensure_ascii=False)}"


class NoReflection(LMError):
    """The reflection model has answered nothing at all: a broken set-up, not a proposal that failed."""


class Reflector:
    """Asks the reflection model for new texts. An equal prompt that is asked again in this search is a new repeat.

    `texts`: how many it was to write; `useless`: why some of them could not even be tried.
    """

    def __init__(self, context: SearchContext, dimension: str) -> None:
        self.context = context
        self.dimension = dimension
        self.calls = 0
        self.replies = 0
        self.texts = 0
        self.useless: list[str] = []
        self._asked: Counter[tuple[Message, ...]] = Counter()

    def propose(self, part: str, current: str, lines: Sequence[str]) -> str | None:
        """The new text of a part; None where the reply was cut off or holds none.

        Raises:
            BudgetExhausted, LMError: no reply.
        """
        texts = _REPLY.findall(self.ask(Message("user", reflection_prompt(part, self.dimension, current, lines))))
        return texts[-1].strip() if texts else None

    def ask(self, *messages: Message) -> str:
        """The reply to any prompt; empty where it was cut off.

        Raises:
            BudgetExhausted, LMError: no reply.
            NoReflection: the first calls all failed and none succeeded.
        """
        request = LMRequest(
            model=self.context.reflection_model,
            messages=messages,
            temperature=_TEMPERATURE,
            max_tokens=_MAX_TOKENS,
            endpoint=self.context.reflection_endpoint,
            seed=self.context.evaluate.seed,
            repeat=self._asked[messages],
        )
        self._asked[messages] += 1
        self.calls += 1
        try:
            reply = run_in_thread(self.context.lm.complete(request))
        except NotInLedger:
            raise
        except LMError as error:
            if self.replies == 0 and self.calls >= _GIVE_UP_AFTER:
                raise NoReflection(
                    error.kind, f"the reflection model {request.model!r} gave no reply: {error}"
                ) from error
            raise
        self.replies += 1
        return "" if reply.finish_reason == "length" else reply.text


def reflection_prompt(part: str, dimension: str, current: str, lines: Sequence[str]) -> str:
    """The prompt: placeholders are filled in one pass, so braces in a text or a trace change nothing."""
    values = {"part": part, "dimension": dimension, "current": current, "feedback": "\n".join(lines)}
    template = (PROMPTS / "reflection.md").read_text(encoding="utf-8")
    return re.sub(r"\{(part|dimension|current|feedback)\}", lambda found: values[found[1]], template)
