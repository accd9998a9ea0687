"""The names that answers bear in benchmark harnesses, and where they stand with their values in a text."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from labeled_traces.trace import JSON

HARNESS_KEYS: tuple[str, ...] = (
    *("true answer", "annotator metadata", "gold patch", "test patch", "FAIL to PASS", "PASS to PASS"),
    *("gold actions", "reward info"),
)
"""Names of answers that only a benchmark's own code uses. Case, spaces, `_` and `-` do not count."""
ANSWER_KEYS: tuple[str, ...] = (
    *HARNESS_KEYS,
    *("ground truth", "ground truths", "ground truth answer", "expected answer", "expected answers"),
    *("expected response", "gold answer", "gold answers", "golden answer", "reference answer", "reference answers"),
    *("correct answer", "correct answers"),
)
"""Names of answers that an agent or its tools could use too."""
SAMPLE_KEYS: tuple[str, ...] = (
    *ANSWER_KEYS,
    *("expected output", "expected outputs", "expected result", "expected results", "reference output"),
    *("reference outputs", "reference response", "reference solution", "gold label", "gold labels", "gold response"),
    *("answer key", "canonical solution", "gt answer", "true label", "true labels", "ideal answer", "ideal response"),
)
"""Names of answers in the samples of evaluation frameworks: they are one only in what a run was started with."""
COMMON_KEYS = ("expected", "expectations", "ideal", "gold", "oracle")
"""As SAMPLE_KEYS, but ordinary words: they are a name only as the key of a mapping, never in a text."""
BESIDE: dict[str, tuple[str, ...]] = {
    "final answer": ("annotator metadata",),
    "patch": ("test patch", "FAIL to PASS", "PASS to PASS"),
}
"""A common word -> the names beside which it is an answer."""
LEFT_OUT = "[left out]"


@dataclass(frozen=True)
class Answer:
    """An answer in a text: `name` as it stands there, its `value`, and where that starts and ends, quotes included."""

    name: str
    value: JSON
    start: int
    end: int
    quote: str


def find_answers(text: str, names: tuple[str, ...], bare: tuple[str, ...], between: str = "[_-]?") -> Iterator[Answer]:
    """Answers in a text in their order: a JSON object, its escaped forms, a Python repr, `true_answer=...`.

    Args:
        names: looked for as keys in quotes.
        bare: looked for without quotes too.
        between: what stands between the words of a bare name (a regular expression).
    """
    if not may_name_answer(text):
        return
    pattern = _pattern(names, bare, between)
    match = pattern.search(text)
    while match is not None:
        start, quote = match.end(), match["quote"] or ""
        end = _end_of_value(text, start, not quote)
        raw = text[start:end]
        if raw.strip("\\\"' ") not in ("", LEFT_OUT, "null", "None"):
            yield Answer(match[0].strip(), _read(raw), start, end, quote)
        match = pattern.search(text, end)


def has_any(text: str, names: tuple[str, ...]) -> bool:
    """Whether one of the names is a key in quotes."""
    return may_name_answer(text) and _pattern(names, ()).search(text) is not None


def may_name_answer(text: str) -> bool:
    return _HINT.search(text) is not None


_HINT = re.compile(
    r"answer|truth|patch|annotator|to.?pass|gold|reward|expected|reference|canonical|true.?label|ideal", re.IGNORECASE
)


def _spellings(names: Iterable[str], between: str) -> str:
    return "|".join(name.replace(" ", between) for name in names)


@cache
def _pattern(names: tuple[str, ...], bare: tuple[str, ...], between: str = "") -> re.Pattern[str]:
    """`"true answer": x` with quotes of any kind, escaped or not; `true_answer: x`, `true_answer='x'`, `<...>x`, and
    columns of a table."""
    keys, bare_keys = _spellings(names, r"[\s_-]*"), _spellings(bare, between)
    quoted = rf"(?<!\\)(?P<quote>\\*[\"'])\s*+(?:{keys})\s*+(?P=quote)\s*+\]?\s*+[:=]\s*"
    plain = rf"(?<![\w\"'\\-])(?:{bare_keys})[*`]*(?:\s*[:=!]+[*`]*\s*|>\s*|\s+(?=[\"'])|[ \t]*(?:\||\t|  )[ \t]*)"
    return re.compile(f"{quoted}|{plain}" if bare else quoted, re.IGNORECASE)


_OPENS = re.compile(r"[\w.]*[\[({]")
_QUOTE = re.compile(r"[rbuRBU]{0,2}(\\*)('''|\"\"\"|'|\")")
_MARK = re.compile(r"(?<!\\)\\*[\"']|[\[({]|[\])}]")
_FOLLOWS = re.compile(r"\s*(?:[,:}\])]|$)")
_ITEM = re.compile(r"[^,}\])\n]*")
_LINE = re.compile(r"[^\n]*?(?=\s*(?:[)}\]\n<]|,\s*[\"']?\w+[\"']?\s*[:=]|$))")


def _end_of_value(text: str, at: int, to_end_of_line: bool) -> int:
    """Where the value that begins at `at` ends; the end of the text if it is cut off."""
    opened = _OPENS.match(text, at)
    if opened:
        return _closing(text, opened.end() - 1)
    quote = _QUOTE.match(text, at)
    if quote:
        return _end_of_string(text, quote)
    rest = (_LINE if to_end_of_line else _ITEM).match(text, at)
    return rest.end() if rest else len(text)


def _end_of_string(text: str, opening: re.Match[str]) -> int:
    """A quote with n backslashes is closed by one with n. More of them are content or, if full pairs, may close it:
    that shows in what follows."""
    depth = len(opening[1])
    for closing in re.compile(rf"(?<!\\)(\\*){opening[2]}").finditer(text, opening.end()):
        more = len(closing[1]) - depth
        if more == 0 or (more > 0 and more % (2 * (depth + 1)) == 0 and _FOLLOWS.match(text, closing.end())):
            return closing.end()
    return len(text)


def _closing(text: str, at: int) -> int:
    depth = 0
    while mark := _MARK.search(text, at):
        at = mark.end()
        if mark[0] in "[({":
            depth += 1
        elif mark[0] in "])}":
            depth -= 1
            if depth <= 0:
                return at
        elif quote := _QUOTE.match(text, mark.start()):
            at = _end_of_string(text, quote)
    return len(text)


def _read(raw: str) -> JSON:
    """A value in a text as what it means; as it stands if it is no literal."""
    text = raw.strip()
    for plain in (text, text.replace("\\", "")):
        with suppress(ValueError, RecursionError):
            return json.loads(plain)
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(plain)
    return text.strip("\\\"'")
