"""What is handed from step to step and told elsewhere: wrappers around spans, and the state of a graph.

A span of a chain repeats what the models and tools below and before it were given and gave. It shows only what they do
not show, and is no step of its own where nothing is left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from judges.messages import contents_of, message_text, messages_of
from judges.notation import text_of
from labeled_traces.trace import JSON, Span, SpanKind, Trace

_KINDS = (SpanKind.CHAIN, SpanKind.UNKNOWN)
_NOTHING: tuple[JSON, ...] = (None, "", {}, [], {"messages": []})


@dataclass(frozen=True)
class Told:
    """What the spans of models and tools show: `parts` of messages (a text, a call), and `results` of tools."""

    parts: frozenset[str]
    results: frozenset[str]

    @classmethod
    def by(cls, trace: Trace) -> Told:
        asked = (value for span in trace.spans if span.kind is SpanKind.LLM for value in (span.inputs, span.outputs))
        parts = {part for value in asked for message in messages_of(value) or [] for part in _parts(message)}
        results = {text_of(span.outputs) for span in trace.spans if span.kind is SpanKind.TOOL}
        return cls(frozenset(parts), frozenset(results))

    def without(self, span: Span) -> Span:
        """The span without the messages that others show; the very same where it has none. What a run was started with
        stays: it is the goal."""
        if span.kind not in _KINDS:
            return span
        inputs = span.inputs if span.parent_id is None else self._left(span.inputs)
        outputs = self._left(span.outputs)
        if inputs is span.inputs and outputs is span.outputs:
            return span
        return replace(span, inputs=inputs, outputs=outputs)

    def _left(self, value: JSON) -> JSON:
        messages = messages_of(value)
        if messages is None:
            return value
        left = [message for message in messages if not self._is_told(message)]
        if len(left) == len(messages):
            return value
        rest = {key: other for key, other in value.items() if key != "messages"}
        return {**rest, "messages": left} if rest or left else None

    def _is_told(self, message: dict[str, JSON]) -> bool:
        if self.parts.issuperset(_parts(message)):
            return True
        return message["role"] == "tool" and message_text(message.get("content")) in self.results


def _parts(message: dict[str, JSON]) -> list[str]:
    """What a message says and calls, by whatever name its author is called."""
    unnamed = {key: value for key, value in message.items() if key != "name"}
    return [content.header + content.text for content in contents_of("", unnamed)]


def without_wrappers(trace: Trace, told: Told) -> list[tuple[Span, str | None]]:
    """The spans that are shown, in walk order, each with the nearest parent that is shown."""
    shown_as: dict[str | None, str | None] = {None: None}
    spans = []
    for span in trace.walk():
        parent = shown_as[span.parent_id]
        if _is_wrapper(trace, span, told):
            shown_as[span.span_id] = parent
        else:
            shown_as[span.span_id] = span.span_id
            spans.append((span, parent))
    return spans


def _is_wrapper(trace: Trace, span: Span, told: Told) -> bool:
    """A CHAIN or UNKNOWN span around others that adds no content of its own to theirs, nor an error."""
    children = trace.children(span.span_id)
    if span.kind not in _KINDS or not children:
        return False
    if (span.error or span.status == "ERROR") and (
        span.parent_id is None or all((child.status, child.error) != (span.status, span.error) for child in children)
    ):
        return False
    left = told.without(span)
    own = {text_of(value) for value in (left.inputs, left.outputs) if value not in _NOTHING}
    return not own or own <= {text_of(value) for child in children for value in (child.inputs, child.outputs)}
