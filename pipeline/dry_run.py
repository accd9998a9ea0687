"""What judging would send, found by judging with an LM that sends nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from judges.judge import judge
from judges.lm import LMReply, LMRequest
from judges.models.connect import is_simulated
from judges.models.litellm_transport import wants_marks
from judges.models.tokens import count_tokens
from judges.program import JudgeProgram
from labeled_traces.dataset import LabeledTrace

T = TypeVar("T")
Find = Callable[[str], LMReply | None]
"""The kept reply to a call, by the call's key."""

PLAN = "plan"
"""The kind of a call that extracts a plan; other kinds are the judges' dimensions."""

PER_MESSAGE = 4
"""Tokens of a chat template around each message: OpenAI's; others differ by a few."""
LEAST_CACHED, CACHE_STEP = 1024, 128
"""Hosted providers keep prefixes from so many tokens, in such steps (OpenAI; Anthropic's least is the same)."""

_PLAN_TEXT = "First look up the order, then check the policy, and then change it or tell the customer why not. " * 3
_SOME_PLAN = json.dumps({"source": "planning_text", "plans": [{"span_id": "", "text": _PLAN_TEXT}]})


@dataclass(frozen=True)
class Call:
    """`cached` of the prompt's tokens are in an earlier call of the same model as well, so its cache may serve them;
    `written` are those that are put into a cache that charges for it.

    `reading` is 0 for the first one of a trace. `most`: the longest reply. `hosted`: by a provider, not by a server of
    the user's. `reply`: the one that is kept, so that the call is not made.
    """

    model: str
    kind: str
    reading: int
    prompt: int
    cached: int
    written: int
    most: int
    hosted: bool
    reply: LMReply | None


def dry_run(
    programs: Iterable[JudgeProgram],
    rows: Iterable[LabeledTrace],
    readings: int,
    find: Find | None = None,
    seed: int | None = None,
) -> list[Call]:
    """The calls that judging these rows would make, each once, in the order in which an evaluation makes them. A plan
    that is not known yet is taken to be there, and of ordinary length."""
    lm, programs = _DryLM(find), list(programs)
    for row in rows:
        for reading in range(readings):
            for program in programs:
                lm.kind, lm.reading = program.dimension, reading
                _finish(judge(program, row.trace, lm, reading, seed))
    return lm.calls


class _DryLM:
    """An LM that answers from what is kept, else with nothing. `kind` and `reading` are those of the next calls."""

    def __init__(self, find: Find | None) -> None:
        self.calls: list[Call] = []
        self.kind, self.reading = "", 0
        self._find = find or (lambda _: None)
        self._asked: set[str] = set()
        self._sent: dict[tuple[object, ...], str] = {}

    async def complete(self, request: LMRequest) -> LMReply:
        """See `LM.complete`."""
        key, plan = request.key, "plans" in (request.schema or {}).get("properties", {})
        reply = self._find(key)
        if key not in self._asked:
            self._asked.add(key)
            self._add(request, PLAN if plan else self.kind, reply)
        return reply or LMReply(_SOME_PLAN if plan else "")

    def _add(self, request: LMRequest, kind: str, reply: LMReply | None) -> None:
        hosted = is_hosted(request.model, request.endpoint)
        text, schema = _prompt(hosted, [message.content for message in request.messages], request.schema)
        model = (request.model, request.endpoint, reply is None)
        # Some providers cache what is marked, and nothing behind it.
        marked = len(text) - len(request.messages[-1].content) + request.messages[-1].shared
        marks = wants_marks(request.model)
        places = [(*model, "any"), (*model, "schema", schema), (*model, "kind", kind)]
        start = max(_shared(text, self._sent.get(place, "")) for place in places)
        self._sent.update(dict.fromkeys(places, text))
        tokens = count_tokens(text, request.model) + PER_MESSAGE * len(request.messages)
        cached = _cacheable(text[: min(start, marked) if marks else start], request.model, hosted)
        written = _cacheable(text[:marked], request.model, hosted) - cached if marks else 0
        self.calls.append(
            Call(request.model, kind, self.reading, tokens, cached, written, request.max_tokens, hosted, reply)
        )


def prompt_tokens(model: str, endpoint: str, contents: Sequence[str], schema: object) -> int:
    """About what a call with these messages and this schema of its reply takes."""
    text, _ = _prompt(is_hosted(model, endpoint), contents, schema)
    return count_tokens(text, model) + PER_MESSAGE * len(contents)


def is_hosted(model: str, endpoint: str) -> bool:
    """By a provider, not by a server of the user's."""
    return not (endpoint or is_simulated(model))


def _prompt(hosted: bool, contents: Sequence[str], schema: object) -> tuple[str, str]:
    """What counts as prompt, and the schema in it. Hosted providers put that before all else, where it counts as prompt
    and as part of the cached prefix."""
    written = json.dumps(schema, separators=(",", ":")) if hosted and schema else ""
    return "\n\n".join((written, *contents)), written


def _cacheable(text: str, model: str, hosted: bool) -> int:
    """The tokens of a beginning that a cache keeps."""
    tokens = count_tokens(text, model)
    if not hosted:
        return tokens
    return tokens // CACHE_STEP * CACHE_STEP if tokens >= LEAST_CACHED else 0


def _shared(text: str, other: str) -> int:
    """The length of the common beginning, in whole paragraphs: tokens at a place where texts differ are not shared."""
    if text == other:
        return len(text)
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text[low:middle] == other[low:middle] else (low, middle - 1)
    return max(0, text.rfind("\n\n", 0, low) + 2) if "\n\n" in text[:low] else 0


def _finish(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing: also inside a running event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("unreachable: an LM that answers at once makes nobody wait")


def sample(rows: Sequence[LabeledTrace], size: int) -> list[LabeledTrace]:
    """`size` rows that stand for all: spread evenly over their order (what is kept of a stopped evaluation are its
    first rows), and over the numbers of spans within each twentieth of it."""
    if len(rows) <= size:
        return list(rows)
    order = sorted(range(len(rows)), key=lambda i: (i * 20 // len(rows), len(rows[i].trace.spans)))
    return [rows[order[int((i + 0.5) * len(rows) / size)]] for i in range(size)]
