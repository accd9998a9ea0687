from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.fit import BYTES_PER_TOKEN, Block, Content, fit
from judges.notation import INPUT, OUTPUT, clean

MARK = re.compile(r"\[\.\.\. (\d+) characters left out \.\.\.\]")


def block(number: int, *texts: str) -> Block:
    return Block(f"@span s{number}\n", tuple(Content(INPUT, "[user] ", text) for text in texts))


def size(text: str) -> int:
    return len(text.encode())


def test_what_fits_is_not_touched() -> None:
    blocks = [block(0, "hello\nthere"), Block("@span s1\n", (Content(OUTPUT, "", "done"),))]
    fitted = fit(blocks, 1000)
    assert fitted.text == "@span s0\n> [user] hello\n> there\n@span s1\n< done\n"
    assert (fitted.cut, fitted.kept) == (0, (0, 1))


def test_a_text_of_exactly_the_limit_fits() -> None:
    text = block(0, "x" * 981).written
    assert size(text) == 250 * BYTES_PER_TOKEN
    assert fit([block(0, "x" * 981)], 250).text == text
    assert fit([block(0, "x" * 981)], 249).cut > 0


def test_long_contents_are_cut_to_one_level_and_short_ones_stay() -> None:
    blocks = [block(0, "a" * 4000, "short"), block(1, "b" * 2000), block(2, "c" * 300)]
    fitted = fit(blocks, 500)
    lines = fitted.text.split("\n")
    a, b = lines[1], lines[4]
    assert "> [user] short" in lines
    assert "> [user] " + "c" * 300 in lines
    assert abs(len(a) - len(b)) <= 3, "the longest contents are cut to the same length"
    assert 1980 <= size(fitted.text) <= 2000, "no room is wasted"
    assert fitted.kept == (0, 1, 2)


def test_head_and_tail_stay_and_the_mark_counts_what_is_missing() -> None:
    text = "".join(f"{i:04d}" for i in range(1000))
    fitted = fit([block(0, text)], 100)
    shown = fitted.text.split("\n")[1].removeprefix("> [user] ")
    head, missing, tail = MARK.split(shown)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert int(missing) == fitted.cut == len(text) - len(head) - len(tail)
    assert abs(len(head) - len(tail)) <= 1


def test_characters_of_several_bytes_are_never_split() -> None:
    for limit in range(20, 40):
        fitted = fit([block(0, "😀é" * 100)], limit)
        assert set(MARK.sub("", fitted.text)) <= set("@span s0\n> [user] 😀é")
        assert size(fitted.text) <= limit * BYTES_PER_TOKEN


def test_line_prefixes_count() -> None:
    """A text of line breaks alone takes three bytes a character, four where each line needs a backslash."""
    for text in ("\n" * 4000, "\n[a]" * 4000, "\n\\" * 4000):
        fitted = fit([block(0, text), block(1, "b")], 256)
        assert size(fitted.text) <= 1024
        assert fitted.cut > 0


@pytest.mark.parametrize("limit", range(60, 120))
def test_the_limit_holds_where_marks_are_longer_than_what_they_may_take(limit: int) -> None:
    blocks = [block(0, *("x" * 10**n for n in range(6))), block(1, *("y" * 99_999 for _ in range(3)))]
    assert size(fit(blocks, limit).text) <= limit * BYTES_PER_TOKEN


def test_blocks_go_from_the_middle_when_headers_alone_do_not_fit() -> None:
    fitted = fit([block(i, "x" * 10) for i in range(1000)], 100)
    assert fitted.kept[0] == 0
    assert fitted.kept[-1] == 999
    middle = 1000 - len(fitted.kept)
    assert f"\n[... {middle} spans left out ...]\n" in fitted.text
    assert fitted.cut == 10 * middle
    assert size(fitted.text) <= 400


def test_blocks_that_stay_while_others_go_show_what_is_in_them() -> None:
    fitted = fit([block(i, "x" * 5000, "y" * 5000) for i in range(1000)], 1000)
    shown = fitted.text.count("x") / len(fitted.kept)
    assert 150 <= shown <= 300
    assert 5 < len(fitted.kept) < 20
    assert fitted.text.startswith("@span s0\n")


def test_too_small_a_limit_for_any_block_says_so() -> None:
    fitted = fit([block(0, "x"), block(1, "yy")], 5)
    assert fitted.kept == ()
    assert fitted.text == "[... 2 spans left out ...]\n"
    assert fitted.cut == 3


@given(
    st.lists(st.lists(st.text(max_size=400).map(clean), max_size=3), min_size=1, max_size=8),
    st.integers(min_value=8, max_value=400),
)
def test_the_limit_holds_and_the_count_is_right(texts: list[list[str]], limit: int) -> None:
    blocks = [block(i, *contents) for i, contents in enumerate(texts)]
    fitted = fit(blocks, limit)
    assert size(fitted.text) <= limit * BYTES_PER_TOKEN
    if sum(size(b.written) for b in blocks) <= limit * BYTES_PER_TOKEN:
        assert fitted.text == "".join(b.written for b in blocks)
        assert fitted.cut == 0
    shown = re.findall(r"(?m)^@span s(\d+)$", fitted.text)
    assert shown == [str(i) for i in fitted.kept]


@pytest.mark.parametrize("limit", [256, 5_000])
def test_ten_thousand_blocks_take_a_moment(limit: int) -> None:
    blocks = [block(i, "some text " * 20, "more") for i in range(10_000)]
    assert size(fit(blocks, limit).text) <= limit * BYTES_PER_TOKEN
