"""The JSON object that a reply ends with: its answer, or the reason why there is none. No quotation is taken for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeAlias

from judges.notation import ERROR, INPUT, OUTPUT

Form: TypeAlias = Collection[str]
"""The keys of an answer."""
Meaning: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""What must be the same in two answers that are one."""
MAX_FALSE_STARTS = 1000
"""How many opening braces that start no JSON object are passed over before a reply is given up."""
NO_OBJECT = "it holds no JSON object"
_QUOTED = (INPUT, OUTPUT, ERROR)
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None, object_pairs_hook=lambda pairs: _unique(pairs))
_TAGS = "(?:seed:)?think|thinking|thought|reasoning|analysis|scratchpad"
_OPEN = re.compile(
    rf"""(?<![`"'“])(?:<(?:{_TAGS})>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|channel\|?>(?!final))""", re.IGNORECASE
)
_CLOSE = re.compile(
    rf"</(?:{_TAGS})>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<\|channel\|>final|<channel\|>|assistantfinal",
    re.IGNORECASE,
)
"""How models mark their reasoning: tags (one in quotes is only spoken of) and channels (those of gpt-oss also where a
server has dropped its special tokens)."""


def final_object(
    text: str, form: Form, cut: bool = False, meaning: Meaning | None = None
) -> tuple[dict[str, Any] | None, str]:
    """The last JSON object of a reply, or None and the reason.

    Passed over: code fences, prose, reasoning in the tags and channels of known models, quotations on lines that are
    prefixed as the trace's lines are, and earlier objects that are no answer. A quoted verdict must not become the
    verdict, so these are refused: an object inside one that is broken (in a reply that was `cut`: after one), a
    quotation at the end, and two answers of another meaning: which of them is meant would be a guess.

    An earlier object is an answer if it has the whole `form`, or all of it that the last one has. `meaning` is by
    default all of the form but the rationale.
    """
    _, found, problem = last_object(text, form, cut, meaning)
    return found, problem


def last_object(
    text: str, form: Form, cut: bool = False, meaning: Meaning | None = None
) -> tuple[int, dict[str, Any] | None, str]:
    """`final_object` with the object's place in the text before it."""
    objects, broken = _objects(text)
    if objects is None:
        return 0, None, "it holds too many opening braces that start no JSON object"
    if not objects:
        return 0, None, NO_OBJECT if not broken else "its JSON is broken"
    start, end, found = objects[-1]
    before, after = text[:start], text[end:]
    line = before.rpartition("\n")[2]
    if line.startswith(_QUOTED):
        return start, None, "it ends with a quotation from the trace"
    if "}" in after or after.lstrip()[:1] in ("]", ",") or (broken and (cut or line.strip(" \t`"))):
        return start, None, "its JSON is broken"
    reasoning = _last(_CLOSE, before)
    if _last(_CLOSE, after) >= 0 or _last(_OPEN, before) > reasoning:
        return start, None, "it ends inside its reasoning"
    said = meaning or partial(_but_rationale, form)
    wanted = {key for key in form if key in found} or set(form)
    for place, _, answer in objects[:-1]:
        is_answer = place > reasoning and wanted <= answer.keys() and not _is_quoted(text, place)
        if is_answer and said(answer) != said(found):
            return start, None, "it holds two answers that differ"
    return start, found, ""


def _objects(text: str) -> tuple[list[tuple[int, int, dict[str, Any]]] | None, bool]:
    """The outermost JSON objects with their start and end, None if the search was given up; and whether one is
    broken."""
    objects: list[tuple[int, int, dict[str, Any]]] = []
    position, false_starts, broken = 0, 0, False
    while (position := text.find("{", position)) >= 0:
        try:
            value, stop = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            broken = broken or re.match(r'\{\s*"', text[position : position + 100]) is not None
            false_starts += 1
            position += 1
            if false_starts > MAX_FALSE_STARTS:
                return None, broken
        else:
            objects.append((position, stop, value))
            position = stop
    return objects, broken


def _but_rationale(form: Form, answer: Mapping[str, Any]) -> Any:
    return {key: answer.get(key) for key in form if key != "rationale"}


def _last(marker: re.Pattern[str], text: str) -> int:
    """Where a marker of reasoning stands last outside of quotations, -1 where none does."""
    places = [found.start() for found in marker.finditer(text)]
    return next((place for place in reversed(places) if not _is_quoted(text, place)), -1)


def _is_quoted(text: str, place: int) -> bool:
    return text.startswith(_QUOTED, text.rfind("\n", 0, place) + 1)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a key stands twice")
    return row
