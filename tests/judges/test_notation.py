from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.notation import (
    INPUT,
    MESSAGE_HEADER,
    bare_or_quoted,
    clean,
    json_text,
    prefixed,
    quoted,
    text_of,
    unescaped,
    value_of,
)

TEXTS = st.text(st.characters(codec=None), max_size=60)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("a\r\nb\nc", "a\nb\nc"),
        ("a\rb", "a\ufffdb"),
        ("a\x00b\x0bc\x0cd\x1ce\x85f", "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf"),
        ("a\u2028b\u2029c", "a\ufffdb\ufffdc"),
        ("\ud83d alone", "\ufffd alone"),
        ("\U0001f600 שלום\ttab", "\U0001f600 שלום\ttab"),
    ],
)
def test_clean(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned


@given(TEXTS)
def test_clean_text_has_one_kind_of_line_break_and_can_be_sent(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert cleaned.splitlines() == cleaned.split("\n")[: len(cleaned.splitlines())]
    assert len(cleaned) == len(text.replace("\r\n", "\n"))
    assert clean(cleaned) == cleaned


def test_json_stands_on_one_line_and_reads_as_it_is() -> None:
    assert json_text({"b": "Zürich\n", "a": [1, None, 2.5]}) == '{"b": "Zürich\\n", "a": [1, null, 2.5]}'


def test_what_json_cannot_hold_is_shown_all_the_same() -> None:
    assert json_text({"when": complex(1, 2)}) == '{"when": "(1+2j)"}'
    assert json_text({("a", 1): 2}).startswith("(not shown: keys must be str")
    loop: list[Any] = []
    loop.append(loop)
    assert json_text(loop).startswith("(not shown: Circular reference")


def test_a_nesting_that_no_parser_reads_is_shown_as_a_note() -> None:
    deep: Any = 0
    for _ in range(100_000):
        deep = [deep]
    assert json_text(deep).startswith("(not shown: maximum recursion")
    assert value_of("[" * 100_000) == "[" * 100_000


@given(JSON_VALUES)
def test_a_text_comes_back_as_what_is_written_alike(value: Any) -> None:
    text = text_of(value)
    assert text_of(value_of(text)) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a":1}', '{"a":1}'),
        ("48.1", 48.1),
        ("48.10", "48.10"),
        ('"quoted"', '"quoted"'),
        ("null", None),
        ("", ""),
        ("plain text", "plain text"),
    ],
)
def test_a_string_is_read_as_json_only_if_json_is_written_just_so(text: str, value: Any) -> None:
    assert value_of(text) == value


@given(TEXTS)
def test_ids_are_one_word_or_a_json_string_and_never_lost(text: str) -> None:
    word = bare_or_quoted(text)
    assert "\n" not in word
    assert word.isprintable()
    assert (json.loads(word) if word.startswith('"') else word) == text
    assert word != "-"


@pytest.mark.parametrize("word", ["a1b2", "0x7f", "AAEC+/=", "step-0", "größe"])
def test_plain_ids_are_written_as_they_are(word: str) -> None:
    assert bare_or_quoted(word) == word


@pytest.mark.parametrize("word", ["", "-", "a b", 'a"b', "a\nb", "a\\b", "a\u2028b", "f(x)"])
def test_other_ids_are_quoted(word: str) -> None:
    assert bare_or_quoted(word) == json.dumps(word)


def test_names_are_readable_where_they_can_be_printed() -> None:
    assert quoted("größe 😀") == '"größe 😀"'
    assert quoted("a\u202eb\ud800") == '"a\\u202eb\\ud800"'


@given(TEXTS, st.sampled_from(["", "[user] "]))
def test_every_line_is_prefixed_and_only_the_header_looks_like_one(text: str, header: str) -> None:
    cleaned = clean(text)
    written = prefixed(INPUT, cleaned, header)
    assert written.endswith("\n")
    lines = written[:-1].split("\n")
    assert all(line.startswith(INPUT) for line in lines)
    contents = [line.removeprefix(INPUT) for line in lines]
    assert not any(MESSAGE_HEADER.match(line) for line in contents[1 if header else 0 :])
    first = contents[0].removeprefix(header) if header else unescaped(contents[0])
    assert "\n".join([first, *map(unescaped, contents[1:])]) == cleaned
