"""A trace as text within a token limit. The notation is described in `judges.notation`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from judges.fit import BYTES_PER_TOKEN, Block, Content, fit
from judges.handed_on import Told, without_wrappers
from judges.messages import conversation
from judges.notation import ERROR, INPUT, OTHER, OUTPUT, SPAN, TOOLS, bare_or_quoted, clean, json_text, quoted, text_of
from labeled_traces.trace import JSON, Span, SpanKind, Trace

NAME_LENGTH = 200
"""Longer span names are cut in the header line."""


@dataclass(frozen=True)
class Rendering:
    """A trace as a judge reads it. `span_ids` are those that the text shows, in its order; `cut` is the number of
    characters that were left out for the limit; `tokens` is an estimate (UTF-8 bytes / 4)."""

    text: str
    cut: int
    tokens: int
    span_ids: tuple[str, ...]


def render(trace: Trace, token_limit: int) -> Rendering:
    """The trace as text of at most `token_limit` tokens.

    An LLM span shows only the messages that no earlier LLM span has shown; a set of tools is shown once; wrappers
    are dropped and their children stand under the nearest span that is shown. What is handed from step to step (the
    state of a graph) shows only the messages that no model's and no tool's span shows.
    """
    told = Told.by(trace)
    spans = without_wrappers(trace, told)
    seen = _Seen()
    fitted = fit([_block(told.without(span), parent, seen) for span, parent in spans], token_limit)
    shown = tuple(spans[i][0].span_id for i in fitted.kept)
    return Rendering(fitted.text, fitted.cut, estimate_tokens(fitted.text), shown)


def estimate_tokens(text: str) -> int:
    """UTF-8 bytes / 4, rounded up: near enough for limits and budgets, for any model."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


class _Seen:
    """What earlier LLM spans have shown: each message with its count in the longest history, and sets of tools."""

    def __init__(self) -> None:
        self._messages: Counter[str] = Counter()
        self._tools: set[str] = set()

    def new_messages(self, history: list[list[Content]]) -> Iterator[Content]:
        counts: Counter[str] = Counter()
        for message in history:
            key = _key(message)
            counts[key] += 1
            if counts[key] > self._messages[key]:
                yield from message

    def add(self, conversation: list[list[Content]]) -> None:
        self._messages |= Counter(map(_key, conversation))

    def is_new_tool_set(self, tools: str) -> bool:
        new = tools not in self._tools
        self._tools.add(tools)
        return new


def _key(message: list[Content]) -> str:
    return "\n".join(content.header + content.text for content in message)


def _block(span: Span, parent: str | None, seen: _Seen) -> Block:
    name = span.name if len(span.name) <= NAME_LENGTH else span.name[:NAME_LENGTH] + "..."
    header = (
        f"{SPAN}{bare_or_quoted(span.span_id)} kind={span.kind} name={quoted(name)} "
        f"parent={'-' if parent is None else bare_or_quoted(parent)}"
        f"{' status=ERROR' if span.status == 'ERROR' else ''}\n"
    )
    contents = [*_inputs(span, seen), *_outputs(span)]
    if span.error:
        contents.append(Content(ERROR, "", clean(span.error)))
    return Block(header, tuple(contents))


def _inputs(span: Span, seen: _Seen) -> list[Content]:
    history = conversation(INPUT, span.inputs)
    if history is None:
        return _plain(INPUT, span.inputs)
    contents = []
    tools = span.inputs.get("tools")
    if tools and seen.is_new_tool_set(json_text(tools)):
        contents.append(Content(INPUT, f"[{TOOLS}] ", json_text(tools)))
    other = {key: value for key, value in span.inputs.items() if key not in ("messages", "tools")}
    if other:
        contents.append(Content(INPUT, f"[{OTHER}] ", json_text(other)))
    if span.kind is not SpanKind.LLM:
        return contents + [content for message in history for content in message]
    contents += seen.new_messages(history)
    seen.add(history + (conversation(INPUT, span.outputs) or []))
    return contents


def _outputs(span: Span) -> list[Content]:
    answers = conversation(OUTPUT, span.outputs)
    if answers is None:
        return _plain(OUTPUT, span.outputs)
    contents = [content for message in answers for content in message]
    other = {key: value for key, value in span.outputs.items() if key != "messages"}
    return [*contents, Content(OUTPUT, f"[{OTHER}] ", json_text(other))] if other else contents


def _plain(prefix: str, value: JSON) -> list[Content]:
    return [] if value is None else [Content(prefix, "", text_of(value))]
