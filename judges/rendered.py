"""Reads a rendered trace back: the inverse of `judges.render`, as far as the text holds the trace."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from judges.notation import (
    ERROR,
    INPUT,
    MESSAGE_HEADER,
    OTHER,
    OUTPUT,
    SPAN,
    TOOLS,
    unescaped,
    value_of,
)
from labeled_traces.trace import JSON, Span, SpanKind, Trace

_WORD = r'("(?:[^"\\]|\\.)*"|[^\s"]+)'
_HEADER = re.compile(rf"{SPAN}{_WORD} kind=(\w+) name={_WORD} parent={_WORD}( status=ERROR)?\s*")
_CALL = re.compile(r'("(?:[^"\\]|\\.)*"|[^\s"(]+)\((.*)\)', re.DOTALL)


def parse_rendered(text: str) -> Trace:
    """The trace that a rendered text shows; what it does not show is absent, lines of no span are passed over.

    Texts come back as strings, or as JSON where they are exactly the JSON that `render` writes. A parent that is not
    shown before its child is None.

    Raises:
        TraceError: the text shows no span.
    """
    spans: dict[str, Span] = {}
    header: re.Match[str] | None = None
    lines: list[str] = []
    for line in [*text.split("\n"), SPAN]:
        if line.startswith(SPAN):
            if header is not None:
                span = _span(header, lines, spans)
                spans.setdefault(span.span_id, span)
            header, lines = _HEADER.fullmatch(line), []
        else:
            lines.append(line)
    return Trace("rendered", tuple(spans.values()))


def _span(header: re.Match[str], lines: Sequence[str], earlier: dict[str, Span]) -> Span:
    span_id, kind, name, parent, failed = header.groups()
    parent_id = None if parent == "-" else _word(parent)
    by_prefix = {
        prefix: [line[len(prefix) :] for line in lines if line.startswith(prefix)] for prefix in (INPUT, OUTPUT, ERROR)
    }
    errors = by_prefix[ERROR]
    return Span(
        span_id=_word(span_id),
        parent_id=parent_id if parent_id in earlier else None,
        name=_word(name),
        kind=SpanKind(kind) if kind in SpanKind.__members__ else SpanKind.UNKNOWN,
        inputs=_value(by_prefix[INPUT]),
        outputs=_value(by_prefix[OUTPUT]),
        status="ERROR" if failed else "UNSET",
        error="\n".join(map(unescaped, errors)) if errors else None,
    )


def _word(text: str) -> str:
    try:
        return str(json.loads(text)) if text.startswith('"') else text
    except ValueError:  # a cut went through an escape
        return text


def _value(lines: Sequence[str]) -> JSON:
    if not lines:
        return None
    if MESSAGE_HEADER.match(lines[0]) is None:
        return value_of("\n".join(map(unescaped, lines)))
    value: dict[str, JSON] = {"messages": []}
    for header, text in _contents(lines):
        role, extra = header.group(1), header.group(2)
        if role == TOOLS and extra is None:
            tools = value_of(text)
            if isinstance(tools, list):
                value["tools"] = tools
        elif role == OTHER and extra is None:
            other = value_of(text)
            value.update(other if isinstance(other, dict) else {OTHER: text})
        else:
            _add_message(value["messages"], role, extra, text)
    return value


def _contents(lines: Sequence[str]) -> list[tuple[re.Match[str], str]]:
    """Message header and text, in their order."""
    contents: list[tuple[re.Match[str], list[str]]] = []
    for line in lines:
        header = MESSAGE_HEADER.match(line)
        if header is not None:
            contents.append((header, [line[header.end() :]]))
        else:
            contents[-1][1].append(unescaped(line))
    return [(header, "\n".join(texts)) for header, texts in contents]


def _add_message(messages: list[dict[str, JSON]], role: str, extra: str | None, text: str) -> None:
    if extra == " calls":
        # An empty text of its own line is a message of its own: beside calls it would not have been written.
        if not messages or messages[-1]["role"] != role or messages[-1]["content"] == "":
            messages.append({"role": role, "content": None})
        messages[-1].setdefault("tool_calls", []).append(_call(text))
        return
    message: dict[str, JSON] = {"role": role, "content": text}
    if extra is not None:
        message["name"] = _word(extra.strip())
    messages.append(message)


def _call(text: str) -> dict[str, JSON]:
    call = _CALL.fullmatch(text)
    if call is None:
        return {"name": text, "arguments": {}}
    try:
        arguments = json.loads(call.group(2))
    except (ValueError, RecursionError):
        arguments = call.group(2)
    return {"name": _word(call.group(1)), "arguments": arguments}
