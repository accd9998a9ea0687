"""Which traces are runs of one task, so that a split keeps them together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from labeled_traces.readers.attributes import decoded, get
from labeled_traces.trace import JSON, SpanKind, Trace, text_hash

TASK_KEYS = ("instance_id", "task_id")
"""Names of a task's id, in a root span's inputs or its `metadata`. A session is a conversation, not a task."""
_GOAL_KEYS = (
    *("task", "question", "query", "goal", "problem_statement", "problem", "user_input", "user_message", "request"),
    *("prompt", "messages", "new_message", "message", "input", "text", "content"),
)
_DEEPEST = 5
_MOMENT = re.compile(
    r"[\[(]?(?:\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?: ?z| ?[+-]\d\d:?\d\d)?|\d\d:\d\d:\d\d)[\])]?"
)


def task_id(attributes: JSON) -> JSON:
    """The id of the task that a span's (nested) attributes name, None if they name none."""
    metadata = decoded(get(attributes, "metadata"))
    found = (get(holder, key) for holder in (attributes, metadata) for key in TASK_KEYS)
    return next((value for value in found if isinstance(value, str | int) and value != ""), None)


def task_group(trace: Trace) -> str:
    """One text for all runs of a task: its id where a root span has one, else a hash of the goal that a user gave.

    Case, white space and times do not count in a goal. Empty if there is neither.
    """
    named = (_named(span.attributes) or _named(span.inputs) for span in trace.roots)
    task = next((value for value in named if value), None)
    if task is not None:
        return f"task {task}"
    goal = next((text for text in _goals(trace) if text.strip()), "")
    plain = " ".join(_MOMENT.sub(" ", " ".join(goal.casefold().split())).split())
    return f"goal {text_hash(plain)[:16]}" if plain else ""


def _named(value: JSON, depth: int = 0) -> str | None:
    if not isinstance(value, dict) or depth == _DEEPEST:
        return None
    found = task_id(value)
    deeper = (_named(item, depth + 1) for item in value.values())
    return str(found) if found is not None else next(filter(None, deeper), None)


def _goals(trace: Trace) -> Iterator[str]:
    """What could be the goal, the best first: the input of an outer span by a known name, a user's first message."""
    spans = list(trace.walk())
    outer = [span for span in spans if span.kind in (SpanKind.AGENT, SpanKind.CHAIN, SpanKind.UNKNOWN)]
    yield from filter(None, (_goal(span.inputs) for span in outer))
    yield from filter(None, (_goal(span.inputs) for span in spans if span.kind is SpanKind.LLM))
    whole = (span.inputs for span in trace.roots if isinstance(span.inputs, dict | list))
    yield from (json.dumps(inputs, sort_keys=True, ensure_ascii=False) for inputs in whole)


def _goal(value: JSON, depth: int = 0) -> str | None:
    if isinstance(value, str):
        return value
    if depth == _DEEPEST:
        return None
    if isinstance(value, list):
        inner = (_goal(item, depth + 1) for item in value if isinstance(item, dict | list))
        return _first_message(value) or next(filter(None, inner), None)
    if not isinstance(value, dict):
        return None
    named = (_goal(value.get(key), depth + 1) for key in _GOAL_KEYS)
    deeper = (_goal(item, depth + 1) for item in value.values() if isinstance(item, dict))
    return next(filter(None, named), None) or next(filter(None, deeper), None)


def _first_message(messages: list[JSON]) -> str | None:
    """The first message of a user in a list of chat messages."""
    for message in messages:
        role = get(message, "role") or get(message, "type") if isinstance(message, dict) else None
        content = get(message, "content")
        if isinstance(message, list) and len(message) == 2:
            role, content = message
        if role in ("user", "human"):
            return content if isinstance(content, str) else str(content)
    return None
