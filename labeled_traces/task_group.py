"""Which traces are runs of one task, so that a split keeps them together.

No rule is right for all agents. This one joins only what is surely one task: runs with the same id of a task, or with
the same input but for white space, case, times and ids of runs. Runs of one task whose inputs differ otherwise are told
apart, and so are the turns of one conversation: the `group` of a row says more. It looks at one trace alone, so that a
trace has the same group whatever it is read with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from labeled_traces.json_values import decoded, get
from labeled_traces.trace import JSON, SpanKind, Trace, text_hash

TASK_KEYS = ("instance_id", "task_id")
"""Names of a task's id, in a root span's inputs or its `metadata`. A session is a conversation, not a task."""
GOAL_KEYS = ("task", "question", "query", "goal", "problem_statement", "problem", "prompt", "messages", "input", "text")
"""Names of what a run was asked for. Beside one of these, below the top of the inputs, an id is that of a sample."""
_DEEPEST = 20
_RUN_ID = r"(?:run|trace|span|request|session|thread|conversation|invocation|execution|correlation|checkpoint)[ _-]?id"
_RUN_KEY = re.compile(rf"(?i)\w*{_RUN_ID}|timestamp|created(?:_?at)?|seed|trial|attempt")
_MESSAGE_KEYS = {"role", "type", "id", "example", "additional_kwargs", "response_metadata", "usage_metadata"}
"""Of a message not what somebody said."""
_ROLES = ("user", "human", "assistant", "ai", "system", "tool")
_CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?[ap]\.?m\b\.?)?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_NOT_THE_TASK = re.compile(
    r"[\[(]?\b(?:"
    rf"\d{{4}}-\d\d-\d\d(?:[t ]{_CLOCK})?(?: ?z\b| ?[+-]\d\d:?\d\d)?|\d\d:\d\d:\d\d"
    rf"|(?:[a-z]{{3,6}}day,? )?(?:{_MONTH} {_DAY}|{_DAY}(?: of)? {_MONTH}),? \d{{4}}(?:,? (?:at )?{_CLOCK})?"
    r"|1[5-9]\d{8}(?:\d{3}){0,3}(?:\.\d+)?\b(?![-.]?\d)"
    rf"|(?:{_RUN_ID}|(?<=[\[(])run)[ :=#]*(?=[0-9a-f-]*\d)[0-9a-f]{{6,}}(?:-[0-9a-f]+)*\b"
    r"|at 0x[0-9a-f]{6,}"
    r")[\])]?"
)
"""Times, ids of runs, addresses of objects: in lower case."""


def task_id(attributes: JSON) -> JSON:
    """The id of the task that a span's (nested) attributes name, None if they name none.

    It holds a digit: a word alone names a kind of task, as `run_agent` does.
    """
    metadata = decoded(get(attributes, "metadata"))
    found = (get(holder, key) for holder in (attributes, metadata) for key in TASK_KEYS)
    return next((value for value in found if _is_id(value)), None)


def task_group(trace: Trace) -> str:
    """One text for all runs of a task: its id where a root span has one, else a hash of all that the run was given.

    Empty if there is neither.
    """
    named = (_named(span.attributes) or _named(span.inputs) for span in trace.roots)
    task = next((value for value in named if value), None)
    if task is not None:
        return f"task {task}"
    goal = goal_of(trace)
    return f"goal {text_hash(goal)[:16]}" if goal else ""


def goal_of(trace: Trace) -> str:
    """All that the run was given, in small letters, without times and ids of runs; empty if it is not there."""
    first = ""
    for plain in _inputs(trace):
        if " " in plain:
            return plain
        first = first or plain
    return first


def _is_id(value: JSON) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and re.search(r"\d", str(value)) is not None


def _named(value: JSON) -> str | None:
    """The id in a root's inputs or attributes: at the top, or in a sample right below it."""
    if not isinstance(value, dict):
        return None
    samples = [item for item in value.values() if isinstance(item, dict) and item.keys() & GOAL_KEYS]
    found = next((task for task in map(task_id, (value, *samples)) if task is not None), None)
    return None if found is None else str(found)


def _inputs(trace: Trace) -> Iterator[str]:
    """What the run was given, the best first: the input of the outer spans, what a model was asked, any root's input.

    The first with several words is the goal: a number or a word alone may be a setting.
    """
    spans = list(trace.walk())
    yield from (_plain(get(span.inputs, "messages") or span.inputs) for span in spans if span.kind in _OUTER)
    yield from (_plain(get(span.inputs, "messages") or span.inputs) for span in spans if span.kind is SpanKind.LLM)
    yield from (_plain(span.inputs) for span in trace.roots)


_OUTER = (SpanKind.AGENT, SpanKind.CHAIN, SpanKind.UNKNOWN)


def _plain(value: JSON) -> str:
    """All that a value says, without names of fields, and without what differs from run to run."""
    words = " ".join(" ".join(_leaves(value)).casefold().split())
    return " ".join(_NOT_THE_TASK.sub(" ", words).split())


def _leaves(value: JSON, depth: int = 0) -> Iterator[str]:
    value = decoded(value)
    if depth == _DEEPEST:
        yield json.dumps(value, sort_keys=True, ensure_ascii=False)
    elif isinstance(value, dict):
        no_word = _MESSAGE_KEYS if "content" in value and ("role" in value or "type" in value) else set()
        for key in sorted(value):
            if key not in no_word and not _RUN_KEY.fullmatch(key):
                yield from _leaves(value[key], depth + 1)
    elif isinstance(value, list):
        pair = len(value) == 2 and value[0] in _ROLES
        for item in value[1:] if pair else value:
            yield from _leaves(item, depth + 1)
    elif value is not None:
        yield str(value)
