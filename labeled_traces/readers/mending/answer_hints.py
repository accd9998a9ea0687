"""Whether a trace can hold an answer at all: one quick look at all of its texts and keys before the careful one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from labeled_traces.quick_text import is_valid, text_search
from labeled_traces.readers.mending.answer_text import BESIDE, COMMON_KEYS, SAMPLE_KEYS, may_name_answer
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

_SPACE = r"[\s\x1c-\x1f]"


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A name without case, spaces, `_`, `-` and other marks."""
    return re.sub(r"[\W_]+", "", name).casefold()


_NAMES = frozenset(map(plain, (*SAMPLE_KEYS, *COMMON_KEYS, *BESIDE)))


def note_answers(metadata: JSON, report: ReadReport) -> None:
    """Notes the answers that stand in metadata of which nothing but names of agents and the like is read."""
    for key in metadata if isinstance(metadata, dict) else ():
        report.strip(f"metadata: {key}", 1 if plain(key) in _NAMES else 0)


def texts_with_names(values: Iterable[JSON]) -> tuple[set[str], bool]:
    """The texts in these values that may hold the name of an answer, and whether a key of a mapping bears one."""
    texts: set[str] = set()
    keys: set[str] = set()
    found = list(values)
    for item in found:
        if isinstance(item, str):
            texts.add(item)
        elif isinstance(item, dict):
            keys.update(item)
            found += item.values()
        elif isinstance(item, list):
            found += item
    return set(filter(_suspicious, texts)), not _NAMES.isdisjoint(map(plain, keys))


def _suspicious(text: str) -> bool:
    if _named_value().isinstance_python(text):
        return True
    return not is_valid(text) and may_name_answer(text)  # a lone surrogate stops the search


@cache
def _named_value() -> SchemaValidator:
    """A name and what stands behind it where it has a value: a closing quote, or what `find_answers` takes for one."""
    names = "|".join(name.replace(" ", f"(?:{_SPACE}|[_-])*") for name in SAMPLE_KEYS)
    follows = rf"[*`]*(?:{_SPACE}*(?:\\*[\"']|[:=!])|>|[ \t]*(?:\||\t|  ))"
    return text_search(f"(?i)(?:{names}){follows}")
