from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeled_traces.readers.mending.answer_hints import texts_with_names
from labeled_traces.readers.mending.answer_text import ANSWER_KEYS, BESIDE, SAMPLE_KEYS, find_answers

_NAMES = (*SAMPLE_KEYS, *BESIDE)


@given(
    st.text(),
    st.sampled_from(_NAMES),
    st.text(" \t\n_-\u00a0\u2003\x1c\x85", max_size=3),
    st.sampled_from([str.upper, str.title, str.lower]),
    st.sampled_from(['"{}": "x y"', "{}: x", "{}=3", '\\"{}\\": \\"x\\"', "'{}': [1]", "| {} | x |", "<{}>x"]),
    st.text(),
)
def test_no_text_with_an_answer_is_passed_over(
    before: str, name: str, between: str, case: object, form: str, after: str
) -> None:
    text = before + form.format(case(name).replace(" ", between)) + after  # type: ignore[operator]
    if list(find_answers(text, _NAMES, ANSWER_KEYS, "[ _-]?")) and name in SAMPLE_KEYS:
        assert texts_with_names([{"a": [text]}]) == ({text}, False)


def test_what_bears_no_name_is_no_hint() -> None:
    assert texts_with_names([{"answer": "the patch is expected", "a": [1, None, "a reference"]}, "ideal"]) == (
        set(),
        False,
    )


@pytest.mark.parametrize("key", ["True-Answer", "gold", "final answer", "patch", "expectations"])
def test_keys_that_bear_a_name_are_seen(key: str) -> None:
    assert texts_with_names([[{"a": {key: 1}}]]) == (set(), True)


def test_a_lone_surrogate_hides_nothing() -> None:
    text = '\ud800 "true_answer": 5'
    assert texts_with_names([text, "\ud800 nothing"]) == ({text}, False)
