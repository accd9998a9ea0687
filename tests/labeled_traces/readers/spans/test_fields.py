from __future__ import annotations

import pytest

from labeled_traces.readers.spans.fields import duration, seconds, span_kind, status
from labeled_traces.trace import JSON, SpanKind


@pytest.mark.parametrize(
    "value",
    [
        "2025-03-19T16:42:36.500Z",
        "2025-03-19T17:42:36.500000000+01:00",
        "2025-03-19 16:42:36.5",
        1742402556.5,
        1742402556500,
        1742402556500000,
        1742402556500000000,
        "1742402556500000000",
        " 1742402556.5 ",
    ],
)
def test_times_in_every_unit(value: JSON) -> None:
    assert seconds(value) == pytest.approx(1742402556.5)


@pytest.mark.parametrize("value", [None, "", "noon", True, -5, float("nan"), float("inf"), 10**400, [], {}, "9" * 5000])
def test_what_is_no_time(value: JSON) -> None:
    assert seconds(value) is None


def test_small_numbers_are_seconds() -> None:
    assert seconds(0) == 0.0
    assert seconds(12.25) == 12.25


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("PT0.125S", 0.125),
        ("PT1M2S", 62.0),
        ("PT1H", 3600.0),
        ("P1DT1H1M1.5S", 90061.5),
        ("P", None),
        ("PT", None),
        ("0.125", None),
        (None, None),
        (3, 3e-06),
        (True, None),
        (-1, None),
    ],
)
def test_durations(value: JSON, expected: float | None) -> None:
    assert duration(value) == expected


def test_kinds_and_states() -> None:
    assert span_kind(" llm ") is SpanKind.LLM
    assert [span_kind(value) for value in ("Internal", "SpanKind.INTERNAL", None, 3)] == [SpanKind.UNKNOWN] * 4
    assert [status(value) for value in ("Error", "STATUS_CODE_ERROR", "StatusCode.ERROR", 2)] == ["ERROR"] * 4
    assert [status(value) for value in ("Ok", "STATUS_CODE_OK", 1)] == ["OK"] * 3
    unset: list[JSON] = ["Unset", None, 0, [], ""]
    assert [status(value) for value in unset] == ["UNSET"] * 5
