from __future__ import annotations

import pytest

from labeled_traces.json_values import decoded, decoded_scalar, either, first, get, listed
from labeled_traces.trace import JSON


def test_a_path_that_leads_nowhere_is_none() -> None:
    assert get({"a": {"b": 0}}, "a", "b") == 0
    assert get({"a": [1]}, "a", "b") is None
    assert get("text", "a") is None


@pytest.mark.parametrize("key", ["traceId", "trace_id"])
def test_a_field_is_found_in_either_case(key: str) -> None:
    assert either({"traceId": "x"}, key) == "x"
    assert either({"trace_id": "x"}, key) == "x"
    assert either({"traceId": None, "trace_id": "x"}, key) == "x"
    assert either({"traceId": 0, "trace_id": None}, key) == 0
    assert either(["traceId"], key) is None


def test_the_first_that_is_there_may_be_falsy() -> None:
    assert first(None, 0, 1) == 0
    assert first(None) is None


@pytest.mark.parametrize(
    ("text", "value", "any_value"),
    [
        (' {"a": 1}', {"a": 1}, {"a": 1}),
        ("[1]", [1], [1]),
        ("12", "12", 12),
        ("null", "null", None),
        ('"said"', '"said"', "said"),
        ("{no JSON", "{no JSON", "{no JSON"),
        ("[" * 100_000, "[" * 100_000, "[" * 100_000),
        (3, 3, 3),
    ],
)
def test_json_inside_a_text(text: JSON, value: JSON, any_value: JSON) -> None:
    assert decoded(text) == value
    assert decoded_scalar(text) == any_value


def test_what_is_no_list_has_no_items() -> None:
    assert listed("[1, 2]") == [1, 2]
    assert listed({"a": 1}) == []
