"""What every reader does to dirty spans: mend values, mend the tree, count each repair. Nothing is dropped unsaid."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from labeled_traces.quick_text import is_valid
from labeled_traces.readers.mending.answers import without_answers
from labeled_traces.readers.mending.hidden_errors import KIND as HIDDEN_ERROR
from labeled_traces.readers.mending.hidden_errors import with_hidden_error
from labeled_traces.readers.mending.tool_names import with_tool_names
from labeled_traces.readers.report import NO_CONTENT, ReadOptions
from labeled_traces.readers.spans.langchain import plain_span
from labeled_traces.trace import JSON, Span, Trace, TraceError

_UNREADABLE = re.compile("[\x00\ud800-\udfff]")
_DEEPEST = 60
_TEXT_FIELDS = ("span_id", "parent_id", "name", "inputs", "outputs", "error", "attributes")


@lru_cache(maxsize=4096)
def canonical_id(raw: str, form: str) -> str:
    """The one spelling through which ids of spans and traces are joined: 16 or more lower-case hex digits.

    Args:
        raw: the id as a source wrote it; outer white space does not count.
        form: how the source writes ids, as its reader declares: `hex` (with or without `0x`), `base64` or `int`.

    Returns:
        The canonical id, or `raw` without outer white space where it is not of that form.
    """
    text = raw.strip()
    if form == "hex" and re.fullmatch(r"(0[xX])?[0-9a-fA-F]+", text):
        return text.lower().removeprefix("0x").zfill(16)
    if form == "int" and re.fullmatch(r"[0-9]+", text):
        return format(int(text), "016x")
    if form == "base64":
        try:
            return base64.b64decode(text, validate=True).hex()
        except (binascii.Error, ValueError):
            return text
    return text


def mend_value(value: JSON, where: str, options: ReadOptions, depth: int = 0) -> JSON:
    """A value that can be written, rendered and hashed.

    NUL and lone surrogates become U+FFFD one for one (so offsets still hold), NaN and infinities become text, the
    middle of a text beyond the limit is left out, as is what is nested deeper than 60 levels. Both say so. A value
    without any of this is given back as it is, the very same.
    """
    return value if _is_fine(value, options.longest_text, depth) else _mended(value, where, options, depth)


def mend_span(span: Span, where: str, options: ReadOptions) -> Span:
    """A span whose texts and values are mended, see `mend_value`."""
    if _is_fine([getattr(span, key) for key in _TEXT_FIELDS], options.longest_text, -1):
        return span
    return replace(span, **{key: mend_value(getattr(span, key), f"{where}, {key}", options) for key in _TEXT_FIELDS})


def _is_fine(value: JSON, longest: int, depth: int) -> bool:
    """Level by level; texts that are not ASCII each once."""
    texts: set[str] = set()
    keys: set[str] = set()
    level: list[JSON] = [value]
    while level:
        below: list[JSON] = []
        for item in level:
            kind = type(item)
            if kind is str:
                if len(item) > longest or "\x00" in item:
                    return False
                if not item.isascii():
                    texts.add(item)
            elif kind is dict or kind is list:
                if depth >= _DEEPEST:
                    return False
                if kind is dict:
                    keys.update(item)
                    below += item.values()
                else:
                    below += item
            elif item is not None and kind is not int and kind is not bool and not _is_finite(item):
                return False
        level = below
        depth += 1
    return all(map(is_valid, texts)) and _are_fine(frozenset(keys), longest)


@lru_cache(maxsize=1024)
def _are_fine(keys: frozenset[str], longest: int) -> bool:
    return all(len(key) <= longest and "\x00" not in key and is_valid(key) for key in keys)


def _is_finite(item: JSON) -> bool:
    return type(item) is float and math.isfinite(item)


def _mended(value: JSON, where: str, options: ReadOptions, depth: int) -> JSON:
    if isinstance(value, str):
        return _mend_text(value, where, options)
    if isinstance(value, float) and not math.isfinite(value):
        options.report.add("number that is not finite", where)
        return str(value)
    if isinstance(value, dict | list) and depth == _DEEPEST:
        options.report.add(f"nested deeper than {_DEEPEST} levels, left out", where)
        return "[... nested too deeply, left out ...]"
    if isinstance(value, dict):
        return {
            _mend_text(key, where, options): _mended(item, where, options, depth + 1) for key, item in value.items()
        }
    if isinstance(value, list):
        return [_mended(item, where, options, depth + 1) for item in value]
    return value


def _mend_text(text: str, where: str, options: ReadOptions) -> str:
    mended, count = _UNREADABLE.subn("\ufffd", text)
    options.report.add("NUL or lone surrogate", where, count)
    if len(mended) > options.longest_text:
        half = options.longest_text // 2
        left_out = len(mended) - 2 * half
        options.report.add(f"text longer than {options.longest_text} characters", f"{where}, {left_out} left out")
        mended = f"{mended[:half]}[... {left_out} characters left out ...]{mended[-half:]}"
    return mended


def build_trace(trace_id: str, spans: Sequence[Span], form: str, where: str, options: ReadOptions) -> Trace:
    """A valid trace out of spans as a source gave them: in any order, with any parents; answers are left out, tools
    whose output is an error have failed, LangChain's messages are messages, and results have the names of their tools.

    Args:
        spans: their ids and parent ids as the source wrote them.
        form: how the source writes ids, see `canonical_id`.
        where: named in the report.
    """
    if not trace_id.strip():
        raise TraceError(f"{where}: has no id of its trace: accepted is any non-empty text")
    if all(value in (None, "", [], {}) for span in spans for value in (span.inputs, span.outputs)):
        options.report.add(NO_CONTENT, f"{where}, trace {trace_id}")
    answerless = without_answers(spans, where, options.report)
    told = [with_tool_names(plain_span(_told_error(span, where, options))) for span in answerless]
    by_id = _unique(told, form, where, options)
    parents = _parents(by_id, form, where, options)
    children: dict[str | None, list[Span]] = {}
    for key, span in by_id.items():
        parent = parents[key]
        parent_id = None if parent is None else by_id[parent].span_id
        linked = span if parent_id == span.parent_id else replace(span, parent_id=parent_id)
        children.setdefault(parent, []).append(_mend_times(linked, by_id.get(parent or ""), where, options))
    keys = {span.span_id: key for key, span in by_id.items()}
    ordered: list[Span] = []
    stack = _newest_first(children.get(None, []))
    while stack:
        span = stack.pop()
        ordered.append(span)
        stack += _newest_first(children.get(keys[span.span_id], []))
    return Trace(trace_id, tuple(ordered))


def _told_error(span: Span, where: str, options: ReadOptions) -> Span:
    told = with_hidden_error(span)
    if told is not span:
        options.report.add(HIDDEN_ERROR, f"{where}, span {span.span_id}")
    return told


def _unique(spans: Sequence[Span], form: str, where: str, options: ReadOptions) -> dict[str, Span]:
    """Canonical id -> span. A missing id gets a name, a second span with one id another one."""
    by_id: dict[str, Span] = {}
    for number, given in enumerate(spans):
        span = given
        if not span.span_id.strip():
            span = replace(given, span_id=f"span-{number}")
            options.report.add("span without an id", f"{where}, now {span.span_id}")
        key = canonical_id(span.span_id, form)
        if key in by_id and replace(by_id[key], span_id="", parent_id=None) == replace(
            span, span_id="", parent_id=None
        ):
            options.report.add("span twice, kept once", f"{where}, span {span.span_id}")
            continue
        copy = 2
        while key in by_id:
            span = replace(given, span_id=f"{given.span_id.strip() or 'span'}#{copy}")
            key, copy = canonical_id(span.span_id, form), copy + 1
            if key not in by_id:
                options.report.add("span id of two different spans", f"{where}, now {span.span_id}")
        by_id[key] = span
    return by_id


def _parents(by_id: dict[str, Span], form: str, where: str, options: ReadOptions) -> dict[str, str | None]:
    """Canonical id -> canonical id of the parent. Unknown parents and cycles are cut: the span becomes a root."""
    parents: dict[str, str | None] = {}
    for key, span in by_id.items():
        parent = canonical_id(span.parent_id, form) if span.parent_id and span.parent_id.strip() else None
        if parent is not None and parent not in by_id:
            options.report.add("span with an unknown parent, now a root", f"{where}, span {span.span_id}")
            parent = None
        parents[key] = parent
    if by_id and not any(span.parent_id is None or not span.parent_id.strip() for span in by_id.values()):
        options.report.add("trace without a root", where)
    safe: set[str] = set()
    for key in parents:
        path: set[str] = set()
        at: str | None = key
        while at is not None and at not in safe and at not in path:
            path.add(at)
            at = parents[at]
        if at is not None and at not in safe:
            options.report.add("spans in a circle, cut at the first", f"{where}, span {by_id[at].span_id}")
            parents[at] = None
        safe.update(path)
    return parents


def _mend_times(span: Span, parent: Span | None, where: str, options: ReadOptions) -> Span:
    if span.start is not None and parent is not None and parent.start is not None and span.start < parent.start:
        options.report.add("span starts before its parent", f"{where}, span {span.span_id}")
    if span.start is not None and span.end is not None and span.end < span.start:
        options.report.add("span ends before it starts, end taken as start", f"{where}, span {span.span_id}")
        return replace(span, end=span.start)
    return span


def _newest_first(siblings: list[Span]) -> list[Span]:
    """By start where all have one, else as recorded; the last first, for a stack."""
    starts = [span.start for span in siblings if span.start is not None]
    if len(starts) == len(siblings):
        siblings = sorted(siblings, key=lambda span: span.start or 0.0)
    return siblings[::-1]
