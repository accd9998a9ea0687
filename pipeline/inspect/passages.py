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
_OPENING = re.compile(
    rf"[ \t]*(?:[#>*_\[<-]+[ \t]*)*(?:(?:\w+[ ',]+){{0,5}}?\b{_NAME}\b[^\n.!?]{{0,40}}?)(?:[:>\]*_]+|$)", re.IGNORECASE
)
_INLINE = re.compile(
    r"[ \t]*(?:[#>*_]+[ \t]*)*(?:(?:my|the|our|an?|here(?:'s| is)|new|revised|updated|initial|current)\s+)*"
    r"plan[*_]*[ \t]*[:-][*_]*[ \t]+\S.*",
    re.IGNORECASE,
)
"""A plan on the very line that names it."""
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\[[ xX]?\]|\d+[.)]|[a-z][.)]|step \d+\b|<)", re.IGNORECASE)
_TOOL = re.compile(
    r"(?i)(?:.*[_-])?(?:todo|to_do|plan)s?(?:[_-].*)?|(?:write|update|set)(?:todos?|plan)|todo(?:read|write)"
)
_TAGGED = re.compile(r"(?is)(?:<plan>)?((?:(?!<plan>).)*)<(?:/|end_)plan>")
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
            found.setdefault(text, span.span_id)
    return [(span_id, text) for text, span_id in found.items()]


def _named(text: str) -> Iterator[str]:
    """What stands before a tag that ends a plan; else from a line that names one to the end of the items below it."""
    if tagged := _TAGGED.search(text):
        yield tagged[1].strip()
        return
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        if len(lines[number]) < 200 and _OPENING.fullmatch(lines[number].rstrip()):
            end = _end_of_items(lines, number + 1)
            if end > number + 1:
                yield "\n".join(lines[number:end]).rstrip()
                number = end
                continue
        if _INLINE.fullmatch(lines[number].rstrip()):
            end = max(number + 1, _end_of_items(lines, number + 1))
            yield "\n".join(lines[number:end]).rstrip()
            number = end
            continue
        number += 1


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
