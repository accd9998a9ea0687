"""What a judge needs to find in a trace: the goal, the answer, the tools there are and those that were called."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from judges.notation import text_of
from judges.render import Rendering, render
from labeled_traces.dataset import LabeledTrace
from labeled_traces.readers.mending.requests import model_calls, reply_text, request_text
from labeled_traces.task_group import GOAL_KEYS
from labeled_traces.trace import JSON, Span, SpanKind, Trace

EMPTY: tuple[JSON, ...] = (None, "", {}, [])
_ALL = 10**9
_ANSWER_KEYS = ("answer", "final_answer", "response", "result", "output", "text")
_PEOPLE = ("user", "human")
_RUNS = (SpanKind.AGENT, SpanKind.CHAIN, SpanKind.LLM, SpanKind.UNKNOWN)
"""What can have a goal and an answer: a tool or a search that stands alone has arguments and a result."""
_NUMBER = re.compile(r"([0-9]{1,18})(?:\.[0-9]*)?")


@dataclass(frozen=True)
class Contents:
    """A row, with what is asked of it more than once. `limit`: tokens that its rendering may take."""

    row: LabeledTrace
    limit: int

    @property
    def trace(self) -> Trace:
        return self.row.trace

    @cached_property
    def whole(self) -> Rendering:
        return render(self.trace, _ALL)

    @cached_property
    def fitted(self) -> Rendering:
        """As judges read it."""
        return self.whole if self.whole.tokens <= self.limit else render(self.trace, self.limit)

    @cached_property
    def rendered(self) -> frozenset[str]:
        """The spans that a judge reads if nothing is cut: all but wrappers."""
        return frozenset(self.whole.span_ids)

    @cached_property
    def shown(self) -> frozenset[str]:
        """The spans that a judge reads."""
        return frozenset(self.fitted.span_ids)

    @cached_property
    def goal(self) -> str:
        """What the run was asked for: a root's input, else the first thing that a user said; "" if there is none."""
        given = (_named(span.inputs, GOAL_KEYS) for span in self._runs if messages(span.inputs) is None)
        asked = (m for span in self.trace.walk() for m in messages(span.inputs) or () if m.get("role") == "user")
        return _first(given) or _first(message.get("content") for message in asked)

    @cached_property
    def answer(self) -> str:
        """What came out: a root's output, else what its last call of a model answered; "" if there is none, as where
        that call went on to use a tool, or where the run failed."""
        given = (_named(span.outputs, _ANSWER_KEYS) for span in self._runs if messages(span.outputs) is None)
        said = (_said_last(span.outputs) for span in self._runs)
        calls = (model_calls(span, self.trace.children) for span in self._runs if span.status != "ERROR")
        return _first(given) or _first(said) or _first(reply_text(of[-1].outputs) for of in calls if of)

    @cached_property
    def user_turns(self) -> int:
        """How often a user spoke to the run: as spans of a chat log or a session have it, or the longest history that
        a model was sent. One that does not begin with the goal does not tell: frameworks, too, write as the user."""
        said = sum(span.kind is SpanKind.CHAIN and span.name.lower() in _PEOPLE for span in self.trace.spans)
        calls = [call for span in self._runs for call in model_calls(span, self.trace.children)]
        asked = [[text for m in messages(c.inputs) or () if (text := request_text({"messages": [m]}))] for c in calls]
        return max([said, *(len(texts) for texts in asked if texts[:1] == [self.goal])])

    @property
    def _runs(self) -> list[Span]:
        return [span for span in self.trace.roots if span.kind in _RUNS]

    @cached_property
    def listed_tools(self) -> frozenset[str]:
        """The names in the schemas that a model was given."""
        lists = (span.inputs.get("tools") for span in self.trace.spans if isinstance(span.inputs, dict))
        return frozenset(name for tools in lists if isinstance(tools, list) for name in map(_tool_name, tools) if name)

    @cached_property
    def called_tools(self) -> dict[str, str]:
        """Name -> the first span that calls it, or is the call."""
        calls: dict[str, str] = {}
        for span in self.trace.walk():
            names = [span.name] if span.kind is SpanKind.TOOL else []
            for message in messages(span.outputs) or ():
                names += [name for name in map(_tool_name, message.get("tool_calls") or ()) if name]
            for name in names:
                calls.setdefault(name, span.span_id)
        return calls


def messages(value: JSON) -> list[Mapping[str, JSON]] | None:
    """The messages of a conversation, None if the value is none."""
    found = value.get("messages") if isinstance(value, dict) else None
    return found if isinstance(found, list) and all(isinstance(m, dict) for m in found) else None


def tokens_of(span: Span) -> dict[str, int]:
    """What the source counted: `prompt`, `completion`, `total`, as far as it did. Zeros alone are no count."""
    counted = span.attributes.get("llm.token_count")
    if not isinstance(counted, dict):
        return {}
    numbers = {name: _NUMBER.fullmatch(str(n)) for name, n in counted.items()}
    tokens = {name: int(found[1]) for name, found in numbers.items() if found}
    return tokens if any(tokens.values()) else {}


def raters_of(row: LabeledTrace) -> set[str]:
    said = {error.rater for error in row.errors} | {score.rater for score in row.scores}
    return said.union(row.raters)


def _named(value: JSON, keys: Sequence[str]) -> JSON:
    """The text that a mapping holds under one of these names, as the arguments or the result of a function; else all of
    it."""
    texts = [value[key] for key in keys if isinstance(value.get(key), str)] if isinstance(value, dict) else []
    return texts[0] if len(texts) == 1 else value


def _said_last(outputs: JSON) -> JSON:
    last = (messages(outputs) or [{}])[-1]
    return last.get("content") if last.get("role") == "assistant" and not last.get("tool_calls") else None


def _first(values: Iterator[JSON]) -> str:
    return next((text for value in values if value not in EMPTY and (text := text_of(value)).strip()), "")


def _tool_name(schema: JSON) -> str:
    """Of a schema or a call: OpenAI's, Anthropic's and MCP's all have a name, at the top or in `function`."""
    inner = schema.get("function", schema) if isinstance(schema, dict) else {}
    return str(inner.get("name") or "") if isinstance(inner, dict) else ""
