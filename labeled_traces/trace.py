"""What an agent did: a frozen tree of spans. No file access, no labels."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

JSON: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, or a list / str-keyed dict of these."""


class TraceError(ValueError):
    """Bad traces, labels or splits. The message says what is wrong, where, and what would be accepted."""


class SpanKind(StrEnum):
    """OpenInference span kinds; UNKNOWN where the source does not say."""

    AGENT = "AGENT"
    CHAIN = "CHAIN"
    LLM = "LLM"
    TOOL = "TOOL"
    RETRIEVER = "RETRIEVER"
    EMBEDDING = "EMBEDDING"
    RERANKER = "RERANKER"
    GUARDRAIL = "GUARDRAIL"
    EVALUATOR = "EVALUATOR"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True)
class Span:
    """One step of an agent.

    `inputs` and `outputs` are JSON values. An LLM span that knows its conversation has
    `inputs = {"messages": [{"role", "content", "tool_calls"?}], "tools"?: [schema]}` and
    `outputs = {"messages": [...]}`; every other span holds whatever its source recorded.
    `start` and `end` are seconds since the epoch, None where unknown. `span_id` is as the source wrote it.
    """

    span_id: str
    parent_id: str | None
    name: str
    kind: SpanKind = SpanKind.UNKNOWN
    start: float | None = None
    end: float | None = None
    inputs: JSON = None
    outputs: JSON = None
    status: str = "UNSET"
    error: str | None = None
    attributes: Mapping[str, JSON] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """The spans of one run, in the order in which they happened. Span ids are unique, parents come from the trace.

    Raises:
        TraceError: no id, no span, a duplicate span id, a parent that is not in the trace, or a cycle. Readers
            repair such input before they build a Trace, and report what they repaired.
    """

    trace_id: str
    spans: tuple[Span, ...]
    metadata: Mapping[str, JSON] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.trace_id:
            raise TraceError("a trace has no trace_id: accepted is any non-empty string")
        if not self.spans:
            raise TraceError(f"trace {self.trace_id!r} has no spans: at least one is needed")
        parents: dict[str, str | None] = {}
        for span in self.spans:
            if not span.span_id or span.span_id in parents:
                raise TraceError(f"trace {self.trace_id!r}: span id {span.span_id!r} is empty or used twice")
            parents[span.span_id] = span.parent_id
        safe: set[str] = set()
        for span_id, parent in parents.items():
            seen = {span_id}
            while parent is not None and parent not in safe:
                if parent not in parents:
                    raise TraceError(f"trace {self.trace_id!r}: span {span_id!r} has no known parent {parent!r}")
                if parent in seen:
                    raise TraceError(f"trace {self.trace_id!r}: span {span_id!r} is its own ancestor")
                seen.add(parent)
                parent = parents[parent]
            safe |= seen

    @cached_property
    def by_id(self) -> dict[str, Span]:
        return {span.span_id: span for span in self.spans}

    @cached_property
    def _children(self) -> dict[str | None, list[Span]]:
        children: dict[str | None, list[Span]] = {}
        for span in self.spans:
            children.setdefault(span.parent_id, []).append(span)
        return children

    @property
    def roots(self) -> tuple[Span, ...]:
        return tuple(self._children.get(None, ()))

    def children(self, span_id: str) -> tuple[Span, ...]:
        return tuple(self._children.get(span_id, ()))

    def walk(self) -> Iterator[Span]:
        """Every span, parents before children, siblings in recorded order."""
        stack = list(reversed(self.roots))
        while stack:
            span = stack.pop()
            yield span
            stack.extend(reversed(self._children.get(span.span_id, ())))

    def neighbourhood(self, span_id: str) -> frozenset[str]:
        """The span with its parent and its children: what the lenient localization column accepts."""
        span = self.by_id.get(span_id)
        if span is None:
            return frozenset()
        near = {span_id, *(child.span_id for child in self.children(span_id))}
        if span.parent_id is not None:
            near.add(span.parent_id)
        return frozenset(near)

    @cached_property
    def content_hash(self) -> str:
        """sha256 (hex) of what happened: kinds, names, inputs, outputs and tree shape.

        Ids, times and white space do not count, so one run that was exported twice has one hash.
        """
        order = {span.span_id: i for i, span in enumerate(self.spans)}
        rows = [
            [order.get(span.parent_id or "", -1), span.kind, span.name, span.inputs, span.outputs]
            for span in self.spans
        ]
        return text_hash(re.sub(r"(\s|\\[nrt])+", "", json.dumps(rows, sort_keys=True, ensure_ascii=False)))


def text_hash(text: str) -> str:
    """sha256 (hex) of a text; lone surrogates hash as they stand."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
