"""Passages that call themselves a plan or a to-do list, found without a model.

Only what says so itself: a heading or an opening line, or a tool for to-do lists. The extraction that judges use also
finds plans that have no name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from judges.notation import text_of
from labeled_traces.trace import SpanKind, Trace
from pipeline.inspect.contents import messages

_NAME = r"(?:plans?|planning|to-?do(?:s| list)?|road ?map|next steps|steps to (?:take|do))"
_MARKS = r"[ \t]*(?:[#>*_]+[ \t]*)*"
_WHOSE = r"(?:(?:my|the|our|an?|here(?:['’]s| is)|new|revised|updated|initial|current|overall)\s+)*"
_OPENING = re.compile(
    rf"[ \t]*(?:[#>*_\[<-]+[ \t]*)*(?:(?:\w+[ ',’]+){{0,5}}?\b{_NAME}\b[^\n.!?]{{0,40}}?)(?:[:>\]*_]+|$)"
    rf"|{_MARKS}{_WHOSE}steps[ \t]*(?::[*_]*|[*_]+:)",
    re.IGNORECASE,
)
_INLINE = re.compile(
    rf"{_MARKS}{_WHOSE}plan[*_]*[ \t]*[:–—-][*_]*[ \t]+\S.*"
    rf"|{_MARKS}{_WHOSE}(?:plan|steps)[*_]*[ \t]*:?[*_]*[ \t]*\(?1[.)].*\b2[.)].*"
    rf"|{_MARKS}my\s+plan\s+(?:is|will be)\b.*",
    re.IGNORECASE,
)
"""A plan on the very line that names it."""
_HEADING = re.compile(rf"[ \t]*#{{1,6}}[ \t]+[*_]*{_WHOSE}plan(?: of action)?[*_]*:?[*_]*", re.IGNORECASE)
"""Nothing but the name of a plan: all to the next heading is one."""
_BOX = re.compile(r"[ \t]*(?:[-*+][ \t]+|\d+[.)][ \t]+)?\[[ xX]\][ \t]+\S.*")
_LONGEST_NAME = 200
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\[[ xX]?\]|\d+[.)]|[a-z][.)]|step \d+\b|<)", re.IGNORECASE)
_TOOL = re.compile(
    r"(?i)(?:.*[_-])?(?:todo|to_do|plan)s?(?:[_-].*)?|(?:write|update|set)(?:todos?|plan)|todo(?:read|write)"
)
_TAG, _END_TAG = re.compile("<plan>", re.IGNORECASE), re.compile("<(?:/|end_)plan>", re.IGNORECASE)
_NOT_THE_AGENTS = ("user", "system", "human", "developer", "tool", "function")


def passages(trace: Trace) -> list[tuple[str, str]]:
    """(span id, text), in the order of the trace; what a later span repeats is left out."""
    found: dict[str, str] = {}
    for span in trace.walk():
        texts = []
        if span.kind is SpanKind.TOOL and _TOOL.fullmatch(span.name.strip()) and span.inputs is not None:
            texts.append(text_of(span.inputs))
        for message in messages(span.outputs) or ():
            if str(message.get("role")).lower() not in _NOT_THE_AGENTS and message.get("content") is not None:
                texts += _named(text_of(message["content"]))
        for text in texts:
            first = found.setdefault(text, span.span_id)
            if span.kind is SpanKind.LLM and trace.by_id[first].kind is not SpanKind.LLM:
                found[text] = span.span_id  # a step of a graph repeats what its model said, and judges do not see it
    return [(span_id, text) for text, span_id in found.items()]


def _named(text: str) -> Iterator[str]:
    """What stands before a tag that ends a plan; else from a line that names one to the end of the items below it, and
    lists of boxes to tick."""
    *tagged, _ = _END_TAG.split(text)
    yield from filter(None, (_TAG.split(before)[-1].strip() for before in tagged))
    if tagged:
        return
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        if (end := _end_of_plan(lines, number)) > number:
            yield "\n".join(lines[number:end]).rstrip()
        number = max(end, number + 1)


def _end_of_plan(lines: list[str], start: int) -> int:
    """Behind the plan that begins with this line; `start` if none does."""
    line, below = lines[start].rstrip(), start + 1
    if len(line) < _LONGEST_NAME and _OPENING.fullmatch(line) and (end := _end_of_items(lines, below)) > below:
        return end
    if _HEADING.fullmatch(line):
        end = next((n for n in range(below, len(lines)) if lines[n].startswith("#")), len(lines))
        return end if any(map(str.strip, lines[below:end])) else start
    if _INLINE.fullmatch(line):
        return max(below, _end_of_items(lines, below))
    boxed = next((n for n in range(start, len(lines)) if not _BOX.fullmatch(lines[n].rstrip())), len(lines))
    return boxed if boxed > below else start


def _end_of_items(lines: list[str], start: int) -> int:
    """Behind the last item, with its indented or blank lines between; `start` if no item follows."""
    end = start
    for number in range(start, len(lines)):
        line = lines[number]
        if _ITEM.match(line):
            end = number + 1
        elif line.strip() and not line.startswith((" ", "\t")):
            break
    return end
