from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeled_traces.quick_json import dumps, loads
from labeled_traces.trace import JSON

_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**25), 10**25)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None))
)
_values = st.recursive(_leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=15)


def _same(one: JSON, other: JSON) -> bool:
    """Equal, and of one type all through: 1 is not 1.0."""
    return repr(one) == repr(other)


@given(_values, st.sampled_from([None, 1]), st.booleans())
def test_it_reads_as_the_standard_library_does(value: JSON, indent: int | None, ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii)
    assert _same(loads(text), json.loads(text))


@pytest.mark.parametrize(
    "before", ["", " ", "[", "[1,", '{"a":', '{"a": ', "[1234, 5678, 901, 2, -", "\n-", "[0.5, ", "[-"]
)
@pytest.mark.parametrize(
    "number", ["9" * 19, "9" * 20, "9223372036854775809", "18446744073709551616", "1" * 40, "1" * 19 + ".5", "1e400"]
)
def test_no_digit_of_a_long_number_is_lost(before: str, number: str) -> None:
    for padding in ("", " ", "  ", "   "):  # wherever it stands
        text = padding + before + number + "]" * before.count("[") + "}" * before.count("{")
        assert _same(loads(text), json.loads(text))


@pytest.mark.parametrize(
    "text", ['"\\ud800"', "NaN", "[-Infinity, 1]", '"\ud800"', '{"a": "\\u0000"}', "[1" + "0" * 19 + "]"]
)
def test_what_orjson_refuses_is_read_all_the_same(text: str) -> None:
    assert _same(loads(text), json.loads(text))


@pytest.mark.parametrize("text", ["", "[1,]", "{", "01", "[1] 2", "'a'", "\ufeff1"])
def test_what_is_no_json_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        loads(text)


def test_deep_nesting_is_read_as_far_as_python_can() -> None:
    for depth in (500, 1_100):
        text = "[" * depth + "]" * depth
        try:
            known = json.loads(text)
        except RecursionError:
            continue
        assert loads(text) == known
    with pytest.raises(RecursionError):
        loads("[" * 200_000 + "]" * 200_000)


@given(_values.filter(lambda value: "inf" not in repr(value)))
def test_what_is_written_is_read_back(value: JSON) -> None:
    line = dumps(value)
    assert b"\n" not in line
    assert _same(json.loads(line), json.loads(json.dumps(value)))


@pytest.mark.parametrize("value", [math.nan, [{"a": (1, -math.inf)}], {1, 2}, object()])
def test_what_json_does_not_have_is_not_written(value: JSON) -> None:
    with pytest.raises((TypeError, ValueError)):
        dumps({"given": value})
