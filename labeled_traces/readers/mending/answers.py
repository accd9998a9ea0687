"""Answers that benchmark harnesses carry along (GAIA, SWE-bench ...), kept from every span of a trace.

They are known by the names that they bear: as keys at any depth, and as keys inside of texts (JSON, a Python repr,
`true_answer=...`). What an agent, a chain, a model or a tool gave out stays, as do an agent's words and the results of
tools in a history. Taken out of it are only names that no agent would think of, and what the run was started with
under the same name (a state that is passed through). A value that was taken out is also taken out of what nobody in the
run said (errors, names, metadata) if it is long enough to stand for nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from labeled_traces.readers.mending.answer_hints import plain, texts_with_names
from labeled_traces.readers.mending.answer_text import (
    ANSWER_KEYS,
    BESIDE,
    COMMON_KEYS,
    HARNESS_KEYS,
    LEFT_OUT,
    SAMPLE_KEYS,
    find_answers,
    has_any,
)
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, Span, SpanKind

SHORTEST = 12
"""Characters of a value that is looked for where it has no name: a shorter one may stand for something else."""

# Whose words: a model's own, what came out of the run, what a model was asked, what stands around the run, what nobody
# wrote (errors ...).
_AGENT, _GIVEN, _RUN, _HARNESS, _ERROR = range(5)
_READ = {SpanKind.LLM, SpanKind.TOOL, SpanKind.RETRIEVER, SpanKind.RERANKER, SpanKind.EMBEDDING, SpanKind.GUARDRAIL}
_NOT_GIVEN = {SpanKind.EVALUATOR, SpanKind.UNKNOWN}
_AGENT_ROLE = re.compile(r"assistant|ai(message)?|model|reasoning|tool_use|.*_call", re.IGNORECASE)
_TOOL_ROLE = re.compile(r"(tool|function)(message)?|tool_result|.*_call_(output|response)", re.IGNORECASE)
_METADATA_KEYS = {"metadata", "info", "extra", "tags", "annotations"}
_SCHEMA_KEYS = {"type", "description", "title", "enum", "default", "items", "properties", "required", "format"}


def without_answers(spans: Sequence[Span], where: str, report: ReadReport) -> list[Span]:
    """The spans of one trace without answers; `report` gets how many were left out, where."""
    texts, named = texts_with_names(
        part for span in spans for part in (span.name, span.inputs, span.outputs, span.error, span.attributes)
    )
    if not texts and not named:
        return list(spans)
    search = _Search(where, report, texts)
    asked = [search.inputs_by_name(span) for span in spans]
    found = [search.rest_by_name(span) for span in asked]
    values = search.specific()
    if not values:
        return found
    pattern = re.compile("|".join(map(re.escape, values)), re.IGNORECASE)
    said = "\n".join(text for span in found for text in _agents_words(span))
    known = {value.casefold() for value in values if value.casefold() in said.casefold()}
    return [search.by_value(span, pattern, known) for span in found]


@dataclass(frozen=True)
class _Field:
    """A field of a span, by its name."""

    span: Span
    name: str


@dataclass
class _Search:
    """`suspicious`: the texts of the trace that may hold the name of an answer."""

    where: str
    report: ReadReport
    suspicious: set[str]
    removed: list[JSON] = field(default_factory=list)
    started_with: list[tuple[str, JSON]] = field(default_factory=list)

    def inputs_by_name(self, span: Span) -> Span:
        words = _AGENT if span.kind is SpanKind.TOOL else _RUN if span.kind in _READ else _HARNESS
        return replace(span, inputs=self._value(span.inputs, words, _Field(span, "inputs")))

    def rest_by_name(self, span: Span) -> Span:
        outputs = _AGENT if span.kind is SpanKind.LLM else _HARNESS if span.kind in _NOT_GIVEN else _GIVEN
        return replace(
            span,
            name=self._text(span.name, _ERROR, _Field(span, "name")),
            outputs=self._value(span.outputs, outputs, _Field(span, "outputs")),
            error=None if span.error is None else self._text(span.error, _ERROR, _Field(span, "error")),
            attributes=self._value(span.attributes, _ERROR, _Field(span, "attributes")),
        )

    def _value(self, value: JSON, words: int, at: _Field, marked: frozenset[str] = frozenset()) -> JSON:
        """`marked`: the common words that are answers here, because of a name that stands above."""
        if isinstance(value, str):
            return self._text(value, words, at)
        if isinstance(value, list):
            return [self._value(item, words, at, marked) for item in value]
        if not isinstance(value, dict):
            return value
        role = str(value.get("role", value.get("type")) or "")
        words = _AGENT if _AGENT_ROLE.fullmatch(role) else _GIVEN if _TOOL_ROLE.fullmatch(role) else words
        names = {key: plain(key) for key in value}
        marked |= {plain(word) for word, marks in BESIDE.items() if _PLAIN[marks] & set(names.values())}
        kept = {}
        for key, item in value.items():
            name = names[key]
            is_answer = name in _KEYS[words] or name in marked
            if words == _GIVEN and name in _KEYS[_HARNESS]:
                is_answer |= (name, item) in self.started_with
            if not is_answer and name == "patch" and words != _AGENT:  # tests can stand a level below their patch
                is_answer = bool(_PLAIN[BESIDE["patch"]] & _names_inside(value))
            if is_answer and not _is_schema(item):
                self._remove(name, item, words, at, key)
            else:
                kept[key] = item if key == "tools" else self._value(item, words, at, marked)
        return kept

    def _text(self, text: str, words: int, at: _Field) -> str:
        if text not in self.suspicious:
            return text
        names = {_AGENT: HARNESS_KEYS, _GIVEN: SAMPLE_KEYS, _HARNESS: SAMPLE_KEYS}.get(words, ANSWER_KEYS)
        if words != _AGENT:
            names += tuple(word for word, marks in BESIDE.items() if has_any(text, marks))
        bare = {_AGENT: (), _GIVEN: HARNESS_KEYS, _RUN: HARNESS_KEYS}.get(words, ANSWER_KEYS)
        between = "[ _-]?" if words == _ERROR else "[_-]?"  # an agent too may write "the correct answer: ..."
        parts, done = [], 0
        for answer in find_answers(text, names, bare, between):
            named = (plain(answer.name), answer.value)
            if words == _GIVEN and named[0] in _KEYS[_HARNESS] - _KEYS[_GIVEN] and named not in self.started_with:
                continue
            parts += [text[done : answer.start], f"{answer.quote}{LEFT_OUT}{answer.quote}"]
            done = answer.end
            self._remove(*named, words, at, answer.name.strip(_MARKS))
        return "".join([*parts, text[done:]])

    def _remove(self, name: str, value: JSON, words: int, at: _Field, as_written: str) -> None:
        self.removed.append(value)
        self.started_with += [(name, value)] if words == _HARNESS else []
        self._report(at, as_written)

    def _report(self, at: _Field, what: str, count: int = 1) -> None:
        self.report.add(KIND, f"{self.where}, span {at.span.span_id or '(no id)'}, {at.name}: {what}", count)
        self.report.strip(f"{at.name}: {what}", count)

    def specific(self) -> list[str]:
        """The removed values that are long enough to be looked for elsewhere, the longest first."""
        texts = {text.strip() for value in self.removed for text in _texts(value)}
        return sorted((text for text in texts if len(text) >= SHORTEST), key=len, reverse=True)

    def by_value(self, span: Span, pattern: re.Pattern[str], said: set[str]) -> Span:
        """An error of a model or a tool, and what an agent gave out, may repeat what the agent said: to take it out
        would show that it is right."""

        def clean(name: str, spared: set[str], inside: bool) -> JSON:
            def inner(value: JSON, inside: bool) -> JSON:
                if isinstance(value, str) and inside:
                    cleaned, count = pattern.subn(lambda m: m[0] if m[0].casefold() in spared else LEFT_OUT, value)
                    self._report(_Field(span, name), "its value without a name", count if cleaned != value else 0)
                    return cleaned
                if isinstance(value, list):
                    return [inner(item, inside) for item in value]
                if isinstance(value, dict):
                    return {k: inner(v, inside or plain(k) in _METADATA_KEYS) for k, v in value.items()}
                return value

            return inner(getattr(span, name), inside)

        evaluator, read = span.kind is SpanKind.EVALUATOR, span.kind in _READ
        return replace(
            span,
            name=clean("name", set(), True),
            inputs=span.inputs if read else clean("inputs", set(), evaluator),
            outputs=span.outputs if read else clean("outputs", set() if evaluator else said, evaluator),
            error=clean("error", said if read else set(), True),
            attributes=clean("attributes", set(), True),
        )


KIND = "answer left out"
_MARKS = "\\\"' \t[]:=!*`<>|"
"""What stands around a name in a text."""


_PLAIN = {names: frozenset(map(plain, names)) for names in BESIDE.values()}
_KEYS = [
    frozenset(map(plain, names))
    for names in (HARNESS_KEYS, HARNESS_KEYS, ANSWER_KEYS, *2 * [(*SAMPLE_KEYS, *COMMON_KEYS)])
]
"""What is an answer as the key of a mapping, by whose words it is in."""


def _texts(value: JSON) -> Iterator[str]:
    """Every text in a value, and every number as text."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | set):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str | int | float):
        yield str(value)


def _names_inside(value: JSON) -> frozenset[str]:
    if isinstance(value, dict):
        return frozenset(map(plain, value)).union(*(_names_inside(item) for item in value.values()))
    return frozenset().union(*map(_names_inside, value)) if isinstance(value, list) else frozenset()


def _is_schema(value: JSON) -> bool:
    """A parameter that bears an answer's name in the description of a tool."""
    return isinstance(value, dict) and isinstance(value.get("type"), str) and value.keys() <= _SCHEMA_KEYS


def _agents_words(span: Span) -> Iterator[str]:
    yield from _texts(
        span.outputs if span.kind is SpanKind.LLM else span.inputs if span.kind is SpanKind.TOOL else None
    )
