"""Runs of words that a prompt shares with labelled traces."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from labeled_traces.dataset import LabeledTrace
from labeled_traces.trace import JSON

# Scripts without spaces between words: every character counts as a word.
_WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_WORD = re.compile(f"[{_WIDE}]|[^\\W_{_WIDE}]+")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_MARKS = re.compile("[\u0300-\u036f]")
_ENTITIES_IN_ENTITIES = 3
_UNICODE = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")
_SURROGATES = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(r"\\+[bfnrt]", re.IGNORECASE)
_LONG = 200
_END = object()


Said: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Copy:
    """`run`: words that the text called `name` and the trace have in common, as the trace has them."""

    name: str
    trace_id: str
    run: str


def copied_runs(texts: Mapping[str, str], rows: Said, *, words: int = 8, known: Said | None = None) -> Iterator[Copy]:
    """The first shared run of `words` words for every pair of text and row; how they are written does not count (case,
    punctuation, underscores, escapes of JSON and HTML, forms of Unicode, accents, characters that are not seen).

    Runs that occur in `known` rows are no copies. Only the prompt texts are indexed by their runs.
    """
    names: dict[tuple[str, ...], list[str]] = {}
    for name, text in texts.items():
        for run in set(_runs(text, words)):
            names.setdefault(run, []).append(name)
    if not names:
        return
    for text in {text for row_texts in (known or {}).values() for text in row_texts}:
        for run in _runs(text, words):
            names.pop(run, None)
    found: dict[str, list[tuple[str, ...]]] = {}  # most texts occur in many rows: instructions, tool descriptions
    for trace_id, row_texts in rows.items():
        reported: set[str] = set()
        for text in row_texts:
            if text not in found:
                found[text] = [run for run in _runs(text, words) if run in names]
            for run in found[text]:
                for name in names[run]:
                    if name not in reported:
                        reported.add(name)
                        yield Copy(name, trace_id, " ".join(run))


def said_in(rows: Iterable[LabeledTrace]) -> Said:
    """Trace id -> the texts of a row: what happened in it (values as JSON shows them), its labels' texts and its
    reference. Who looks at the same rows often makes this once."""
    return {row.trace_id: tuple(_row_texts(row)) for row in rows}


def _row_texts(row: LabeledTrace) -> dict[str, None]:
    """Each text once, in order: conversations repeat in span after span."""
    texts: dict[str, None] = {}
    for span in row.trace.spans:
        for value in (span.inputs, span.outputs, span.error):
            texts.update(dict.fromkeys(_texts(value)))
    for error in row.errors:
        texts.update(dict.fromkeys((error.description, error.evidence)))
    texts[row.reference or ""] = None
    return texts


def _texts(value: JSON) -> Iterator[str]:
    """A value as it reads: keys and values in their order, as JSON has them. A long string and a message of a
    conversation are texts of their own, so that what repeats is looked at once."""
    stack: list[JSON] = [value]
    text: list[str] = []
    while stack:
        item = stack.pop()
        ends = item is _END or (isinstance(item, str) and len(item) > _LONG)
        if ends and text:
            yield " ".join(text)
            text.clear()
        if item is _END:
            continue
        if isinstance(item, str):
            if ends:
                yield item
            else:
                text.append(item)
        elif isinstance(item, Mapping):
            parts = [part for pair in item.items() for part in pair]
            stack += reversed([_END, *parts, _END] if "role" in item else parts)
        elif isinstance(item, Sequence):
            stack += reversed(item)
        else:
            text.append(json.dumps(item))
    if text:
        yield " ".join(text)


def words_of(text: str) -> list[str]:
    """The words of a text; how they are written does not count (see `copied_runs`)."""
    return _WORD.findall(_plain(text))


def _runs(text: str, words: int) -> Iterator[tuple[str, ...]]:
    found = words_of(text)
    return zip(*(found[start:] for start in range(words)), strict=False)


def _plain(text: str) -> str:
    """The text as a reader sees it, in small letters."""
    text = _unescaped(_bare(text))
    for _ in range(_ENTITIES_IN_ENTITIES):
        text = html.unescape(text)
    return _bare(text).casefold()


def _bare(text: str) -> str:
    """The text without forms of letters, accents, and characters that are not seen."""
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKD", _UNSEEN.sub("", text))
    return unicodedata.normalize("NFC", _MARKS.sub("", text))


def _unescaped(text: str) -> str:
    """The text with JSON's escapes read, however often it was put into JSON: what stands in a string of a string of a
    file has the words that a reader sees."""
    if "\\" not in text:
        return text
    text = _UNICODE.sub(lambda code: chr(int(code[1] or code[2], 16)), text)
    if _SURROGATES.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROL.sub(" ", text)
