"""What is likely to be wrong with a data set, by kind: how often, an example, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, TypeAlias

from labeled_traces.groups import crowded
from labeled_traces.label import DIMENSIONS, NOT_PLACED, SCORES
from labeled_traces.split_report import REACH, needed
from labeled_traces.trace import SpanKind
from pipeline.inspect.contents import EMPTY, Contents, messages, raters_of
from pipeline.terminal import counted

_NEAR = 0.9
_IN_CHATS = ("system", "user", "human")
"""Names of the spans that hold, in a chat log, what the model was sent."""


@dataclass(frozen=True)
class Warned:
    """`count` times `kind`; `example`: where; `advice`: what to do about it."""

    kind: str
    count: int
    example: str
    advice: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Find: TypeAlias = Callable[[Contents], Iterator[str]]
"""Yields what it finds in a trace: the span or label, and what of it; "" where it is the trace itself."""


def check(data: Sequence[Contents]) -> list[Warned]:
    """All that was found, what concerns single traces first."""
    warned = []
    for kind, (find, advice) in TRACE_CHECKS.items():
        found = [f"trace {one.row.trace_id}{f', {what}' if what else ''}" for one in data for what in find(one)]
        if found:
            warned.append(Warned(kind, len(found), found[0], advice))
    return [*warned, *_of_all(data)]


def _no_goal(one: Contents) -> Iterator[str]:
    if not one.goal:
        yield ""


def _no_answer(one: Contents) -> Iterator[str]:
    if not one.answer:
        yield ""


def _no_messages(one: Contents) -> Iterator[str]:
    if any(span.kind is SpanKind.CHAIN and span.name.lower() in _IN_CHATS for span in one.trace.spans):
        return
    for span in one.trace.spans:
        if span.kind is SpanKind.LLM and not messages(span.inputs):
            yield f"span {span.span_id} ({span.name})"


def _no_reply(one: Contents) -> Iterator[str]:
    for span in one.trace.spans:
        if span.kind in (SpanKind.LLM, SpanKind.TOOL) and span.outputs in EMPTY and not span.error:
            yield f"span {span.span_id} ({span.kind} {span.name})"


def _unlisted_tool(one: Contents) -> Iterator[str]:
    if one.listed_tools:
        for name, span_id in one.called_tools.items():
            if name not in one.listed_tools:
                yield f"span {span_id}: {name!r}"


def _no_schemas(one: Contents) -> Iterator[str]:
    if one.called_tools and not one.listed_tools:
        yield f"it calls {', '.join(map(repr, sorted(one.called_tools)[:3]))}"


def _several_roots(one: Contents) -> Iterator[str]:
    if len(one.trace.roots) > 1:
        yield f"{len(one.trace.roots)} roots"


def _no_span(one: Contents) -> Iterator[str]:
    for error in one.row.errors:
        if error.span_id is None and error.category != NOT_PLACED:
            yield f"{error.category or 'no category'} by {error.rater or 'nobody named'}"


def _not_shown(one: Contents) -> Iterator[str]:
    for error in one.row.errors:
        if error.span_id is not None and error.span_id not in one.shown:
            why = "left out for the limit" if error.span_id in one.rendered else "a wrapper"
            yield f"span {error.span_id} ({why}): {error.category}"


def _no_words(one: Contents) -> Iterator[str]:
    for error in one.row.errors:
        if not (error.description.strip() or error.evidence.strip()):
            yield f"{error.category or 'no category'} at {error.span_id or 'no span'}"


def _score_alone(one: Contents) -> Iterator[str]:
    known = {name for error in one.row.errors if error.category != NOT_PLACED for name in error.dimensions}
    for score in one.row.scores:
        if score.score < max(SCORES) and score.dimension not in known:
            yield f"{score.dimension} has {score.score}"


def _too_long(one: Contents) -> Iterator[str]:
    if one.fitted.cut or len(one.fitted.span_ids) < len(one.whole.span_ids):
        yield f"{one.whole.tokens:,} tokens, {one.fitted.cut:,} characters left out at {one.limit:,}"


def _near_limit(one: Contents) -> Iterator[str]:
    if _NEAR * one.limit < one.whole.tokens <= one.limit:
        yield f"{one.whole.tokens:,} of {one.limit:,} tokens"


TRACE_CHECKS: Mapping[str, tuple[Find, str]] = {
    "trace without a goal": (
        _no_goal,
        "no judge can tell whether it was reached: record the task as the input of the root span, or as a user message",
    ),
    "trace without a final answer": (
        _no_answer,
        "goal fulfillment is judged on it: record it as the output of the root span; if the run died, label that",
    ),
    "LLM span without messages": (
        _no_messages,
        "system prompt, role and history are not seen: switch on the recording of messages in the instrumentation",
    ),
    "LLM or TOOL span without output or error": (
        _no_reply,
        "what it gave back is not seen: the run was cut short, or its outputs are not recorded",
    ),
    "tool that is called and that no schema lists": (
        _unlisted_tool,
        "either the agent made it up (an error to label) or schemas are missing: record all tools of an LLM call",
    ),
    "trace with calls of tools and without any schema": (
        _no_schemas,
        "tool selection cannot be judged without the choice there was: record the tools that the model was given",
    ),
    "trace with several roots": (
        _several_roots,
        "a part of the tree is missing: export whole traces, with the span that starts the run",
    ),
    "error label without a span": (
        _no_span,
        "it counts for coverage, never for localization: have the rater name the span",
    ),
    "error label at a span that judges do not see": (
        _not_shown,
        "no judge can cite it: move the label to the span with the content, or raise --trace-tokens",
    ),
    "error label without description or evidence": (
        _no_words,
        "the text matcher and the search for better prompts learn from its words: have the rater write a sentence",
    ),
    "score below the best, and no error that somebody marked": (
        _score_alone,
        "it counts as an error without a span, of the category `not placed`: have the rater say which it is, and where",
    ),
    "trace that does not fit the limit": (
        _too_long,
        "judges read it cut: raise --trace-tokens as the model's window allows; --trace ID --render shows the cuts",
    ),
    "trace near the limit": (_near_limit, "a little longer, and judges read it cut: raise --trace-tokens in time"),
}


def _of_all(data: Sequence[Contents]) -> Iterator[Warned]:
    """What concerns the data set as a whole."""
    rows = [one.row for one in data]
    counts = Counter(name for row in rows for error in row.distinct_errors for name in error.dimensions)
    least = needed()
    few = {name: counts[name] for name in DIMENSIONS if counts[name] < least}
    if not any(row.errors for row in rows):
        advice = "have people label (gpa-judges label export), or join a table of labels (import --labels FILE)"
        yield Warned("data set without an error label", 1, f"none in {counted(len(rows), 'trace')}", advice)
    elif few:
        said = ", ".join(f"{name} {count}" for name, count in few.items())
        advice = f"below {least} coverage is known to within {REACH:g} at best, and a split takes from it: label more"
        yield Warned("dimension with few errors", len(few), said, advice)
    if not any(row.is_clean for row in rows):
        advice = "false alarms cannot be measured: label runs without errors as well, and say that they were read"
        yield Warned("data set without a clean trace", 1, f"none of {len(rows)}", advice)
    unknown = [row for row in rows if row.clean == "unknown" and not row.errors and not row.scores]
    if unknown:
        advice = "nobody is known to have read it, so no finding there is right or wrong: label it, or leave it out"
        yield Warned("trace that nobody looked at", len(unknown), f"trace {unknown[0].trace_id}", advice)
    if group := crowded(rows):
        yield Warned("group with more than a fifth of all traces", 1, group, "no split can part it")
    hashes = Counter(row.trace.content_hash for row in rows)
    if twice := [row for row in rows if hashes[row.trace.content_hash] > 1]:
        advice = "a split keeps them together, but they count as several: keep one"
        yield Warned("trace whose content is another one's too", len(twice), f"trace {twice[0].trace_id}", advice)
    yield from _raters(data)


def _raters(data: Sequence[Contents]) -> Iterator[Warned]:
    read = [raters_of(one.row) for one in data]
    names = sorted({name for raters in read for name in raters if name})
    apart = [pair for pair in combinations(names, 2) if not any(raters.issuperset(pair) for raters in read)]
    if apart:
        advice = "whether they mean the same by an error is not known: give both some of the same traces"
        yield Warned("pair of raters without a common trace", len(apart), " and ".join(apart[0]), advice)
    nameless = [one for one, raters in zip(data, read, strict=True) if "" in raters]
    if nameless:
        advice = "agreement of people cannot be measured: name the rater of each label"
        yield Warned("trace with labels of no named rater", len(nameless), f"trace {nameless[0].row.trace_id}", advice)
