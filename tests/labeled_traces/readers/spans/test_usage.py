from __future__ import annotations

import pytest

from labeled_traces.readers.spans.usage import model_attributes, token_counts, usage
from labeled_traces.trace import JSON


@pytest.mark.parametrize("twelve", [12, 12.0, "12"])
def test_a_count_is_a_whole_number_however_it_is_written(twelve: JSON) -> None:
    assert token_counts({"prompt": twelve, "completion": None}) == {"prompt": 12}
    assert usage({"gen_ai": {"usage": {"input_tokens": twelve}}}) == {"llm.token_count": {"prompt": 12}}


@pytest.mark.parametrize("wrong", [True, -1, 1.5, float("inf"), float("nan"), 1e15, "twelve", [12], None])
def test_what_is_no_count_is_unknown(wrong: JSON) -> None:
    assert token_counts({"prompt": wrong, "total": 3}) == {"total": 3}
    assert usage({"gen_ai": {"usage": {"input_tokens": wrong}}}) == {}


def test_where_all_counts_are_0_nobody_counted() -> None:
    assert token_counts({"prompt": 0, "completion": 0, "total": 0}) == {}
    assert token_counts({"prompt": 4, "completion": 0}) == {"prompt": 4, "completion": 0}


def test_the_first_name_of_a_model_that_is_a_text_counts() -> None:
    assert model_attributes({}, None, "", 4, "gpt-5", "gpt-4") == {"llm.model_name": "gpt-5"}
    assert model_attributes({"total": 3}, None) == {"llm.token_count": {"total": 3}}
