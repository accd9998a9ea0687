"""The language of plans: what is written is read back, and nothing else is."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeled_traces.simulated.plan import Fact, Step, call_text, fact_words, parse_plan, parse_query, plan_text
from labeled_traces.trace import JSON

LOOKUP = Step("db_lookup", {"entity": "Velmar", "metric": "gdp", "year": 2021}, "v1")
SUM = Step("calculator", {"expression": "(v2 - v1) / v1 * 100"}, "r")
CHART = Step("make_chart", {"kind": "line", "title": "GDP of Velmar, v1", "points": "v1"}, "c")


def test_a_plan_is_numbered_and_ends_with_its_marker() -> None:
    assert plan_text([LOOKUP, SUM]) == (
        '1. db_lookup(entity="Velmar", metric="gdp", year=2021) -> v1\n'
        '2. calculator(expression="(v2 - v1) / v1 * 100") -> r\n'
        "<end_plan>"
    )
    assert plan_text([LOOKUP], end=False) == '1. db_lookup(entity="Velmar", metric="gdp", year=2021) -> v1'


@given(
    st.lists(
        st.builds(
            Step,
            st.from_regex(r"\w{1,12}", fullmatch=True),
            st.dictionaries(
                st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
                st.one_of(
                    st.text(max_size=20),
                    st.integers(-(10**6), 10**6),
                    st.floats(0.001, 1000).map(lambda x: round(x, 2)),
                ),
                max_size=4,
            ),
            st.from_regex(r"\w{1,4}", fullmatch=True),
        ),
        max_size=5,
    )
)
def test_every_plan_is_read_back(steps: list[Step]) -> None:
    assert parse_plan(plan_text(steps)) == dict(enumerate(steps, 1))


@pytest.mark.parametrize(
    "line",
    [
        "1. db_lookup(entity=Velmar) -> v1",
        '1. db_lookup(entity="Velmar" year=2021) -> v1',
        '1. db_lookup(entity="Vel\\qmar") -> v1',
        '1. db_lookup(entity="Velmar")',
        '- db_lookup(entity="Velmar") -> v1',
        "First I look at the database.",
        f"{'9' * 5000}. calculator() -> r",
        "",
    ],
)
def test_a_line_that_is_no_step_is_left_out(line: str) -> None:
    assert parse_plan(f"Plan:\n{line}\n2. {LOOKUP}") == {2: LOOKUP}


def test_names_are_needed_only_where_values_can_stand() -> None:
    assert SUM.needs == ("v2", "v1")
    assert CHART.needs == ("v1",)
    assert LOOKUP.needs == ()


def test_resolve_puts_values_in_the_place_of_names() -> None:
    assert SUM.resolve({"v1": 512.3, "v2": 530.1}) == {"expression": "(530.1 - 512.3) / 512.3 * 100"}
    rows = [["2020", 1.5]]
    assert CHART.resolve({"v1": rows}) == {"kind": "line", "title": "GDP of Velmar, v1", "points": rows}
    assert LOOKUP.resolve({}) == LOOKUP.arguments
    assert SUM.resolve({"v1": 512.3}) is None


@pytest.mark.parametrize(
    ("tool", "arguments", "fact", "words"),
    [
        ("db_lookup", LOOKUP.arguments, ("gdp", "Velmar", 2021), "the GDP of Velmar in 2021"),
        (
            "db_series",
            {"entity": "Quillon Bank", "metric": "market_value", "start_year": 2020, "end_year": 2022},
            ("market_value", "Quillon Bank", 2020, 2022),
            "the market value of Quillon Bank from 2020 to 2022",
        ),
        ("db_top_k", {"year": 2022, "k": 3}, ("top", 2022, 3), "the top 3 banks in 2022"),
        ("web_search", {"query": "GDP of Velmar in 2021"}, ("gdp", "Velmar", 2021), "the GDP of Velmar in 2021"),
        ("web_search", {"query": "weather"}, None, "nothing"),
        ("db_lookup", {"entity": "Velmar"}, None, "nothing"),
        ("db_lookup", {"entity": "X", "metric": "mood", "year": 2020}, ("mood", "X", 2020), "the mood of X in 2020"),
        ("calculator", {"expression": "v1"}, None, "nothing"),
    ],
)
def test_what_a_fetch_is_about(tool: str, arguments: Mapping[str, JSON], fact: Fact | None, words: str) -> None:
    step = Step(tool, arguments, "v1")
    assert step.fact == fact
    assert fact_words(fact) == words


def test_a_call_is_written_as_in_a_plan() -> None:
    assert call_text("db_top_k", {"year": 2022, "k": "3"}) == 'db_top_k(year=2022, k="3")'


def test_a_query_is_read_whole_or_not_at_all() -> None:
    assert parse_query("market value of Calder Trust in 2023") == ("Calder Trust", 2023)
    assert parse_query("the market value of Calder Trust in 2023") is None
