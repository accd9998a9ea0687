"""What a proposed part must fulfil before a judge call is spent on it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from judges.program import JudgeProgram
from labeled_traces.copied_text import Said, copied_runs, said_in
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import SCORES
from labeled_traces.sealed import Seal
from labeled_traces.split import Development
from labeled_traces.trace import JSON, SpanKind

COPIED_WORDS = 8
"""A run of so many words that a text shares with a labelled trace counts as copied."""

_CONTRACT = re.compile(
    r"^\s*(?:#\s*Task\b|##\s*(?:Rubric|Do not judge|How this agent works|Extracted plan|Examples|Output|Reply format)\b"
    r"|Judge:|=====|@span\b|<<<|>>>)",
    re.IGNORECASE | re.MULTILINE,
)
_PLACEHOLDER = re.compile(r"\{\{.*?\}\}|\{(?:part|dimension|current|feedback)\}|<(?:curr_param|side_info)>")
_SCALE_WORD = re.compile(r"\b(?:score|scale|rat(?:e|ing)|grade|points?|stars?)\b", re.IGNORECASE)
_OTHER_SCALE = re.compile(r"\b[01]\s*(?:-|–|—|to|\.\.)\s*(?:4|5|7|10|100)\b|\bout of (?:5|10|100)\b|\d/(?:5|10|100)\b")
_PERSONAL = {
    "an e-mail address": re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"),
    "a phone number": re.compile(r"(?<![\w.])(?:\+\d{1,3}[ .-]?)?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\w)|\+\d{8,14}\b"),
    "a card or account number": re.compile(r"(?<![\w.])\d(?:[ -]?\d){12,18}(?!\w)"),
    "an id of a trace or span": re.compile(r"\b(?=[0-9a-f-]*\d)(?=[0-9a-f-]*[a-f])[0-9a-f-]{12,}\b", re.IGNORECASE),
}


@dataclass(frozen=True)
class ProposalChecks:
    """Checks the parts that an optimiser proposes for one program. `seal`: what none of them may say. `part_chars` caps
    a part's length.

    The input program's own lines are always allowed: they hold nothing of these traces.
    """

    seed: JudgeProgram
    development: Development
    seal: Seal | None = None
    part_chars: Mapping[str, int] = field(
        default_factory=lambda: {
            "rubric": 6_000,
            "architecture_notes": 3_000,
            "examples": 16_000,
            "output_template": 3_000,
        }
    )

    def refuse(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Part -> the reason why its text must not be taken. A part that nothing speaks against is not in it."""
        refused = {part: fault for part, text in texts.items() if (fault := next(self._faults(part, text), None))}
        own = {
            part: self._own_lines(text) for part, text in texts.items() if part not in refused and part != "examples"
        }
        for copy in copied_runs(own, self._said, words=COPIED_WORDS):
            said = f"it copies a run of words from labelled trace {copy.trace_id!r}: {copy.run!r}"
            refused.setdefault(copy.name, said)
        if self.seal is not None:
            for part, text in texts.items():
                for leak in self.seal.leaks({f"the proposed {part}": text}):
                    refused.setdefault(part, leak.what)
        return refused

    @cached_property
    def _said(self) -> Said:
        return said_in((*self.development.trainset, *self.development.valset))

    def _faults(self, part: str, text: str) -> Iterator[str]:
        cap = self.part_chars[part]
        if not text.strip():
            yield "the text is empty"
        if len(text) > cap:
            yield f"the text has {len(text)} characters, at most {cap} are accepted"
        yield from self._example_faults(text) if part == "examples" else self._text_faults(part, text)

    def _own_lines(self, text: str) -> str:
        """The lines that are not the input program's."""
        return "\n".join(line for line in text.splitlines() if line.strip() not in self._seed_lines)

    def _text_faults(self, part: str, text: str) -> Iterator[str]:
        own = self._own_lines(text)
        if found := _PLACEHOLDER.search(own):
            yield f"it holds a placeholder, {found.group()!r}: nothing would fill it"
        if found := _CONTRACT.search(own):
            yield f"it holds a heading or fence of the contract, {found.group().strip()!r}"
        yield from _personal(own)
        for line in own.splitlines():
            if _SCALE_WORD.search(line) and (found := _OTHER_SCALE.search(line)):
                yield f"it names another score scale, {found.group()!r}: the scale is 0 to 3"
        if part == "rubric":
            lost = [str(score) for score in SCORES if _anchored(score, self.seed.rubric) and not _anchored(score, text)]
            if lost:
                yield f"it no longer says what these scores mean: {', '.join(lost)}"
            if found := self._tool_name.search(own):
                yield f"a rubric must not name a tool of this agent, {found.group()!r}: that belongs to the notes"

    def _example_faults(self, text: str) -> Iterator[str]:
        for number, line in enumerate(text.splitlines(), 1):
            try:
                row = json.loads(line)
                known = isinstance(row["excerpt"], str) and isinstance(row["findings"], list)
                trace_id = row["trace_id"]
            except (ValueError, KeyError, TypeError):
                known, trace_id = False, None
            if not known:
                yield f"example {number} is not a JSON object with excerpt, findings, score and trace_id"
            if trace_id not in self._train_ids:
                yield f"example {number} comes from {trace_id!r}, which is not in the trainset"
            yield from (f"example {number}: {fault}" for fault in _personal(json.dumps(row, ensure_ascii=False)))

    @cached_property
    def _train_ids(self) -> frozenset[str]:
        return frozenset(row.trace_id for row in self.development.trainset)

    @cached_property
    def _seed_lines(self) -> frozenset[str]:
        return frozenset(line.strip() for text in self.seed.parts.values() for line in text.splitlines())

    @cached_property
    def _tool_name(self) -> re.Pattern[str]:
        """Matches a tool's name. A name that is also a plain word counts only where it is quoted or called."""
        rows = (*self.development.trainset, *self.development.valset)
        names = sorted({name for row in rows for name in tool_names(row) if name}, key=lambda name: (-len(name), name))
        telling = [re.escape(name) for name in names if re.search(r"[^a-z]", name[1:])]
        plain = [re.escape(name) for name in names]
        options = [rf"(?<!\w)(?:{'|'.join(telling)})(?!\w)"] if telling else []
        options += [rf"[`'\"](?:{'|'.join(plain)})[`'\"(]", rf"(?<!\w)(?:{'|'.join(plain)})\("] if plain else []
        return re.compile("|".join(options) or r"(?!)")


