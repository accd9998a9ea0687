"""The JSON object that a reply ends with: its answer, or the reason why there is none. No quotation is taken for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from judges.notation import ERROR, INPUT, OUTPUT

MAX_FALSE_STARTS = 1000
"""How many opening braces that start no JSON object are passed over before a reply is given up."""
NO_OBJECT = "it holds no JSON object"
_ANSWERS = ("score", "result", "findings", "plans")
"""Keys that make an object an answer."""
_QUOTED = (INPUT, OUTPUT, ERROR)
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None, object_pairs_hook=lambda pairs: _unique(pairs))


def final_object(text: str, cut: bool = False) -> tuple[dict[str, Any] | None, str]:
    """The last JSON object of a reply, or None and the reason.

    Passed over: code fences, prose, reasoning in `<think>` tags, quotations on lines that are prefixed as the trace's
    lines are, and earlier objects that are no answer. A quoted verdict must not become the verdict, so these are
    refused: an object inside one that is broken (in a reply that was `cut`: after one), a quotation at the end, and two
    answers that say different things: which of them is meant would be a guess.
    """
    _, found, problem = last_object(text, cut)
    return found, problem


def last_object(text: str, cut: bool = False) -> tuple[int, dict[str, Any] | None, str]:
    """`final_object` with the object's place in the text before it."""
    found, start, end, broken = None, 0, 0, False
    answers: list[tuple[int, dict[str, Any]]] = []
    false_starts = position = 0
    while (position := text.find("{", position)) >= 0:
        try:
            value, stop = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            broken = broken or re.match(r'\{\s*"', text[position : position + 100]) is not None
            false_starts += 1
            position += 1
            if false_starts > MAX_FALSE_STARTS:
                return start, None, "it holds too many opening braces that start no JSON object"
        else:
            found, start, end, position = value, position, stop, stop
            if not value.keys().isdisjoint(_ANSWERS):
                answers.append((start, value))
    before, after = text[:start], text[end:]
    if found is None:
        return start, None, NO_OBJECT if not broken else "its JSON is broken"
    line = before.rpartition("\n")[2]
    if line.startswith(_QUOTED):
        return start, None, "it ends with a quotation from the trace"
    if "}" in after or after.lstrip()[:1] in ("]", ",") or (broken and (cut or line.strip(" \t`"))):
        return start, None, "its JSON is broken"
    if "</think>" in after or before.rfind("<think>") > before.rfind("</think>"):
        return start, None, "it ends inside its reasoning"
    if any(answer != found for answer in _outside_reasoning(answers, before)):
        return start, None, "it holds two answers that differ"
    return start, found, ""


def _outside_reasoning(answers: list[tuple[int, dict[str, Any]]], text: str) -> Iterator[dict[str, Any]]:
    """The answers that are neither in the text's reasoning nor quoted from a trace."""
    reasoning = text.rfind("</think>")
    for start, answer in answers:
        if start > reasoning and not text[:start].rpartition("\n")[2].startswith(_QUOTED):
            yield answer


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise ValueError("a key stands twice")
    return row
