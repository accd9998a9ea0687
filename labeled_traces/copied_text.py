"""Runs of words that a prompt shares with labelled traces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from labeled_traces.dataset import LabeledTrace
from labeled_traces.trace import JSON

# Scripts without spaces between words: every character counts as a word.
_WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_WORD = re.compile(f"[{_WIDE}]|[^\\W{_WIDE}]+")


@dataclass(frozen=True)
class Copy:
    """`run`: words that the text called `name` and the trace have in common, as the trace has them."""

    name: str
    trace_id: str
    run: str


def copied_runs(
    texts: Mapping[str, str], rows: Iterable[LabeledTrace], *, words: int = 8, known: Iterable[LabeledTrace] = ()
) -> Iterator[Copy]:
    """The first shared run of `words` words for every pair of text and row; case and punctuation do not count.

    Rows count with what happened in them, their labels' texts and their reference. Runs that occur in `known` rows are
    no copies. Only the prompt texts are indexed, so memory does not grow with the rows.
    """
    names: dict[tuple[str, ...], list[str]] = {}
    for name, text in texts.items():
        for run in set(_runs(text, words)):
            names.setdefault(run, []).append(name)
    if not names:
        return
    for text in {text for row in known for text in _row_texts(row)}:
        for run in _runs(text, words):
            names.pop(run, None)
    found: dict[str, list[tuple[str, ...]]] = {}  # most texts occur in many rows: instructions, tool descriptions
    for row in rows:
        reported: set[str] = set()
        for text in _row_texts(row):
            if text not in found:
                found[text] = [run for run in _runs(text, words) if run in names]
            for run in found[text]:
                for name in names[run]:
                    if name not in reported:
                        reported.add(name)
                        yield Copy(name, row.trace_id, " ".join(run))


def _row_texts(row: LabeledTrace) -> dict[str, None]:
    """Each text once, in order: conversations repeat in span after span."""
    texts: dict[str, None] = {}
    for span in row.trace.spans:
        for value in (span.inputs, span.outputs, span.error):
            texts.update(dict.fromkeys(_strings(value)))
    for error in row.errors:
        texts.update(dict.fromkeys((error.description, error.evidence)))
    texts[row.reference or ""] = None
    return texts


def _strings(value: JSON) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            stack += reversed(list(item.values()))
        elif isinstance(item, Sequence):
            stack += reversed(item)


def _runs(text: str, words: int) -> Iterator[tuple[str, ...]]:
    found = _WORD.findall(text.casefold())
    return zip(*(found[start:] for start in range(words)), strict=False)