def tool_names(row: LabeledTrace) -> Iterator[str]:
    """Names of the tools that a trace used, and of those that its LLM spans had on offer."""
    for span in row.trace.spans:
        if span.kind is SpanKind.TOOL:
            yield span.name
        if isinstance(span.inputs, dict):
            yield from _schema_names(span.inputs.get("tools"))


def _schema_names(tools: JSON) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else ():
        about = tool.get("function", tool) if isinstance(tool, dict) else {}
        name = about.get("name") if isinstance(about, dict) else None
        if isinstance(name, str):
            yield name


def personal_masked(text: str) -> str:
    """The text with what looks personal, or like an id, replaced by what it is."""
    for what, pattern in _PERSONAL.items():
        text = pattern.sub(f"<{what.split(' ', 1)[1]}>", text)
    return text


def _personal(text: str) -> Iterable[str]:
    return (f"it holds {what}, {found.group()!r}" for what, p in _PERSONAL.items() if (found := p.search(text)))


def _anchored(score: int, text: str) -> bool:
    """Whether a rubric says what this score means: a line such as `- 2: slips` or `**2** slips`, or `score ... 2`."""
    line = rf"^\W*(?:score\W*)?{score}(?:\*\*|\s*[:=|–—-])"
    return bool(re.search(rf"(?im){line}|\bscores?\b[^.\n]{{0,24}}\b{score}\b", text))
